"""`fair_eval` trains features and PADS from their names, and reports both."""

import json

import numpy as np
import pytest

from tests.command_line import SMALL_PHOTOGRAPHS, run_small_here

DIVA = "margin+distance+shared+intra+dance+gap"
GIVEN = [a for a in SMALL_PHOTOGRAPHS if not a.startswith("--samples_per_class")]
GIVEN += [
    "--samples_per_class=4",
    "--max_steps=4",
    "--steps_per_evaluation=2",
    "--noexport_model",
    "--train_fraction=0.7",
]


@pytest.mark.slow
def test_names_of_features_and_pads_are_trained_and_reported(image_folder, tmp_path):
    methods = f"--methods=margin+distance+groups+gap,{DIVA},margin+pads+gap"
    places = [f"--data_dir={image_folder}", f"--cache_dir={tmp_path / 'cache'}", f"--runs_dir={tmp_path / 'runs'}"]
    pads = ["--fold=0", "--num_folds=2"]
    finished = run_small_here("experiments.fair_eval", *GIVEN, *places, *pads, methods)
    assert finished.returncode == 0, finished.stderr
    results = {path.parts[-3].rsplit("-", 1)[0]: json.loads(path.read_text()) for path in tmp_path.rglob("result.json")}
    assert sorted(results[DIVA]["features"]) == ["concatenated", "dance", "disc", "intra", "shared"]
    assert sorted(results["margin+distance+groups+gap"]["features"]) == ["concatenated", "disc", "groups"]
    (features,) = tmp_path.rglob("features.md")
    assert "margin+distance+groups+gap: images of 4 groups, each of " in features.read_text()
    assert f"Features, each on its own: {features}" in finished.stdout
    assert results["margin+pads+gap"]["sampling"]["decisions"] == 2
    (record,) = tmp_path.rglob("sampling.npz")
    assert np.load(record)["probabilities"].shape == (2, 30)
    assert f"{DIVA}, dance" in features.read_text()
    assert "Sampling distribution over steps: " in finished.stdout
    assert len(list(tmp_path.rglob("sampling.png"))) == 1
