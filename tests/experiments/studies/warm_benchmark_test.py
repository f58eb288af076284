"""The warm benchmark: equal trials, chosen on validation classes alone, and what is recorded of them."""

import dataclasses

import pytest

from common.errors import InvalidInput
from experiments.plans.study import StudyOptions
from experiments.plans.study_runs import NothingFinished
from experiments.studies.tables import TABLES


def options(dataset="cars196", budget="full", **others):
    return StudyOptions(dataset=dataset, budget=budget, **others)


def by_row(cells):
    rows = {}
    for cell in cells:
        rows.setdefault(cell.label.partition(" (")[0], []).append(cell)
    return rows


@pytest.mark.parametrize(("budget", "rates"), [("full", 5), ("demo", 3), ("smoke", 2)])
def test_every_method_tries_the_rates_of_its_baseline(budget, rates):
    study = TABLES["warm"](options(budget=budget))
    rows = by_row(study.cells(NothingFinished()))
    assert rows.keys() == study.rows.keys()
    for cells in rows.values():
        assert len(cells) == len({cell.config for cell in cells}) == rates
        assert {(cell.fold, cell.repeat) for cell in cells} == {(0, 0)}
    assert len({tuple(cell.config.learning_rate for cell in cells) for cells in rows.values()}) == 1
    assert all(row.baseline in (None, *study.rows) for row in study.rows.values())
    assert len(rows) == (27 if budget == "full" else 23)  # one proxy per class at the full budget alone


def test_methods_of_a_table_differ_in_what_their_name_says_and_in_what_is_tuned():
    cells = by_row(TABLES["warm"](options(losses=("c2",))).cells(NothingFinished()))
    assert list(cells) == ["c2+gap", "c2+xbm+gap", "c2+ccp+gap", "c2+ccp+gap, S", "c2+gsp"]
    first = {label: of[0].config for label, of in cells.items()}
    assert {(config.trained_from, config.backbone, config.chapter) for config in first.values()} == {
        ("head", "mobilenet_v2", 3)
    }
    assert (first["c2+ccp+gap"].proxies_per_class, first["c2+ccp+gap, S"].proxies_per_class) == (8, 1)
    assert first["c2+xbm+gap"].selection_start == first["c2+xbm+gap"].xbm_start == 200


FIVE_RATES = [3e-5, 1e-4, 3e-4, 1e-3, 3e-3]


@pytest.mark.parametrize(
    ("values", "between"),
    [
        ((0.1, 0.2, 0.3, 0.2, 0.1), 1.7e-4),
        ((0.1, 0.2, 0.3, 0.25, 0.1), 5.5e-4),
        ((0.3, 0.2, 0.1, 0.1, 0.1), 5.5e-5),
        ((0.3, 0.1, 0.1, 0.1, 0.2), 5.5e-5),
        ((0.1, 0.2, 0.2, 0.2, 0.3), 1.7e-3),
    ],
)
def test_the_sixth_trial_stays_within_the_five_rates(drawn_cells, values, between):
    study = TABLES["warm"](options(losses=("c2", "pnca")))
    value_at = dict(zip(FIVE_RATES, values))
    finished = drawn_cells(lambda cell: value_at.get(cell.config.learning_rate, 0.0))
    cells = {label: of[:6] for label, of in by_row(study.cells(finished)).items()}
    best = FIVE_RATES[values.index(max(values))]
    for label, of in cells.items():
        assert [cell.config.learning_rate for cell in of[:5]] == FIVE_RATES, label
    plain = {label for label in cells if label in ("c2+gap", "pnca+gap")}
    assert {cells[label][5].config.learning_rate for label in plain} == {between}
    assert {cells[label][5].config.learning_rate for label in cells.keys() - plain} == {best}
    own = {"c2+xbm+gap": "xbm_batches", "c2+ccp+gap": "projection_patience", "c2+gsp": "smoothing"}
    tried = {label: [getattr(cell.config, name) for cell in cells[label]] for label, name in own.items()}
    assert tried == {"c2+xbm+gap": [25] * 5 + [3], "c2+ccp+gap": [3] * 5 + [1], "c2+gsp": [5.0] * 5 + [0.5]}
    assert [cell.config.smoothing for cell in cells["pnca+gsp"]] == [0.5] * 5 + [5.0]


def test_the_best_on_validation_classes_is_trained_on_all_folds_whatever_it_does_on_test_classes(drawn_cells):
    study = TABLES["warm"](options(losses=("c2",), repeats=2))

    def value_of(cell):
        is_best = cell.config.learning_rate == 3e-4 and cell.config.xbm_batches in (None, 25)
        return 0.6 if is_best else 0.4

    finished = drawn_cells(value_of)
    better_on_test = finished.unit

    def unit(cell):
        found = better_on_test(cell)
        test = {"MAP@R": 0.99 if cell.config.learning_rate == 1e-3 else 0.1, "P@1": 0.5}
        return dataclasses.replace(found, result={**found.result, "test": test})

    finished.unit = unit
    rows = by_row(study.cells(finished))
    for label, cells in rows.items():
        assert len(cells) == 6 + 2 * 4 - 1, label
        assert {cell.config.learning_rate for cell in cells[6:]} == {3e-4}
        assert len({(cell.config, cell.fold, cell.repeat) for cell in cells}) == len(cells)
    assert sum(map(len, rows.values())) == study.num_cells
    assert {cell.config.xbm_batches for cell in rows["c2+xbm+gap"][6:]} == {25}


def test_the_table_says_what_was_tried_and_rows_keep_it(drawn_cells, tmp_path):
    study = TABLES["warm"](options(losses=("c2",)))
    finished = drawn_cells(lambda cell: 0.6 if cell.config.learning_rate == 3e-4 else 0.4)
    text = study.render(finished, tmp_path, "item")
    trials = (tmp_path / "item_trials.md").read_text()
    assert "| c2+gap | learning_rate 0.0003 | 60.00 | chosen |" in trials
    assert trials.count("chosen") == 5
    assert "c2+ccp+gap, S" in (tmp_path / "item.md").read_text()
    assert "6 runs on one split" in text
    recorded = {of.label: of for of in study.recorded(finished)}
    assert recorded.keys() == study.rows.keys()
    kept = recorded["c2+gap"]
    assert len(kept.units) == 4
    assert [trial["chosen"] for trial in kept.extras["trials"]] == [False, False, True, False, False, False]
    assert kept.extras["trials"][2] == {"settings": {"learning_rate": 3e-4}, "validation": 0.6, "chosen": True}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"dataset": "glyphs"}, "Invalid --dataset with --id=warm: received 'glyphs', expected photographs"),
        ({"dataset": "glyph_scripts"}, "begins with a trained network: give --weights=FILE.*experiments.pretrain"),
        ({"overrides": {"learning_rate": 0.1}}, "--learning_rate is what this study varies"),
        ({"pooling": "gsp"}, "--pooling=gsp would have no effect"),
        ({"losses": ("angular",)}, "Invalid --loss"),
    ],
)
def test_what_cannot_be_is_refused(changes, message):
    with pytest.raises(InvalidInput, match=message):
        TABLES["warm"](options(**changes))


def test_glyphs_are_fine_tuned_as_a_whole():
    study = TABLES["warm"](options("glyph_scripts", losses=("c2",), overrides={"weights": "glyphs_latin.npz"}))
    configs = {cell.config for cell in study.cells(NothingFinished())}
    assert {(config.trained_from, config.backbone, config.weights) for config in configs} == {
        (None, "resnet10", "glyphs_latin.npz")
    }
