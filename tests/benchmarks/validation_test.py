import functools
import json

import pytest

from benchmarks.training_step import CASES
from benchmarks.validation import figures_of
from tests.command_line import check_clean_failure, run_here
from tests.experiments.tiny_network import tiny_network


def test_figures_are_medians_over_rounds_and_null_for_what_was_not_measured():
    embedding = {"files": [4.0, 8.0], "memory": [2.0, 6.0], "folded files": [2.0, 2.0], "folded memory": [1.0, 2.0]}
    figures = figures_of({**embedding, "metric": [1.0, 3.0]})
    assert figures == {
        "memory_over_files": 0.625,
        "memory_over_files_folded": 0.75,
        "folded_over_unfolded": pytest.approx(5 / 12),
        "metric_over_embedding": 0.5,
        "beside_over_in_turn": None,
    }
    assert figures_of({"in turn": [2.0], "beside": [1.0]})["beside_over_in_turn"] == 0.5


@pytest.mark.usefixtures("functions_run_eagerly")
def test_the_last_line_has_the_figures(monkeypatch):
    network = functools.partial(tiny_network, 3, frozen_batch_norm=True)
    monkeypatch.setitem(CASES, "mobilenet_v2_128", CASES["mobilenet_v2_128"]._replace(network=network))
    finished = run_here("benchmarks.validation", "--repeats=1", "--images=20", "--image_size=32", "--steps=1")
    assert finished.returncode == 0, finished.stderr
    figures = json.loads(finished.stdout.splitlines()[-1])
    assert all(value > 0 for value in figures.values())
    assert finished.stdout.startswith("20 images of 32 pixels, 0 MB, load average")
    assert "folded memory" in finished.stdout


def test_an_unknown_case_is_refused():
    check_clean_failure(run_here("benchmarks.validation", "--cases=embeding"), "--cases", "embedding, overlap")
