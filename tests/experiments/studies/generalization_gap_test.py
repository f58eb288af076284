import csv
import json
from unittest import mock

import numpy as np
import pytest

from common.retrieval import evaluate_retrieval
from experiments.plans.study import StudyOptions
from experiments.rows.rows import evaluate_embeddings
from experiments.rows.run_folders import collect_method
from experiments.runs.trained_model import load_trained_model
from experiments.studies import generalization_gap
from experiments.studies.dissertation_tables import dissertation_tables
from experiments.studies.generalization_gap import FEATURES, KEPT, REDRAWN, generalization_of
from tests.experiments.deployment.small_runs import finish_untrained
from tests.experiments.runs.feature_runs_test import SIZES, config_of
from tests.experiments.tiny_study import TinyStudy

MEASURED = {
    "disc": {"dim": 64, "training": 0.9, "test": 0.7},
    "shared": {"dim": 64, "training": 0.5, "test": 0.6},
    "features": {"dim": 1280, "training": 0.4, "test": 0.4},
}


@pytest.fixture
def study():
    return dissertation_tables()["milbich_3.6"](StudyOptions("cars196", "full"))


class WithRepresentations:
    """Finished cells whose representations were measured; those of odd folds have ten points more."""

    cache_dir = None

    def __init__(self, drawn, dataset):
        self._drawn, self.dataset = drawn, dataset

    def row(self, cell):
        row = self._drawn.row(cell)
        if row is not None:
            more = 0.1 * (cell.fold % 2)
            figures = {
                name: {**of, "training": of["training"] + more}
                for name, of in MEASURED.items()
                if name != "shared" or "shared" in cell.config.loss
            }
            (row.folder / "generalization.json").write_text(json.dumps(figures))
        return row


class Cars:
    name = "cars196"


def test_gaps_are_means_over_runs_with_the_printed_ones_beside(study, drawn_cells, tmp_path):
    text = study.render(WithRepresentations(drawn_cells(lambda cell: 0.5), Cars()), tmp_path, "item")
    assert "Generalisation gap: Milbich's dissertation, table 3.6" in text
    with open(tmp_path / "item_gap.csv", newline="") as file:
        rows = {(row["method"], row["representation"]): row for row in csv.DictReader(file)}
    assert len(rows) == 2 + 3 + 2
    margin, shared = "margin+distance+gap", "margin+distance+shared+gap"
    assert {name: row["printed gap (R@1)"] for name, row in rows.items()} == {
        (margin, "disc"): "-10.8",
        (margin, "features"): "-4.2",
        (shared, "disc"): "-5.8",
        (shared, "shared"): "+1.4",
        (shared, "features"): "-0.2",
        ("margin+distance+groups+gap", "disc"): "-",
        ("margin+distance+groups+gap", "features"): "-",
    }
    found = rows[shared, "shared"]
    assert (found["runs"], found["dim"]) == ("4", "64")
    assert (found["training P@1"], found["test P@1"], found["gap"]) == ("55.00", "60.00", "+5.00")


def test_a_method_without_finished_runs_has_no_gap(study, drawn_cells, tmp_path):
    first = study.cells(drawn_cells(lambda cell: None))[0]
    study.render(
        WithRepresentations(drawn_cells(lambda cell: 0.5 if cell == first else None), Cars()), tmp_path, "item"
    )
    with open(tmp_path / "item_gap.csv", newline="") as file:
        assert {row["method"] for row in csv.DictReader(file)} == {"margin+distance+gap"}


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
    config = config_of(study, loss, **given)
    (row,) = collect_method(finish_untrained(study, config).parent)
    found = generalization_of(row, study.dataset, None)
    assert list(found) == [*sizes, FEATURES, REDRAWN]
    trained = load_trained_model(row.folder, dataset=study.dataset)
    labels = {"training": trained.training.labels, "test": trained.dataset.test.labels}
    parts = {"training": trained.training, "test": trained.dataset.test}
    dims = {**sizes, FEATURES: trained.model.backbone.output_shape[-1], REDRAWN: sizes["disc"]}
    assert {name: figures["dim"] for name, figures in found.items()} == dims
    drawn = np.random.default_rng([0, 0]).normal(size=(dims[FEATURES], dims[REDRAWN])).astype(np.float32)
    start = 0
    for name, size in sizes.items():
        for side, examples in parts.items():
            vectors = trained.model.embed(trained.inputs(examples))
            vectors = vectors[:, start : start + size]
            distances = np.linalg.norm(vectors[:, None] - vectors[None], axis=-1)
            np.fill_diagonal(distances, np.inf)
            expected = np.mean(labels[side][distances.argmin(axis=1)] == labels[side])
            assert found[name][side] == pytest.approx(expected)
        start += size
    features = trained.model.embed(trained.inputs(parts["test"]), output="features")
    assert found[FEATURES]["test"] == evaluate_retrieval(features, labels["test"]).as_dict()["P@1"]
    projected = features @ drawn
    projected /= np.linalg.norm(projected, axis=1, keepdims=True)
    with mock.patch.object(generalization_gap, "evaluate_embeddings", wraps=evaluate_embeddings) as evaluated:
        generalization_gap.generalization(trained, 0, 0)
    np.testing.assert_allclose(evaluated.call_args.args[0]["queries"], projected, atol=1e-6)
    kept = json.loads((row.folder / KEPT).read_text())
    assert kept == found
    (row.folder / KEPT).write_text(json.dumps({**kept, "as": "kept"}))
    assert "as" in generalization_of(row, study.dataset, None)
