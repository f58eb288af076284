import pytest

from experiments.plans.study import StudyOptions
from experiments.studies.figures import FIGURES


def finished_with(drawn_cells, unfinished=None):
    return drawn_cells(lambda cell: None if unfinished is not None and unfinished(cell) else 0.4)


def test_a_sweep_keeps_the_place_and_the_axes_of_each_finished_point(drawn_cells):
    study = FIGURES["3.8"](StudyOptions("glyphs", "demo", losses=("c2",)))
    runs = finished_with(drawn_cells, lambda cell: cell.config.classes_per_batch == 8)
    methods = study.recorded(runs)
    assert [method.label for method in methods[:3]] == [
        "c2, batch size 16",
        "c2+ccp, batch size 16",
        "c2, batch size 64",
    ]
    axes = {"x_label": "batch size", "held_out": "test", "logarithmic": True}
    assert methods[1].extras == {"sweep": {"place": 1, "series": "c2+ccp", "x": 16, **axes}}
    assert methods[2].extras["sweep"]["place"] == 4
    assert [len(method.units) for method in methods] == [1] * 6


def test_fixed_and_alternating_proxies_say_what_they_are_held_against(drawn_cells):
    study = FIGURES["3.7"](StudyOptions("glyphs", "demo", losses=("c2", "ms")))
    methods = {method.label: method.extras for method in study.recorded(finished_with(drawn_cells))}
    assert len(methods) == 6
    assert methods["ms, loss alone"] == {"place": 3, "held against": None}
    assert methods["ms, fixed proxies"] == {"place": 4, "held against": "ms, loss alone"}
    assert methods["c2, alternating (CCP)"] == {"place": 2, "held against": "c2, fixed proxies"}


def test_poolings_are_held_against_average_pooling_under_the_same_loss(drawn_cells):
    study = FIGURES["5.12"](StudyOptions("glyph_collage", "demo"))
    runs = finished_with(drawn_cells, lambda cell: cell.config.pooling == "gmp")
    methods = {method.label: method.extras for method in study.recorded(runs)}
    assert len(methods) == len(study.groups) - 2
    assert methods["c2+gap"] == {"place": 0, "held against": None}
    assert methods["c2+gemean+gsp"]["held against"] == "c2+gap"
    assert methods["pnca+gsp"]["held against"] == "pnca+gap"
    assert "pnca+gmp" not in methods


def test_the_search_keeps_the_place_of_each_point(drawn_cells):
    study = FIGURES["3.5"](StudyOptions("glyphs", "demo", losses=("c2",)))
    methods = study.recorded(finished_with(drawn_cells))
    assert len(methods) == study.num_cells == 11
    assert len({method.label for method in methods}) == 11
    found = [method.extras["search"] for method in methods]
    assert [of["place"] for of in found] == list(range(11))
    assert [of["chosen_by"] for of in found] == ["initial"] * 5 + ["search"] * 5 + ["apart"]
    assert found[-1]["log10_lambda"] is None
    assert methods[-1].label == "lambda 0, 4 proxies"
    rates = [method.units[0].config["ccp_lambda"] for method in methods[:-1]]
    assert [10 ** of["log10_lambda"] for of in found[:-1]] == pytest.approx(rates, rel=1e-3)
