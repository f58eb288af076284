import numpy as np
import pytest

from benchmarks.interval_coverage import SINGLE, simulated_scores
from benchmarks.interval_rules import half_widths, shifted, simulated
from experiments import reports
from experiments.reports.intervals import interval


@pytest.mark.parametrize(("design", "cochran"), [((4, 3), 1 / 2), ((1, 3), 2 / 3)])
def test_the_rule_of_the_reports_is_theirs(design, cochran):
    studies = simulated(np.random.default_rng(0), SINGLE, 16, design, skewed=True, studies=20)
    below, above = half_widths(studies, shifted(studies), cochran)
    for index in range(20):
        of_classes = studies.of_classes[index], studies.class_freedom[index]
        of_training = studies.of_training[index], studies.training_freedom
        found = interval(studies.estimate[index], of_classes, of_training, 0.95, studies.skewness[index])
        assert found.estimate - found.low == pytest.approx(below[index])
        assert found.high - found.estimate == pytest.approx(above[index])


@pytest.mark.parametrize("design", [(4, 1), (4, 3), (1, 3)])
def test_studies_have_the_variances_that_the_reports_find(design):
    members, generator = reports.single_model_members(*design), np.random.default_rng(1)
    found = []
    for _ in range(300):
        scores = simulated_scores(generator, SINGLE, 30, len(members), skewed=False)
        found.append(reports.class_clustered_interval(scores, members=members))
    studies = simulated(np.random.default_rng(2), SINGLE, 30, design, skewed=False, studies=2000)
    assert studies.training_freedom == found[0].training_freedom
    assert studies.of_classes.mean() == pytest.approx(np.mean([of.class_error**2 for of in found]), rel=0.1)
    assert studies.of_training.mean() == pytest.approx(np.mean([of.training_error**2 for of in found]), rel=0.25)
    assert studies.class_freedom.mean() == pytest.approx(np.mean([of.class_freedom for of in found]), rel=0.05)
