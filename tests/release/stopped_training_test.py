"""Runs whose processes are killed, or told to end, at random moments, against runs that nothing disturbed."""

import json
import multiprocessing
import pathlib
import time

import numpy as np
import pytest
import tensorflow as tf

from tests.release.small_training import draw_letters, train

pytestmark = [
    pytest.mark.release,  # of chosen moments `fit_test` has it; a process that is killed has `replicated_fit_test`
    pytest.mark.skipif(tf.__version__ < "2.16", reason="bit-exact resuming is promised on the default stack"),
]
STOPS = 8


@pytest.fixture(scope="module")
def start(tmp_path_factory):
    """Starts a process that trains in a folder."""
    images = tmp_path_factory.mktemp("images")
    draw_letters(images)
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.release.small_training"])

    def started(folder, method):
        process = context.Process(target=train, args=(str(images), str(folder), method, str(folder / "log.txt")))
        process.start()
        return process

    return started


def is_finished(folder):
    return bool(list((folder / "runs").rglob("result.json")))


def outcome(folder):
    """All that a finished run has written but its seconds: JSON values, and the bytes of arrays."""
    (run,) = (path.parent for path in (folder / "runs").rglob("result.json"))
    result = json.loads((run / "result.json").read_text())
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    found = {key: value for key, value in result.items() if not key.endswith("_seconds")}
    found["curve"] = [{key: value for key, value in line.items() if key != "seconds"} for line in lines]
    for name in ("weights.npz", "test_embeddings.npz"):
        with np.load(run / name, allow_pickle=False) as archive:
            found |= {f"{name} {key}": archive[key].tobytes() for key in archive.files}
    found["left over"] = sorted(path.name for path in pathlib.Path(run).glob("*.tmp"))
    return found


@pytest.mark.parametrize("method", ["c1+xbm+gap", "c2+ccp+gap"])
def test_a_run_that_is_stopped_at_any_moment_ends_bit_for_bit_as_if_it_had_not_been(start, method, tmp_path):
    undisturbed, began = tmp_path / "undisturbed", time.monotonic()
    undisturbed.mkdir()
    process = start(undisturbed, method)
    process.join(600)
    assert process.exitcode == 0, (undisturbed / "log.txt").read_text()
    seconds, expected = time.monotonic() - began, outcome(undisturbed)
    generator = np.random.default_rng(0)
    for number in range(STOPS):
        folder = tmp_path / "stopped" / str(number // 4)  # the first of a run are early, and later ones near its end
        folder.mkdir(parents=True, exist_ok=True)
        process = start(folder, method)
        process.join(generator.uniform(0.0, seconds))
        (process.kill if number % 2 else process.terminate)()
        process.join(600)
        assert process.exitcode in (0, -9, -15, 143), (folder / "log.txt").read_text()  # -15: not yet listening
    for folder in (tmp_path / "stopped").iterdir():
        for _ in range(1 if is_finished(folder) else 2):  # the second only reads the result
            process = start(folder, method)
            process.join(600)
            assert process.exitcode == 0, (folder / "log.txt").read_text()
        assert outcome(folder) == expected
