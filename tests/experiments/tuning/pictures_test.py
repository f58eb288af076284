"""Pictures of a search: what they show of pruned trials and of ranges; `outcome_test` draws whole ones."""

from types import SimpleNamespace

from matplotlib.figure import Figure

from experiments.tuning import pictures
from experiments.tuning.search_space import Parameter


def test_an_axis_goes_over_all_of_the_range():
    axes = Figure().subplots()
    pictures.show_range(axes, Parameter("rate", float, 1e-4, 1e-2, log=True), [])
    assert axes.get_xscale() == "log"
    assert axes.get_xlim()[0] < 1e-4 < 1e-2 < axes.get_xlim()[1]
    pictures.show_range(axes, Parameter("share", float, 0.0, 1.0), [])
    assert axes.get_xscale() == "linear"
    assert axes.get_xlim() == (-0.05, 1.05)


def test_choices_stand_in_their_order():
    axes = Figure().subplots()
    pictures.show_range(axes, Parameter("samples_per_class", int, choices=(2, 4, 8)), [2, 4, 8])
    assert [text.get_text() for text in axes.get_xticklabels()] == ["2", "4", "8"]


def test_a_search_with_few_trials_says_nothing_of_importance():
    search = SimpleNamespace(space={"a": 1, "b": 2})
    assert pictures._importances(search, 7) == {}
    assert pictures._importances(SimpleNamespace(space={"a": 1}), 100) == {}
