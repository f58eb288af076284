"""Rows that tables 3.1 and 3.3 have in common are the same runs."""

import pytest

from experiments.plans.study import StudyOptions
from experiments.studies.fair_tables import ccp_table
from experiments.studies.training_steps import TrainingSteps


@pytest.mark.parametrize(("dataset", "centers"), [("sop", 1), ("inshop", 1), ("cub200", 10)])
def test_soft_triple_has_the_same_centres_in_both_tables(dataset, centers):
    options = StudyOptions(dataset, "full", losses=("softtriple",))
    (fair,), (steps,) = ({cell.config for cell in study(options).cells(None)} for study in (ccp_table, TrainingSteps))
    assert fair == steps
    assert fair.centers_per_class == centers
