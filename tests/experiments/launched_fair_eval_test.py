import json

import numpy as np
import pytest
import tensorflow as tf

from tests.support.command_line import SMALL_PHOTOGRAPHS, done_small

MODULE = "experiments.fair_eval"
MEASURED_ANEW = {"train_seconds", "processor_seconds", "environment"}
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(tf.__version__ < "2.16", reason="bit-exact resuming is promised on the default stack"),
]


def units(runs_dir):
    """Results and test embeddings of all units by their folders."""
    found = {}
    for path in runs_dir.glob("fair/*/*/*/result.json"):
        result = {name: value for name, value in json.loads(path.read_text()).items() if name not in MEASURED_ANEW}
        with np.load(path.with_name("test_embeddings.npz")) as arrays:
            found[str(path.relative_to(runs_dir))] = (result, arrays["queries"].tobytes())
    return found


def test_workers_end_with_the_bits_of_one_unit_after_another(image_folder, tmp_path, monkeypatch):
    monkeypatch.setenv("TF_NUM_INTRAOP_THREADS", "1")  # as each of two workers has; sums of two threads differ in bits
    places = [f"--data_dir={image_folder}", f"--cache_dir={tmp_path / 'cache'}", "--noexport_model"]
    arguments = [*SMALL_PHOTOGRAPHS, *places, "--loss=pnca", "--pooling=gap", "--num_folds=2", "--checkpoint_seconds=0"]
    arguments += ["--max_steps=6", "--steps_per_evaluation=2", "--patience=100"]
    alone = done_small(MODULE, *arguments, f"--runs_dir={tmp_path / 'alone'}")
    launched = [*arguments, f"--runs_dir={tmp_path / 'runs'}", "--launch=local", "--workers=2"]
    finished = done_small(MODULE, *launched)
    assert units(tmp_path / "runs") == units(tmp_path / "alone")
    assert len(units(tmp_path / "runs")) == 2
    assert finished.stdout.splitlines()[:6] == alone.stdout.splitlines()[:6]
    assert "2 at once" in finished.stderr
    assert "%|" not in finished.stderr, "progress is in the logs"
