import numpy as np
import pytest

from benchmarks.interval_coverage import (
    CASES,
    DIFFERENCE,
    FAMILIES,
    NORMAL_SETS,
    SINGLE,
    SMALLEST_GAIN,
    claim_words,
    coverage,
    false_alarms,
    family_coverage,
    paired_false_alarms,
    words,
)
from tests.support.samples import sampled


@sampled("population, skewed, num_classes", [SINGLE, DIFFERENCE], [False, True], [8, 30])
def test_intervals_cover_the_truth(population, skewed, num_classes):
    generator = np.random.default_rng(0)
    # 93 to 97 % in 10,000 studies; 400 have a standard error of about one.
    assert 0.91 <= coverage(generator, population, num_classes, (4, 3), skewed=skewed, studies=400) <= 0.985


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize(("folds_share", "most_by_class"), [(0, 0.8), (1, 0.94)])
def test_intervals_of_classes_in_families_cover_the_truth_by_family(name, folds_share, most_by_class):
    by_class, by_family = family_coverage(np.random.default_rng(0), FAMILIES[name], folds_share, 400)
    assert 0.92 <= by_family <= 0.985
    assert by_class <= most_by_class  # what families are for


def test_few_tables_without_a_difference_have_a_star():
    starred, single = false_alarms(np.random.default_rng(0), 16.0, 150)
    assert starred <= 0.09  # 5 % and twice the error of 150
    assert single[-1] <= 0.11  # 5 % and three times the error; a variance shared by the rows has 20 % and more
    assert single.sum() >= 0.3  # what the correction is for


@sampled("noise, repeats", [0.1, 1.0, 4.0], [1, 3])
def test_twice_the_margin_is_hardly_ever_reproduced(noise, repeats):
    found = words(np.random.default_rng(0), noise, repeats, 1.0, 150)
    assert found["reproduced"] <= 0.05
    assert sum(found.values()) == pytest.approx(1)


def test_a_quiet_reproduction_is_called_one_and_a_noisy_one_inconclusive():
    generator = np.random.default_rng(0)
    assert words(generator, 0.1, 3, 0.0, 100)["reproduced"] >= 0.95
    assert words(generator, 4.0, 1, 0.0, 100)["inconclusive"] >= 0.8


@sampled("case, design", ["fold effect twice a run's", "chosen, better by .05"], [(4, 1), (4, 3)])
def test_single_differences_rarely_exclude_the_truth_of_new_folds(case, design):
    found = paired_false_alarms(np.random.default_rng(0), CASES[case], design, 400)
    assert 0.02 <= found <= 0.09  # 5 % and three times the error of 400; fixed folds have 20 % and more


@pytest.mark.parametrize("case", NORMAL_SETS)
@pytest.mark.parametrize("num_sets", [5, 8])
def test_claims_are_rarely_judged_wrong(case, num_sets):
    without, half = (
        claim_words(np.random.default_rng(0), case, num_sets, gain, 1000, 5) for gain in (0.0, SMALLEST_GAIN / 2)
    )
    assert without["holds"] <= 0.05
    assert half["fails"] <= 0.05
    assert sum(half.values()) == pytest.approx(1)
