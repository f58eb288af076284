"""Representations inside of finished runs: P@1 of the images that were learned from and of the test set."""

import json
from unittest import mock

import numpy as np
import pytest

from common.retrieval import evaluate_retrieval
from experiments.reports import UnitRun
from experiments.runs.pooling_weights import image_batches
from experiments.runs.trained_model import load_trained_model
from experiments.runs.unit import evaluate_embeddings
from experiments.studies import representations
from experiments.studies.representations import FEATURES, KEPT, REDRAWN, generalization_of
from tests.experiments.runs.feature_runs_test import SIZES, config_of
from tests.experiments.tiny_study import TinyStudy

pytestmark = pytest.mark.usefixtures("tiny_network", "functions_run_eagerly")


@pytest.mark.parametrize(
    ("loss", "given", "sizes"),
    [
        ("margin+distance", {"embedding_dim": 16}, {"disc": 16}),
        ("margin+distance+shared", SIZES, {"disc": 8, "shared": 8}),
    ],
)
def test_each_feature_the_backbone_and_a_drawn_head_are_searched_on_both_sides(loss, given, sizes, tmp_path):
    study = TinyStudy(tmp_path / "study")
    config = config_of(study, loss, max_steps=2, **given)
    study.runs.train(config, 0, 0, checkpoint_seconds=0)
    unit = UnitRun(study.runs.unit_dir(config, 0, 0), 0, 0, config.as_dict(), {})
    found = generalization_of(unit, study.dataset, None)
    assert list(found) == [*sizes, FEATURES, REDRAWN]
    trained = load_trained_model(unit.path, dataset=study.dataset)
    labels = {"training": trained.training.labels, "test": trained.dataset.test.labels}
    parts = {"training": trained.training, "test": trained.dataset.test}
    dims = {**sizes, FEATURES: trained.model.backbone.output_shape[-1], REDRAWN: sizes["disc"]}
    assert {name: figures["dim"] for name, figures in found.items()} == dims
    drawn = np.random.default_rng([0, 0]).normal(size=(dims[FEATURES], dims[REDRAWN])).astype(np.float32)
    start = 0
    for name, size in sizes.items():
        for side, examples in parts.items():
            vectors = trained.model.embed(image_batches(examples, trained.config, trained.dataset))
            vectors = vectors[:, start : start + size]
            distances = np.linalg.norm(vectors[:, None] - vectors[None], axis=-1)
            np.fill_diagonal(distances, np.inf)
            expected = np.mean(labels[side][distances.argmin(axis=1)] == labels[side])
            assert found[name][side] == pytest.approx(expected)
        start += size
    features = trained.model.embed(image_batches(parts["test"], trained.config, trained.dataset), output="features")
    assert found[FEATURES]["test"] == evaluate_retrieval(features, labels["test"]).as_dict()["P@1"]
    projected = features @ drawn
    projected /= np.linalg.norm(projected, axis=1, keepdims=True)
    with mock.patch.object(representations, "evaluate_embeddings", wraps=evaluate_embeddings) as evaluated:
        representations.generalization(trained, 0, 0)
    np.testing.assert_allclose(evaluated.call_args.args[0]["queries"], projected, atol=1e-6)
    kept = json.loads((unit.path / KEPT).read_text())
    assert kept == found
    (unit.path / KEPT).write_text(json.dumps({**kept, "as": "kept"}))
    assert "as" in generalization_of(unit, study.dataset, None)
