import numpy as np
import pytest

from common.errors import InvalidInput
from common.training import choose_model
from common.training.selection import choose


def test_the_margin_is_students_quantile_of_paired_differences():
    """t of .9 with three degrees of freedom is 1.6377 in printed tables."""
    ahead = np.array([0.02, 0.06, 0.04, 0.08])
    error = ahead.std(ddof=1) / 2
    first = np.array([0.3, 0.5, 0.4, 0.2])
    assert choose({"a": first, "b": first + ahead}) == (
        "b",
        "b",
        {"a": pytest.approx(0.35), "b": pytest.approx(0.4)},
        0.0,
    )
    level = ahead - ahead.mean() + 1.63 * error
    assert choose({"a": first, "b": first + level})[:2] == ("a", "b")
    assert choose({"a": first, "b": first + level}).margin == pytest.approx(1.6377 * error, rel=1e-4)
    assert choose({"a": first, "b": first + level + 0.01 * error})[:2] == ("b", "b")


def test_the_simplest_that_is_not_clearly_beaten():
    noise = np.array([0.0, 0.03, -0.03, 0.01])
    scores = {"untrained": np.full(4, 0.3), "half": np.full(4, 0.5), "whole": 0.51 + noise}
    assert choose(scores)[:2] == ("half", "whole")
    assert choose(dict(reversed(scores.items()))).name == "whole"
    assert choose({"a": np.full(3, 0.5), "b": np.full(3, 0.5)}).name == "a"
    assert choose({"a": [0.1], "b": [0.9]})[:2] == ("a", "b")  # of one block, no noise is known


def test_without_an_effect_the_simplest_is_left_in_one_case_of_ten():
    rng = np.random.default_rng(0)
    left = [choose({"a": rng.normal(size=4), "b": rng.normal(size=4)}).name == "b" for _ in range(2000)]
    assert np.mean(left) == pytest.approx(0.1, abs=0.02)


@pytest.mark.parametrize("scores", [{}, {"a": []}, {"a": [1.0], "b": [1.0, 2.0]}, {"a": [[1.0]]}, {"a": [np.nan, 1.0]}])
def test_scores_that_cannot_be_compared_are_refused(scores):
    with pytest.raises(InvalidInput, match="Invalid scores: received"):
        choose(scores)


def test_models_are_chosen_by_the_map_at_r_of_classes():
    labels = np.repeat(np.arange(6), 4)
    images = np.random.default_rng(0).normal(size=(24, 8)).astype(np.float32)
    images[:, :6] += 3 * np.eye(6, dtype=np.float32)[labels]
    candidates = {"noise": lambda x: x[:, 6:], "signal": lambda x: x[:, :6], "both": lambda x: x}
    model, choice = choose_model(candidates, images, labels)
    assert model is candidates["signal"]
    assert choice.means["noise"] < 0.5 < choice.means["signal"]
