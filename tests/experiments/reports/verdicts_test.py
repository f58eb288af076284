import dataclasses
import math

import pytest
from scipy import stats

from experiments.published.values import published_value
from experiments.reports.intervals import interval
from experiments.reports.verdicts import (
    TOLERANCE,
    Target,
    error_of_collections,
    error_of_mean,
    gain_verdict,
    half_effect,
    judge,
    published_difference,
    summary_over_sets,
)

PRINTED = published_value("5.1", "sop", "PNCA+GSP", 128, "MAP@R")  # 43.95 +- 0.06
BASELINE = published_value("5.1", "sop", "PNCA", 128, "MAP@R")  # 43.57
EXACT = (0.0, 8)  # a print without an error


def measured(percent, training_error=0.1, freedom=8):
    """A figure with a class error of a whole point, which must not matter, and a training error in points."""
    of_training = None if training_error is None else ((training_error / 100) ** 2, freedom)
    return interval(percent / 100, (0.01**2, 99), of_training, 0.95)


def word(gap, training_error=0.1, **target):
    bounds = measured(PRINTED.value + gap, training_error)
    return judge(bounds.estimate, bounds, Target(PRINTED, **target)).word


REACH = 0.1 * stats.t.ppf(0.95, 8) + 0.005  # of the 90 % interval: one-sided tests at 5 %, and the thesis' rounding


@pytest.mark.parametrize(
    ("gap", "expected"),
    [
        (0.0, "reproduced"),
        (0.5 - REACH - 1e-3, "reproduced"),
        (0.5 - REACH + 1e-3, "above"),
        (-0.5 + REACH + 1e-3, "reproduced"),
        (-0.5 + REACH - 1e-3, "below"),
    ],
)
def test_reproduced_is_an_interval_within_the_margin(gap, expected):
    assert word(gap, error=EXACT) == expected


def test_noise_makes_no_reproduction():
    assert [word(0.0, error, margin=0.5, error=EXACT) for error in (0.1, 0.3, 1.0, 4.0)] == [
        *("reproduced", "inconclusive", "inconclusive", "inconclusive")
    ]
    assert word(0.3, 0.1, margin=0.1, error=EXACT) == "above"
    assert word(0.15, 0.1, margin=0.1, error=EXACT) == "inconclusive"  # the interval holds zero


def test_the_margin_and_the_interval_of_the_verdict_are_told():
    bounds = measured(43.85)
    said = judge(bounds.estimate, bounds, Target(PRINTED, margin=0.19, error=EXACT))
    assert (said.gap, said.low, said.high) == pytest.approx((-0.1, -0.1 - REACH, -0.1 + REACH))
    assert (said.margin, str(said)) == (0.19, "inconclusive")


def test_the_error_of_the_print_counts():
    assert error_of_collections(0.06) == (pytest.approx(0.06**2 / 2), 8)
    assert error_of_collections(None) is None
    assert error_of_mean(0.3, 5) == (pytest.approx(0.3**2 / 5), 4)
    bounds = measured(43.95)
    alone = judge(bounds.estimate, bounds, Target(PRINTED, error=EXACT))
    both = judge(bounds.estimate, bounds, Target(PRINTED, error=(0.2**2, 8)))
    assert alone.high == pytest.approx(REACH)
    assert both.high == pytest.approx(math.hypot(0.1, 0.2) * stats.t.ppf(0.95, 8) + 0.005)
    unknown = judge(bounds.estimate, bounds, Target(PRINTED))  # the thesis' runs are taken to spread like ours
    assert unknown.high == pytest.approx(math.sqrt(2) * 0.1 * stats.t.ppf(0.95, 8) + 0.005)


def test_one_training_decides_nothing():
    bounds = measured(43.95, None)
    for of in (bounds, None):
        said = judge(bounds.estimate, of, Target(PRINTED, error=EXACT))
        assert str(said) == "inconclusive: trained once, so the spread of our side is not known"
        assert said.gap == pytest.approx(0)


