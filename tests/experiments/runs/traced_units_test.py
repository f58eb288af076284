import json

import numpy as np
import pytest

from common.training import EmbeddingModel
from experiments.recipes import resolve
from experiments.runs.unit_runs import UnitRuns
from experiments.settings.places import Places
from tests.experiments.patterned_images import patterned_images

SETTINGS = {
    "num_folds": 2,
    "embedding_dim": 16,
    "image_size": 32,
    "crop": "shift_flip",
    "classes_per_batch": 3,
    "samples_per_class": 2,
    "learning_rate": 1e-3,
    "steps_per_evaluation": 2,
    "max_steps": 6,
}
HEAD = {"trained_from": "head", "views": 2}
pytestmark = pytest.mark.usefixtures("tiny_network")
CASES = {
    "head": HEAD,
    "whole_network": {"plateau_patience": 1},
    "memory_and_gsp": {"loss": "c1+xbm", "xbm_batches": 3, "pooling": "gsp", "num_prototypes": 8, **HEAD},
    "ccp": {"method": "ccp", "ccp_start": 2, "proxies_per_class": 2, "pool_size": 4, **HEAD},
    "warm_up": {"loss": "softtriple", "warm_up_steps": 3, **HEAD},
}


def dataset():
    return patterned_images(12, 6)


def configuration(loss="c2", pooling="gap", method="plain", **overrides):
    return resolve("cifar10", loss, pooling, "thesis", "smoke", {**SETTINGS, **overrides}, method)


def left_by(runs, config, fold):
    """All numbers that a unit leaves: weights, last checkpoint with the optimiser, test embeddings, metrics."""
    runs.train(config, fold, 0, checkpoint_seconds=0)
    path = runs.unit_dir(config, fold, 0)
    arrays = {}
    for file in sorted(path.glob("*.npz")):
        content = np.load(file)
        arrays |= {f"{file.name}/{name}": content[name] for name in content.files if name != "version"}
    metrics = [json.loads(line) for line in (path / "metrics.jsonl").read_text().splitlines()]
    return arrays, [{name: value for name, value in each.items() if name != "seconds"} for each in metrics]


def test_losses_that_draw_with_the_seed_of_a_unit_share_no_trace(tmp_path):
    config = configuration("margin+distance+shared", samples_per_class=3, max_steps=2, **HEAD)
    cache = str(tmp_path / "cache")
    alone, metrics_alone = left_by(UnitRuns(dataset(), Places(str(tmp_path / "alone"), cache)), config, fold=1)
    together = UnitRuns(dataset(), Places(str(tmp_path / "together"), cache))
    left_by(together, config, fold=0)
    second, metrics = left_by(together, config, fold=1)
    assert metrics == metrics_alone
    for name, values in alone.items():
        np.testing.assert_array_equal(second[name], values, err_msg=name)


@pytest.mark.parametrize(
    "case", [pytest.param(name, marks=() if name == "whole_network" else pytest.mark.release) for name in CASES]
)
def test_a_unit_after_another_is_that_unit_alone(case, tmp_path, monkeypatch):
    config, cache = configuration(**CASES[case]), str(tmp_path / "cache")
    steps, step = [], EmbeddingModel.train_step
    monkeypatch.setattr(EmbeddingModel, "train_step", lambda model, data: steps.append(model) or step(model, data))
    alone, metrics_alone = left_by(UnitRuns(dataset(), Places(str(tmp_path / "alone"), cache)), config, fold=1)
    traced_alone = len(steps)
    together = UnitRuns(dataset(), Places(str(tmp_path / "together"), cache))
    first, _ = left_by(together, config, fold=0)
    second, metrics = left_by(together, config, fold=1)
    assert len(steps) == 2 * traced_alone  # by the first of the two units
    assert metrics == metrics_alone
    assert list(second) == list(alone)
    for name, values in alone.items():
        np.testing.assert_array_equal(second[name], values, err_msg=name)
    assert any(not np.array_equal(first[name], second[name]) for name in second)
