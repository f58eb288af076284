"""Rows that are tuned alike: what counts as tried, when a trial may depend on others, and what is chosen."""

import pytest

from common.errors import InvalidInput
from experiments.plans.fair_table import FairRow
from experiments.plans.study import StudyOptions
from experiments.studies.tuned_table import TunedRow, TunedTable

OPTIONS = StudyOptions(dataset="cars196", budget="full")
RATES = [0.1, 0.2, 0.3]
TRIALS = [{"learning_rate": rate} for rate in RATES]


@pytest.fixture
def table():
    """A row whose trials are given, and one whose last trial is a tenth of the best of the others."""

    def last_trial(values):
        assert len(values) == 2
        return {"learning_rate": RATES[values.index(max(values))] / 10}

    rows = [TunedRow(FairRow("c1+gap"), TRIALS), TunedRow(FairRow("c2+gap"), TRIALS[:2], last_trial)]
    return TunedTable("title", None, rows, OPTIONS, {})


def rates_tried(table, label, finished):
    return [cell.config.learning_rate for cell in table.cells(finished) if cell.label.startswith(label)]


def test_a_last_trial_follows_from_the_others_once_all_are_finished(table, drawn_cells):
    some = drawn_cells(lambda cell: {0.1: 0.5, 0.2: None}.get(cell.config.learning_rate, 0.4))
    assert rates_tried(table, "c2+gap", some) == [0.1, 0.2]
    assert table.chosen("c2+gap", some) is None
    others = drawn_cells(lambda cell: {0.1: 0.5, 0.2: 0.6, 0.02: None}.get(cell.config.learning_rate, 0.4))
    assert rates_tried(table, "c2+gap", others) == [0.1, 0.2, 0.02]
    assert table.chosen("c2+gap", others) is None
    assert table.cells_of("c2+gap", others) == []


@pytest.mark.parametrize(("last", "chosen"), [(0.7, 2), (0.6, 1), (0.1, 1)])
def test_a_last_trial_is_chosen_where_it_is_the_best(table, drawn_cells, last, chosen):
    finished = drawn_cells(lambda cell: {0.1: 0.5, 0.2: 0.6, 0.02: last}.get(cell.config.learning_rate, 0.4))
    assert table.chosen("c2+gap", finished) == chosen
    assert {cell.config.learning_rate for cell in table.cells_of("c2+gap", finished)} == {[0.1, 0.2, 0.02][chosen]}
    assert len(table.cells(finished)) == table.num_cells == 2 * (3 - 1 + 4 * OPTIONS.repeats)
    (kept,) = [row.extras["trials"] for row in table.recorded(finished) if row.label == "c2+gap"]
    assert [trial["settings"]["learning_rate"] for trial in kept] == [0.1, 0.2, 0.02]
    assert [trial["chosen"] for trial in kept] == [place == chosen for place in range(3)]


def test_the_first_of_a_tie_is_chosen(table, drawn_cells):
    assert table.chosen("c1+gap", drawn_cells(lambda cell: 0.4)) == 0
    missing = drawn_cells(lambda cell: None if cell.config.learning_rate == 0.3 else 0.4)
    assert table.chosen("c1+gap", missing) is None


def test_rows_with_unequal_numbers_of_trials_are_refused():
    rows = [TunedRow(FairRow("c1+gap"), TRIALS[:2]), TunedRow(FairRow("c2+gap"), TRIALS[:2], lambda _: {})]
    with pytest.raises(InvalidInput, match=r"received \[2, 3\] trials, expected one number"):
        TunedTable("title", None, rows, OPTIONS, {})