def test_the_margin_is_half_of_the_printed_effect():
    assert half_effect(PRINTED, BASELINE) == pytest.approx((43.95 - 43.57) / 2)
    assert half_effect(PRINTED, None) == half_effect(None, None) == TOLERANCE
    assert half_effect(PRINTED, dataclasses.replace(BASELINE, status="lost", value=None)) == TOLERANCE


def test_differences_of_printed_rows_are_targets():
    found = published_difference(PRINTED, BASELINE)
    assert found.value == pytest.approx(0.38)
    assert found.std == pytest.approx(math.hypot(PRINTED.std, BASELINE.std))
    assert (found.is_target, found.method) == (True, "PNCA+GSP minus PNCA")
    assert published_difference(PRINTED, None) is None
    lost = dataclasses.replace(BASELINE, status="lost", value=None, note="torn")
    assert (published_difference(PRINTED, lost).status, published_difference(PRINTED, lost).value) == ("lost", None)
    ours = interval(0.0037, (0.01**2, 99), (0.0002**2, 8), 0.95)
    assert judge(ours.estimate, ours, Target(found, 0.19, error=EXACT)).word == "reproduced"


def test_lost_and_doubtful_cells_are_no_targets_even_when_the_figure_agrees():
    doubtful = published_value("ICCV-2", "sop", "C2+DeLF", 128, "P@1")
    bounds = measured(45.53)
    said = judge(bounds.estimate, bounds, Target(doubtful))
    assert said.word == "not comparable"
    assert said.reason.startswith("the printed cell is doubtful (SUSPECT: P@1 below its MAP@R trend")
    assert said.gap is None
    lost = published_value("ICCV-2", "cub200", "C2+DeLF", 512, "P@1")
    assert str(judge(0.5, bounds, Target(lost))) == "not comparable: the printed cell is lost (cell empty in the text)"


def test_reasons_are_all_given():
    bounds = measured(43.95)
    assert str(judge(0.4395, bounds, Target(None))) == "not comparable: no published figure"
    assert str(judge(0.4395, bounds, Target(PRINTED, reasons=("a", "b")))) == "not comparable: a; b"
    assert str(judge(0.4395, bounds, Target(None, reasons=("a",)))) == "not comparable: no published figure; a"


def gain(percent, half=2.0):
    """A gain whose 90 % interval reaches `half` points on each side, from runs alone."""
    error = half / 100 / stats.t.ppf(0.95, 7)
    return interval(percent / 100, None, (error**2, 7), 0.95)


@pytest.mark.parametrize(
    ("percent", "printed", "at_least", "expected"),
    [
        (26, 30, True, "below"),
        (31, 30, True, "inconclusive"),
        (33, 30, True, "reproduced"),
        (28, 30, False, "reproduced"),
        (36, 30, False, "reproduced"),
        (50, 30, False, "above"),
        (5, 30, False, "below"),
        (-10, 30, False, "below"),
    ],
)
def test_a_gain_gets_the_same_words(percent, printed, at_least, expected):
    found, sentence = gain_verdict(gain(percent), printed, at_least=at_least)
    assert found == expected
    assert sentence.startswith(f"Thesis: {'more than ' if at_least else ''}+30 points of MAP@R. Ours: {percent:+.1f}")
    assert sentence.endswith(f": {expected}.")
    assert ("margin 15.0" in sentence) == (not at_least)


def test_a_gain_of_one_training_is_inconclusive():
    of_classes = interval(0.9, (0.01**2, 99), None, 0.95)
    for of in (0.9, of_classes):
        found, sentence = gain_verdict(of, 70.0)
        assert found == "inconclusive"
        assert "trained once" in sentence


def test_the_interval_over_sets_is_students():
    differences = [0.1, 0.2, 0.4, -0.1]
    found = summary_over_sets(differences)
    expected = stats.t.interval(0.95, 3, 0.15, stats.sem(differences))
    assert (found.mean, found.low, found.high) == pytest.approx((0.15, *expected))
