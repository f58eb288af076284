"""The warm benchmark: equal trials, chosen on validation classes alone, and what is recorded of them."""

import dataclasses

import pytest

from common.errors import InvalidInput
from experiments.studies.fair_table import FairRow
from experiments.studies.study import StudyOptions
from experiments.studies.study_runs import NothingFinished
from experiments.studies.tables import TABLES
from experiments.studies.tuned_table import TunedRow, TunedTable


def options(dataset="cars196", budget="full", **others):
    return StudyOptions(dataset=dataset, budget=budget, **others)


def by_row(cells):
    rows = {}
    for cell in cells:
        rows.setdefault(cell.label.partition(" (")[0], []).append(cell)
    return rows


@pytest.mark.parametrize(("budget", "trials"), [("full", 6), ("demo", 3), ("smoke", 2)])
def test_every_method_has_as_many_trials_as_its_baseline(budget, trials):
    study = TABLES["warm"](options(budget=budget))
    rows = by_row(study.cells(NothingFinished()))
    assert rows.keys() == study.rows.keys()
    for cells in rows.values():
        assert len(cells) == len({cell.config for cell in cells}) == trials
        assert {(cell.fold, cell.repeat) for cell in cells} == {(0, 0)}
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
    tuned = {label: {(c.config.learning_rate, c.config.xbm_batches) for c in of} for label, of in cells.items()}
    assert {batches for _, batches in tuned["c2+xbm+gap"]} == {3, 25}
    assert len({rate for rate, _ in tuned["c2+gap"]}) == 6


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


def test_nothing_is_chosen_before_every_trial_is_finished_and_the_first_of_a_tie_is(drawn_cells):
    study = TABLES["warm"](options(losses=("c2",)))
    some = drawn_cells(lambda cell: None if cell.config.learning_rate == 1e-3 else 0.4)
    assert study.chosen("c2+gap", some) is None
    assert len(by_row(study.cells(some))["c2+gap"]) == 6
    assert study.chosen("c2+gap", drawn_cells(lambda cell: 0.4)) == 0


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
    assert [trial["chosen"] for trial in kept.extras["trials"]] == [False, False, False, True, False, False]
    assert kept.extras["trials"][3] == {"settings": {"learning_rate": 3e-4}, "validation": 0.6, "chosen": True}


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


def test_rows_with_unequal_numbers_of_trials_are_refused():
    rows = [TunedRow(FairRow("c1+gap"), [{"learning_rate": 0.1}]), TunedRow(FairRow("c2+gap"), [{}, {}])]
    with pytest.raises(InvalidInput, match=r"received \[1, 2\] trials, expected one number"):
        TunedTable("title", None, rows, options(), {})


def test_glyphs_are_fine_tuned_as_a_whole():
    study = TABLES["warm"](options("glyph_scripts", losses=("c2",), overrides={"weights": "glyphs_latin.npz"}))
    configs = {cell.config for cell in study.cells(NothingFinished())}
    assert {(config.trained_from, config.backbone, config.weights) for config in configs} == {
        (None, "resnet10", "glyphs_latin.npz")
    }
