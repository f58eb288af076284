"""A report says so when training has not helped."""

from types import SimpleNamespace

import pytest

from experiments.protocols.fair_report import method_warnings, training_has_not_helped


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
    text = str(training_has_not_helped(method((0.148, 0.15), (0.148, 0.13))))
    assert text.startswith(
        "c2+gap: training did not beat the untrained backbone's average features (MAP@R 14.00, 14.80 before)"
    )


def test_the_smallest_validation_is_warned_of():
    counts = {
        (fold, 0): SimpleNamespace(measured={"validation_classes": count}) for fold, count in enumerate((7, 3, None))
    }
    tiny = SimpleNamespace(name="c2+gap", missing=[(3, 0)], runs=SimpleNamespace(finished=counts))
    (text,) = map(str, method_warnings(tiny))
    assert text.startswith("c2+gap: validates on 3 classes: other classes would change its score by about 14 points")
    del counts[1, 0]
    assert method_warnings(tiny) == []


def test_runs_of_ccp_without_a_problem_are_counted():
    found = {
        (fold, 0): SimpleNamespace(measured={"problems": problems}) for fold, problems in enumerate(([], [{}], []))
    }
    ccp = SimpleNamespace(name="c1+ccp+gap", missing=[(3, 0)], runs=SimpleNamespace(finished=found))
    (text,) = map(str, method_warnings(ccp))
    assert text == "c1+ccp+gap: no projection problem began in 2 of 3 runs, which trained with the loss alone."
    found[0, 0].measured["problems"] = found[2, 0].measured["problems"] = [{}]
    assert method_warnings(ccp) == []
