from types import SimpleNamespace

import pytest

from experiments.protocols.fair_report import method_warnings


def method(*results, missing=()):
    units = {(fold, 0): SimpleNamespace(measured=result) for fold, result in enumerate(results)}
    return SimpleNamespace(name="c2+gap", missing=missing, runs=SimpleNamespace(finished=units))


def trained(*pairs):
    return method(
        *({"test": {"MAP@R": after}, "untrained": {"MAP@R": before} if before else {}} for before, after in pairs)
    )


@pytest.mark.parametrize("pairs", [[(0.2, 0.3), (0.3, 0.25)], [(None, 0.1)], []])
def test_nothing_is_said_where_it_has_or_where_that_is_not_known(pairs):
    assert method_warnings(trained(*pairs)) == []


def test_the_mean_over_runs_decides():
    (text,) = map(str, method_warnings(trained((0.148, 0.15), (0.148, 0.13))))
    assert text.startswith(
        "c2+gap: training did not beat the untrained backbone's average features (MAP@R 14.00, 14.80 before)"
    )


def test_the_smallest_validation_is_warned_of():
    counts = [{"validation_classes": count} for count in (7, 3, None)]
    (text,) = map(str, method_warnings(method(*counts, missing=[(3, 0)])))
    assert text.startswith("c2+gap: validates on 3 classes: other classes would change its score by about 14 points")
    assert method_warnings(method(*counts[::2], missing=[(3, 0)])) == []


def test_runs_of_ccp_without_a_problem_are_counted():
    results = [{"problems": problems} for problems in ([], [{}], [])]
    (text,) = map(str, method_warnings(method(*results, missing=[(3, 0)])))
    assert text == "c2+gap: no projection problem began in 2 of 3 runs, which trained with the loss alone."
    assert method_warnings(method(*[{"problems": [{}]}] * 3, missing=[(3, 0)])) == []
