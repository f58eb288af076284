import pytest

from experiments.plans.study import StudyOptions
from experiments.studies.figures import FIGURES


def finished_with(drawn_cells, unfinished=None):
    return drawn_cells(lambda cell: None if unfinished is not None and unfinished(cell) else 0.4)


def held_against(study):
    """Place and reference of each row, by label."""
    return {row["label"]: (row["extras"]["place"], row["extras"]["held against"]) for row in study.rows}


def test_a_sweep_keeps_the_place_and_the_axes_of_each_finished_point(drawn_cells):
    study = FIGURES["3.8"](StudyOptions("glyphs", "demo", losses=("c2",)))
    runs = finished_with(drawn_cells, lambda cell: cell.config.classes_per_batch == 8)
    rows = study.recorded(runs).rows
    assert [row["label"] for row in rows[:3]] == [
        "c2, batch size 16",
        "c2+ccp, batch size 16",
        "c2, batch size 64",
    ]
    axes = {"x_label": "batch size", "held_out": "test", "logarithmic": True}
    assert rows[1]["extras"]["sweep"] == {"place": 1, "series": "c2+ccp", "x": 16, **axes}
    assert rows[2]["extras"]["sweep"]["place"] == 4
    assert len(rows) == 6


def test_fixed_and_alternating_proxies_say_what_they_are_held_against(drawn_cells):
    study = FIGURES["3.7"](StudyOptions("glyphs", "demo", losses=("c2", "ms")))
    held = held_against(study.recorded(finished_with(drawn_cells)))
    assert len(held) == 6
    assert held["ms, loss alone"] == (3, None)
    assert held["ms, fixed proxies"] == (4, "ms, loss alone")
    assert held["c2, alternating (CCP)"] == (2, "c2, fixed proxies")


def test_poolings_are_held_against_average_pooling_under_the_same_loss(drawn_cells):
    study = FIGURES["5.12"](StudyOptions("glyph_collage", "demo"))
    runs = finished_with(drawn_cells, lambda cell: cell.config.pooling == "gmp")
    held = held_against(study.recorded(runs))
    assert len(held) == len(study.groups) - 2
    assert held["c2+gap"] == (0, None)
    assert held["c2+gemean+gsp"][1] == "c2+gap"
    assert held["pnca+gsp"][1] == "pnca+gap"
    assert "pnca+gmp" not in held


def test_the_search_keeps_the_place_of_each_point(drawn_cells):
    study = FIGURES["3.5"](StudyOptions("glyphs", "demo", losses=("c2",)))
    rows = study.recorded(finished_with(drawn_cells)).rows
    assert len(rows) == study.num_cells == 11
    assert len({row["label"] for row in rows}) == 11
    found = [row["extras"]["search"] for row in rows]
    assert [of["place"] for of in found] == list(range(11))
    assert [of["chosen_by"] for of in found] == ["initial"] * 5 + ["search"] * 5 + ["apart"]
    assert found[-1]["log10_lambda"] is None
    assert rows[-1]["label"] == "lambda 0, 4 proxies"
    rates = [row["configuration"]["ccp_lambda"] for row in rows[:-1]]
    assert [10 ** of["log10_lambda"] for of in found[:-1]] == pytest.approx(rates, rel=1e-3)
