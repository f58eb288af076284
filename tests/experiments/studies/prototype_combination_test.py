import numpy as np
import pytest

from common.errors import InvalidInput
from experiments.plans.study import StudyOptions
from experiments.plans.study_runs import NothingFinished
from experiments.protocols.extras import hull_order
from experiments.studies import prototype_combination as study_module
from experiments.studies.figures import FIGURES
from experiments.studies.prototype_combination import (
    PrototypePlane,
    proposition_figures,
    shared_hulls,
)
from gsp_dml import prototype_combination


def features(seed=0, images=12, dim=2):
    generator = np.random.default_rng(seed)
    centers = generator.normal(scale=0.3, size=(images, 1, dim))
    local = centers + generator.normal(scale=0.2, size=(images, 16, dim))
    return local / np.linalg.norm(local, axis=-1).max()


def test_classes_with_the_same_active_prototypes_share_a_hull():
    prototypes = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [-1.0, -1.0]])
    of_first, of_second = prototypes[[0, 1, 2]], prototypes[[0, 2, 3]]
    local = np.stack([of_first, of_second, of_first[::-1]])
    plane = PrototypePlane(local, np.arange(3), prototypes, prototype_combination(local, prototypes), ["a", "b", "c"])
    assert {frozenset(corners): labels for corners, labels in shared_hulls(plane).items()} == {
        frozenset({0, 1, 2}): [0, 2],
        frozenset({0, 2, 3}): [1],
    }


def test_a_hull_without_area_keeps_its_points():
    np.testing.assert_array_equal(hull_order(np.array([[0.0, 0.0], [1.0, 1.0]])), [0, 1])
    square = np.array([[0.0, 0.0], [1.0, 0.0], [0.5, 0.5], [1.0, 1.0], [0.0, 1.0]])
    assert sorted(hull_order(square)) == [0, 1, 3, 4]


def test_the_three_figures_share_one_training():
    cells = [FIGURES[f"4.{number}"](StudyOptions("cifar10", "demo")).cells(NothingFinished()) for number in (2, 3, 4)]
    assert len({cell.config for (cell,) in cells}) == 1
    assert (cells[0][0].config.embedding_dim, cells[0][0].config.backbone) == (2, "resnet20")
    with pytest.raises(InvalidInput, match="one loss"):
        FIGURES["4.3"](StudyOptions("cifar10", "demo", losses=("c1", "c2")))


def test_the_run_is_recorded_with_the_features_of_its_pictures(drawn_cells, monkeypatch):
    local, labels = features(), np.repeat(np.arange(4), 3)
    monkeypatch.setattr(study_module, "plane_features", lambda row, dataset, cache_dir: (local, labels, list("abcd")))
    finished = drawn_cells(lambda cell: 0.4)
    finished.dataset, finished.cache_dir = object(), None
    (kept,) = FIGURES["4.3"](StudyOptions("cifar10", "demo")).recorded(finished).rows
    assert kept["label"] == "c2+gap in the plane"
    assert kept["extras"]["class_names"] == list("abcd")
    assert [of["covering radius"] for of in kept["extras"]["proposition"]] == pytest.approx(
        [of["covering radius"] for of in proposition_figures(local)], abs=1e-8
    )
    assert kept["extras"]["largest_error"] == kept["extras"]["proposition"][2]["largest error"]
    assert {name: of.shape for name, of in kept.arrays.items()} == {
        "local": local.shape,
        "labels": (12,),
        "prototypes": (48, 2),
    }
    is_feature = (kept.arrays["prototypes"][:, None] == kept.arrays["local"].reshape(1, -1, 2)).all(-1).any(-1)
    assert is_feature.all()
