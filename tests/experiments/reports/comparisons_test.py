import numpy as np
import pytest
from scipy import stats

from experiments.reports.comparisons import compare, holm, significant_digits
from experiments.reports.intervals import interval


def difference(estimate, error=0.01, freedom=3, known=True):
    return interval(estimate, (0.002**2, 200), (error**2, freedom) if known else None, 0.95)


def table(errors, pairs, estimates=None):
    estimates = [0.05] * len(errors) if estimates is None else estimates
    return {("MAP@R", pair): difference(*of) for pair, *of in zip(pairs, estimates, errors)}


DISJOINT = [("a+gsp", "a"), ("b+gsp", "b"), ("c+gsp", "c")]


def test_holm_multiplies_the_smallest_by_the_number():
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.5, 0.9]) == pytest.approx([1.0, 1.0])
    assert holm([]) == []
    # The figures that a reader computed from one of our tables before it was corrected.
    single = [0.0003, 0.0008, 0.011, 0.012, 0.0135, 0.033, *[0.2] * 6]
    assert holm(single)[:6] == pytest.approx([0.0036, 0.0088, 0.11, 0.11, 0.11, 0.231])


def test_stars_are_holms():
    differences = table([0.01] * 3, DISJOINT, [0.04, 0.002, 0.001])
    found = compare(differences)
    first = found["MAP@R", DISJOINT[0]]
    assert first.p_holm == pytest.approx(3 * first.p)
    assert first.p < 0.05 < first.p_holm
    assert not first.is_significant


def test_one_training_is_never_significant():
    found = compare({("MAP@R", DISJOINT[0]): difference(0.9, known=False)})
    (only,) = found.values()
    assert (only.p, only.p_holm, only.is_significant) == (None, None, False)


def test_the_detectable_difference_is_of_the_corrected_level():
    many = {("MAP@R", (f"m{index}", "base")): difference(0.01, 0.01, 10**6) for index in range(4)}
    many["MAP@R", ("once", "base")] = difference(0.01, known=False)  # is not tested, and corrects nothing
    error = np.hypot(0.01, 0.002)
    assert next(iter(compare(many).values())).detectable == pytest.approx(
        error * (stats.norm.ppf(1 - 0.05 / 8) + stats.norm.ppf(0.8)), rel=1e-3
    )


def test_digits_follow_the_degrees_of_freedom():
    assert [significant_digits(value, 1) for value in (2.87, 0.449, 12.3, 0.96)] == ["3", "0.4", "10", "1.0"]
    assert [significant_digits(value, 2) for value in (2.87, 0.449, 12.3)] == ["2.9", "0.45", "12"]
    few, many = compare(table([0.01], DISJOINT)), compare({("MAP@R", DISJOINT[0]): difference(0.1, 0.01, 80)})
    assert len(next(iter(few.values())).detectable_text.strip("0.")) == 1
    assert len(next(iter(many.values())).detectable_text.replace(".", "").strip("0")) == 2
