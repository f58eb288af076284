import types

import pytest

from common.errors import InvalidInput
from experiments.plans.study import StudyOptions
from experiments.recipes import resolve
from experiments.studies import collages
from experiments.studies.bars import poolings
from experiments.studies.collages import CIFAR_COLLAGES, Collages, start_notes, start_settings, starts_of
from tests.experiments.written_results import drawn_row


@pytest.mark.parametrize("dataset", CIFAR_COLLAGES)
def test_collages_of_photographs_train_as_printed(dataset):
    overrides = start_settings(dataset, "pretrained", "resnet20.npz")
    config = resolve(dataset, "pnca", "gsp", "thesis", "full", overrides)
    assert (config.weights, config.learning_rate, config.frozen_batch_norm) == ("resnet20.npz", 1e-3, False)
    assert (config.gsp_memory_features, config.gsp_memory_delay) == ("image_averages", 0)
    assert (config.num_prototypes, config.transport_ratio, config.smoothing) == (64, 0.2, 10.0)
    assert (config.zero_shot_weight, config.plateau_patience) == (0.5, 5)


def test_glyphs_keep_the_values_that_were_found_for_them():
    glyphs = {"smoothing": 20.0, "transport_ratio": 0.1, "gsp_memory_features": "local_features"}
    assert start_settings("glyph_collage", "scratch", "none") == {**glyphs, "gsp_memory_delay": 200}
    pretrained = {**glyphs, "learning_rate": 3e-4, "frozen_batch_norm": True, "weights": "a.npz"}
    assert start_settings("glyph_collage", "pretrained", "a.npz") == pretrained
    frozen = {**pretrained, "learning_rate": 1e-3, "frozen_backbone": True}
    assert start_settings("glyph_collage", "frozen", "a.npz") == frozen


def test_starts_are_those_that_have_a_network():
    assert starts_of("glyph_collage", None) == ["scratch", "pretrained", "frozen"]
    assert starts_of("cifar_collage", None) == ["scratch"]
    assert starts_of("cifar_collage", "a.npz", ["frozen"]) == ["frozen"]
    with pytest.raises(InvalidInput, match="--starts=frozen with --dataset=cifar_collage needs a backbone"):
        starts_of("cifar_collage", None, ["frozen"])


def test_a_start_from_nowhere_is_named():
    for weights, count in ((None, 1), ("none", 1), ("a.npz", 0)):
        assert len(start_notes("cifar_collage", weights)) == count
    assert start_notes("glyph_collage", None) == []
    (note,) = poolings(StudyOptions("cifar_collage", "full")).notes
    assert "from scratch" in note
    assert poolings(StudyOptions("cifar_collage", "full", overrides={"weights": "imagenet"})).notes == ()


def test_collages_are_compared_on_the_same_trainings_alone(tmp_path, monkeypatch):
    repeats = {"gap": (0, 1), "gsp": (0,), "gsp + L_ZS": (0, 1), "gap, distilled": ()}
    study = Collages(StudyOptions("glyph_collage", "demo", repeats=2, starts=("scratch",)))
    rows_of_cells = {
        cell: drawn_row(tmp_path / label / str(cell.repeat), cell.repeat, [*label.encode(), cell.repeat], 0.8)
        for label, cells in study.groups.items()
        for cell in cells
        if cell.repeat in repeats[label.removeprefix("scratch: pnca ")]
    }
    monkeypatch.setattr(collages, "target_share_extras", lambda row, dataset_of: row)
    kept = study.recorded(types.SimpleNamespace(row=rows_of_cells.get))
    rows = collages.collage_rows(kept)
    compared = {row.method: cell for row in rows if (cell := row["minus gap", "MAP@R"]).bounds}
    assert [row.method for row in rows] == [f"scratch: pnca {name}" for name in ("gap", "gsp", "gsp + L_ZS")]
    assert set(compared) == {"scratch: pnca gsp + L_ZS"}
    assert len(kept.rows) == 5  # all that is finished is recorded
    assert compared["scratch: pnca gsp + L_ZS"].is_difference
