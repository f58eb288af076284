import numpy as np
import pytest

from experiments.plans.study import StudyOptions
from experiments.plans.study_runs import NothingFinished
from experiments.protocols.extras import share_in_other_hulls
from experiments.studies.figures import DEFAULTS, FIGURES
from experiments.studies.token_selection import SELECTS_FROM, spread_of

SQUARE = np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 1.0]])


def test_samples_in_the_hulls_of_others_are_counted():
    labels = np.repeat([0, 1], 4)
    assert share_in_other_hulls(np.vstack([SQUARE, SQUARE + 2.0]), labels) == 0
    assert share_in_other_hulls(np.vstack([SQUARE, SQUARE / 2 + 0.25]), labels) == 0.5
    assert share_in_other_hulls(np.vstack([SQUARE, SQUARE + [0.5, 0.5]]), labels) == pytest.approx(2 / 8)


def test_a_hull_without_area_holds_nobody():
    line = np.linspace(0, 1, 4)[:, None] * [1.0, 1.0]
    assert share_in_other_hulls(np.vstack([line, SQUARE - 5]), np.repeat([0, 1], 4)) == 0


def test_one_loss_three_poolings():
    options = StudyOptions(DEFAULTS["5.4"]["dataset"], "demo")
    configs = [cell.config for cell in FIGURES["5.4"](options).cells(NothingFinished())]
    assert [(config.pooling, config.zero_shot_weight) for config in configs] == [
        ("gap", None),
        ("gsp", 0.0),
        ("gsp", configs[2].zero_shot_weight),
    ]
    assert configs[2].zero_shot_weight > 0
    assert {(config.backbone, config.normalization, config.embedding_dim) for config in configs} == {
        ("token_embedding", "none", 2)
    }


def test_the_spread_counts_trainings_that_select():
    points = 100 * np.array([[0.5, 0.2], [SELECTS_FROM, 0.9], [0.98, 0.95]])  # weight on own tokens, MAP@R
    assert spread_of(points) == ["20.00", "90.00", "95.00", "2 of 3", "74.3"]
