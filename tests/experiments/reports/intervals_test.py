import math

import numpy as np
import pytest

from experiments.reports.intervals import half_width, interval, student_quantile


@pytest.mark.parametrize("freedom", [1, 3, 8, 99, 11_315, 10**6])
@pytest.mark.parametrize("probability", [0.5, 0.95, 0.975, 0.995])
def test_student_quantile_equals_scipy(freedom, probability):
    scipy_stats = pytest.importorskip("scipy.stats", reason="scipy is the oracle")
    assert student_quantile(probability, freedom) == pytest.approx(scipy_stats.t.ppf(probability, freedom), rel=1e-5)


def test_student_quantile_of_one_degree_of_freedom_is_the_cauchy_one():
    assert student_quantile(0.975, 1) == pytest.approx(math.tan(math.pi * 0.475))


def test_half_widths_add_in_quadrature():
    alone = [half_width([component], 0.95) for component in ((0.04, 8), (0.09, 99))]
    assert alone[0] == pytest.approx(0.2 * 2.306004, rel=1e-6)
    assert half_width([(0.04, 8), (0.09, 99)], 0.95) == pytest.approx(np.hypot(*alone))


def test_interval_knows_its_parts():
    found = interval(0.5, (0.01**2, 99), (0.02**2, 8), 0.95)
    assert (found.class_error, found.training_error) == pytest.approx((0.01, 0.02))
    assert found.high - found.estimate == pytest.approx(found.estimate - found.low)
    here = found.same_test_set()
    assert here.high - here.estimate == pytest.approx(0.02 * 2.306004, rel=1e-6)
    assert here.class_error == 0
    assert found.low < here.low < here.high < found.high


def test_interval_without_repeats_is_for_the_classes_alone():
    found = interval(0.5, (0.01**2, 99), None, 0.95)
    assert (found.training_error, found.training_freedom, found.same_test_set()) == (None, 0, None)
    assert found.high == pytest.approx(0.5 + 0.01 * 1.984217, rel=1e-6)


def test_zero_is_excluded_on_either_side_only():
    assert interval(0.5, (0.01, 99), None, 0.95).excludes_zero
    assert interval(-0.5, (0.01, 99), None, 0.95).excludes_zero
    assert not interval(0.1, (0.01, 99), None, 0.95).excludes_zero
    assert not interval(0.0, (0.0, 99), None, 0.95).excludes_zero


def test_detectable_difference_is_the_textbook_one_for_many_degrees_of_freedom():
    found = interval(0.0, (1.0, 10**6), None, 0.95)
    assert found.detectable_difference(0.8) == pytest.approx(1.959964 + 0.841621, rel=1e-5)


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
