import dataclasses

import pytest

from common.errors import InvalidInput
from experiments.plans.fair_table import FairRow
from experiments.plans.study import StudyOptions
from experiments.plans.study_runs import NothingFinished
from experiments.studies.tuned_table import TunedRow, TunedTable

OPTIONS = StudyOptions(dataset="cars196", budget="full", repeats=2)
TRIALS = [{"learning_rate": rate} for rate in (0.1, 0.2, 0.3)]
ROWS = [TunedRow(FairRow("c1+gap"), TRIALS), TunedRow(FairRow("c1+gsp", baseline="c1+gap"), TRIALS)]


@pytest.fixture
def table():
    return TunedTable("title", ROWS, OPTIONS, {})


def test_each_trial_trains_all_folds(table):
    cells = table.cells(NothingFinished())
    assert len({(cell.config, cell.fold, cell.repeat) for cell in cells}) == len(cells) == table.num_cells
    assert table.num_cells == 2 * 3 * 4 * 2
    assert table.cells_of("c1+gap", NothingFinished()) == []


@pytest.mark.parametrize(("last", "chosen"), [(0.7, 2), (0.6, 1), (0.1, 1)])
def test_the_best_mean_on_validation_classes_is_chosen_and_recorded(table, drawn_cells, last, chosen):
    def value_of(cell):
        return {0.1: 0.5, 0.2: 0.6, 0.3: last}[cell.config.learning_rate] + (0.1 if cell.fold == 0 else -0.1)

    finished = drawn_cells(value_of)
    better_on_test = finished.row

    def row(cell):
        test = {"MAP@R": 0.99 if cell.config.learning_rate == 0.1 else 0.1, "P@1": 0.5}
        return better_on_test(cell).with_values(test=test)

    finished.row = row
    assert table.chosen("c1+gap", finished) == chosen
    assert {cell.config.learning_rate for cell in table.cells_of("c1+gap", finished)} == {[0.1, 0.2, 0.3][chosen]}
    kept = [row for row in table.recorded(finished).rows if row["label"] == "c1+gap"]
    assert len(kept) == 4 * 2
    trials = kept[0]["extras"]["trials"]
    assert [trial["settings"] for trial in trials] == TRIALS
    assert [trial["chosen"] for trial in trials] == [place == chosen for place in range(3)]
    assert trials[1]["validation"] == pytest.approx(0.6 - 0.05)


def test_the_first_of_a_tie_is_chosen_once_all_trials_are_finished(table, drawn_cells):
    assert table.chosen("c1+gap", drawn_cells(lambda cell: 0.4)) == 0
    missing = drawn_cells(lambda cell: None if cell.config.learning_rate == 0.3 and cell.fold == 3 else 0.4)
    assert table.chosen("c1+gap", missing) is None
    assert table.recorded(missing).rows == []


def test_the_table_has_its_trials_beside_it(table, drawn_cells, tmp_path):
    text = table.render(drawn_cells(lambda cell: 0.6 if cell.config.learning_rate == 0.2 else 0.4), tmp_path, "item")
    trials = (tmp_path / "item_trials.md").read_text()
    assert "| c1+gsp | learning_rate 0.2 | 60.00 | chosen |" in trials
    assert trials.count("chosen") == 2
    assert "Trials of a row: 3, each on all folds" in text


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"overrides": {"learning_rate": 0.1}}, "--learning_rate is what this study varies"),
        ({"pooling": "gsp"}, "--pooling=gsp would have no effect"),
        ({"losses": ("angular",)}, "Invalid --loss"),
    ],
)
def test_what_cannot_be_is_refused(changes, message):
    with pytest.raises(InvalidInput, match=message):
        TunedTable("title", ROWS, dataclasses.replace(OPTIONS, **changes), {})
