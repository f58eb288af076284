"""The printed row of a configuration."""

from experiments.studies.gsp_table import _ROWS
from experiments.studies.printed_rankings import RANKINGS, printed_methods
from tests.experiments.rows.ranked_study import configuration_of


def figures_of(table, *names, **changes):
    return printed_methods(RANKINGS[table], {name: {**configuration_of(name), **changes} for name in names})


def test_all_rows_of_the_tables_are_found():
    names = [row.label for row in _ROWS]
    figures = figures_of("thesis 5.1", *names).figures
    assert {dataset: len(of) for dataset, of in figures.items()} == dict.fromkeys(figures, 15)
    assert figures["SOP"]["pnca+gsp"] == 43.95
    assert figures["CUB"].keys() == set(names)
    chapter_3 = figures_of("thesis 3.1", *names, "softtriple+gap", "c2+ccp+gap").figures["SOP"]
    assert chapter_3["c1+gap"] == 36.54
    assert len(chapter_3) == 10
    assert "c1+ccp+gsp" not in chapter_3


def test_the_benchmark_of_losses_is_found_where_it_prints_a_cell():
    found = figures_of("Revisiting 2.2", "pnca+gap", "margin+distance+gap", "margin+distance+gsp", "c2+ccp+gap")
    assert found.figures["CUB"] == {"pnca+gap": 62.80, "margin+distance+gap": 63.09}
    assert found.figures["SOP"] == {"margin+distance+gap": 78.43}


def test_gsp_without_the_zero_shot_loss_is_another_row():
    assert figures_of("thesis 5.1", "pnca+gsp", zero_shot_weight=0.0).figures["SOP"] == {}


def test_one_printed_row_stands_for_one_method():
    names = ("c2+gap", "c2+distance+gap", "triplet+distance+gap", "triplet+gap")
    found = figures_of("Revisiting 2.2", *names)
    assert set(found.figures["CUB"]) == {"c2+distance+gap", "triplet+distance+gap"}
    assert found.twins == ("c2+gap", "triplet+gap")
