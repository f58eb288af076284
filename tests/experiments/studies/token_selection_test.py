"""What the figure of tokens draws and counts."""

import numpy as np
import pytest

from experiments.figure import DEFAULTS, FIGURES
from experiments.reports.token_panels import TokenPanel, share_in_other_hulls, token_panels
from experiments.studies.study import StudyOptions
from experiments.studies.study_runs import NothingFinished

SQUARE = np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 1.0]])


def test_samples_in_the_hulls_of_others_are_counted():
    labels = np.repeat([0, 1], 4)
    assert share_in_other_hulls(np.vstack([SQUARE, SQUARE + 2.0]), labels) == 0
    assert share_in_other_hulls(np.vstack([SQUARE, SQUARE / 2 + 0.25]), labels) == 0.5
    assert share_in_other_hulls(np.vstack([SQUARE, SQUARE + [0.5, 0.5]]), labels) == pytest.approx(2 / 8)


def test_a_hull_without_area_holds_nobody():
    line = np.linspace(0, 1, 4)[:, None] * [1.0, 1.0]
    assert share_in_other_hulls(np.vstack([line, SQUARE - 5]), np.repeat([0, 1], 4)) == 0


def test_panels_are_drawn(tmp_path):
    generator = np.random.default_rng(0)
    samples, labels = generator.normal(size=(40, 2)), np.repeat(np.arange(4), 10)
    panel = TokenPanel("GAP", generator.normal(size=(6, 2)), np.array([0, 1, 2, 3, -1, -1]), samples, labels)
    token_panels([panel, panel], tmp_path / "tokens.png", title="drawn")
    assert (tmp_path / "tokens.png").read_bytes().startswith(b"\x89PNG")


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
