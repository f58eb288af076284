import json

import pytest

from tests.support.command_line import run_small_here


@pytest.mark.slow
def test_the_last_line_has_the_figures():
    small = ["--repeats=1", "--image_size=32", "--watched=12", "--backbone=resnet10", "--fold_batch_norm"]
    finished = run_small_here("benchmarks.features", *small)
    assert finished.returncode == 0, finished.stderr
    figures = json.loads(finished.stdout.splitlines()[-1])
    assert {"shared_ratio", "diva_ratio", "pads_ratio", "pads_share", "plain_seconds"} <= figures.keys()
    assert 0 < figures["pads_share"] < 1
    assert [line.split()[0] for line in finished.stdout.splitlines()[1:6]] == [
        *("plain", "shared", "diva", "pads", "decision"),
    ]
