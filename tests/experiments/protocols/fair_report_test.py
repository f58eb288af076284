"""A report says so when training has not helped."""

from types import SimpleNamespace

import pytest

from experiments.protocols.fair_report import training_has_not_helped


def method(*pairs):
    units = {
        (fold, 0): SimpleNamespace(
            measured={"test": {"MAP@R": after}, "untrained": {"MAP@R": before} if before else {}}
        )
        for fold, (before, after) in enumerate(pairs)
    }
    return SimpleNamespace(name="c2+gap", runs=SimpleNamespace(finished=units))


@pytest.mark.parametrize("pairs", [[(0.2, 0.3), (0.3, 0.25)], [(None, 0.1)], []])
def test_nothing_is_said_where_it_has_or_where_that_is_not_known(pairs):
    assert training_has_not_helped(method(*pairs)) is None


def test_the_mean_over_runs_decides():
    text = training_has_not_helped(method((0.148, 0.15), (0.148, 0.13)))
    assert text.startswith(
        "c2+gap: training did not beat the untrained backbone's average features (MAP@R 14.00, 14.80 before)"
    )
