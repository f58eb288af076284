import math

import pytest
from scipy import stats

from experiments.reports.intervals import interval, joined_half_width, satterthwaite_freedom, skewed_quantiles


def half(found):
    return found.high - found.estimate


def test_one_part_has_students_interval():
    assert half(interval(0.5, (0.04, 8), None, 0.95)) == pytest.approx(0.2 * stats.t.ppf(0.975, 8))
    assert half(interval(0.5, None, (0.04, 3), 0.9)) == pytest.approx(0.2 * stats.t.ppf(0.95, 3))


def test_two_parts_are_joined_half_by_cochran_and_cox_and_half_by_satterthwaite():
    quantiles = stats.t.ppf(0.975, 99), stats.t.ppf(0.975, 8)
    cochran = (0.01**2 * quantiles[0] + 0.02**2 * quantiles[1]) / math.hypot(0.01, 0.02)
    freedom = 5e-4**2 / (1e-8 / 99 + 16e-8 / 8)
    expected = (cochran + stats.t.ppf(0.975, freedom) * math.hypot(0.01, 0.02)) / 2
    found = interval(0.5, (0.01**2, 99), (0.02**2, 8), 0.95)
    assert half(found) == pytest.approx(expected)
    assert (found.class_error, found.training_error) == pytest.approx((0.01, 0.02))
    assert half(found) == pytest.approx(found.estimate - found.low)
    here = found.same_test_set()
    assert half(here) == pytest.approx(0.02 * quantiles[1])
    assert here.class_error == 0
    assert found.low < here.low < here.high < found.high
    assert (found.error, found.freedom) == pytest.approx((math.hypot(0.01, 0.02), freedom))


def test_kinds():
    assert interval(0.5, (0.04, 8), (0.1, 3), 0.95).kind == "classes and runs"
    assert interval(0.5, (0.04, 8), None, 0.95).kind == "classes only"
    assert interval(0.5, None, (0.1, 3), 0.95).kind == "runs only"
    assert interval(0.5, (0.04, 6), (0.1, 3), 0.95).has_few_classes
    assert not interval(0.5, (0.04, 7), (0.1, 3), 0.95).has_few_classes
    assert not interval(0.5, None, (0.1, 3), 0.95).has_few_classes


def test_interval_without_repeats_is_for_the_classes_alone():
    found = interval(0.5, (0.01**2, 99), None, 0.95)
    assert (found.training_error, found.training_freedom, found.same_test_set()) == (None, 0, None)
    assert found.high == pytest.approx(0.5 + 0.01 * 1.984217, rel=1e-6)


def test_skewed_classes_reach_further_on_the_side_of_their_tail():
    plain = stats.t.ppf(0.975, 15)
    assert skewed_quantiles(15, 0.0, 0.95) == pytest.approx((plain, plain))
    below, above = skewed_quantiles(15, 0.4, 0.95)
    shift = 0.4 * (2 * plain**2 + 1) / 6
    assert above == pytest.approx(plain + shift * (1 + 24 / 16))
    assert below == pytest.approx(plain - shift / 3)
    assert skewed_quantiles(15, -0.4, 0.95) == pytest.approx((above, below))
    assert skewed_quantiles(15, 2.0, 0.95)[0] == pytest.approx(plain / 2)
    few = stats.t.ppf(0.975, 1.8)  # the expansion would reach to a hundred standard errors
    assert skewed_quantiles(1.8, 1.76, 0.95) == pytest.approx((few / 2, 2 * few))


@pytest.mark.parametrize("estimate", [0.02, -0.02, 0.004])
@pytest.mark.parametrize("skewness", [0.0, 0.5])
def test_the_p_value_is_the_level_at_which_the_end_touches_zero(estimate, skewness):
    found = interval(estimate, (0.006**2, 30), (0.004**2, 3), 0.95, skewness)
    p = found.p_value()
    touching = found.at(1 - p)
    assert min(abs(touching.low), abs(touching.high)) == pytest.approx(0, abs=1e-7)
    assert (p < 0.05) == found.excludes_zero


def test_the_p_value_of_one_part_is_students():
    found = interval(0.02, None, (0.006**2, 5), 0.95)
    assert found.p_value() == pytest.approx(2 * stats.t.sf(0.02 / 0.006, 5), rel=1e-4)
    assert interval(0.0, None, (0.006**2, 5), 0.95).p_value() == 1
    assert interval(0.02, None, (0.0, 5), 0.95).p_value() <= 1e-15
    assert interval(5.0, None, (1e-6, 500), 0.95).p_value() <= 1e-15


def test_beyond_95_percent_and_of_three_runs_the_parts_join_more_as_cochran_and_cox_do():
    of_classes = (0.006**2, 30)
    for freedom, level, other in ((3, 0.95, 0.5), (3, 0.99, 0.1), (3, 0.999, 0.01), (2, 0.95, 1 / 3)):
        parts = [of_classes, (0.004**2, freedom)]
        found = interval(0.02, *parts, level)
        quantiles = stats.t.ppf(0.5 + level / 2, [30, freedom])
        cochran = joined_half_width(list(zip((variance for variance, _ in parts), quantiles)))
        joint = stats.t.ppf(0.5 + level / 2, satterthwaite_freedom(parts)) * found.error
        assert found.high - found.estimate == pytest.approx((1 - other) * cochran + other * joint)


def test_zero_is_excluded_on_either_side_only():
    assert interval(0.5, (0.01, 99), None, 0.95).excludes_zero
    assert interval(-0.5, (0.01, 99), None, 0.95).excludes_zero
    assert not interval(0.1, (0.01, 99), None, 0.95).excludes_zero
    assert not interval(0.0, (0.0, 99), None, 0.95).excludes_zero


def test_detectable_difference_is_the_textbook_one_for_many_degrees_of_freedom():
    found = interval(0.0, (1.0, 10**6), None, 0.95)
    assert found.detectable_difference(0.8) == pytest.approx(1.959964 + 0.841621, rel=1e-5)
    assert found.detectable_difference(0.95) == pytest.approx(1.959964 + 1.644854, rel=1e-5)


def test_no_end_is_shown_beyond_what_a_figure_can_be():
    wide = interval(0.9, (0.1**2, 99), None, 0.95)
    assert wide.high > 1
    assert wide.ends() == (wide.low, 1.0)
    assert wide.ends(of_difference=True) == (wide.low, 1.0)
    low = interval(0.05, (0.1**2, 99), None, 0.95)
    assert low.ends() == (0.0, low.high)
    assert low.ends(of_difference=True) == (low.low, low.high)
    assert interval(-0.9, (0.1**2, 99), None, 0.95).ends(of_difference=True)[0] == -1.0
    assert wide.detectable_difference() == pytest.approx(low.detectable_difference())  # before anything is cut
