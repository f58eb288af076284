"""What the figure of zero-shot prediction counts and draws."""

import types

import numpy as np
import pytest
from matplotlib import colormaps
from scipy import stats

from experiments.reports import UnitRun
from experiments.reports.attention import ImageAttention
from experiments.reports.zero_shot_panels import ZeroShotPanel, dominant_colors, zero_shot_panels
from experiments.studies.figures import FIGURES
from experiments.studies.study import StudyOptions
from experiments.studies.study_runs import NothingFinished
from experiments.studies.zero_shot_prediction import Attributes, attributes_of, gain_sentences, interval_of
from gsp_dml.zero_shot_evaluation import ZeroShotAccuracy, zero_shot_accuracy


def attention(parts):
    parts = np.asarray(parts, float)
    names = {f"prototype {index}": part for index, part in enumerate(parts)}
    return ImageAttention(np.zeros((4, 4, 3)), "cat", parts.sum(axis=0), names)


def test_the_two_sides_differ_in_the_weight_alone():
    options = StudyOptions("cifar10_seen", "full", overrides={"zero_shot_weight": 0.4, "zero_shot_ridge": 0.01})
    cells = FIGURES["5.6"](options).cells(NothingFinished())
    without, with_loss = cells[0].config.as_dict(), cells[-1].config.as_dict()
    assert {name for name in with_loss if without[name] != with_loss[name]} == {"zero_shot_weight", "zero_shot_ridge"}
    assert (without["zero_shot_weight"], with_loss["zero_shot_weight"]) == (0.0, 0.4)
    assert (with_loss["loss"], with_loss["num_prototypes"], with_loss["classes_per_batch"]) == ("pnca", 8, 10)


def test_bounds_are_students():
    values = np.array([0.2, 0.25, 0.31, 0.28])
    expected = stats.t.interval(0.95, 3, values.mean(), stats.sem(values))
    found = interval_of(values)
    np.testing.assert_allclose((found.low, found.high), expected, rtol=1e-5)
    assert found.kind == "runs only"
    assert interval_of(values[:1]) is None


def test_a_gain_is_of_the_same_trainings_alone(tmp_path):
    def side(folds, level):
        def accuracy(shift, fold):
            return ZeroShotAccuracy(np.array([level + shift + fold / 10]), np.array([level + shift]), 0.2)

        by_fit = [{"samples": accuracy(0, fold), "classes": accuracy(level / 10, fold)} for fold in folds]
        states = [Attributes(np.zeros((2, 8)), ["cat", "dog"], accuracies) for accuracies in by_fit]
        return [UnitRun(tmp_path, fold, 0, {}, {}) for fold in folds], states

    names = ("without L_ZS", "with L_ZS")

    def sentences(*sides):
        units, states = zip(*sides)
        return gain_sentences(dict(zip(names, units)), dict(zip(names, states)))

    both = sentences(side((0, 1), 0.2), side((0, 1), 0.6))
    assert [sentence.partition(" distance")[0].removeprefix("L_ZS, fitted to ") for sentence in both] == [
        *("samples, euclidean", "samples, cosine", "classes, euclidean", "classes, cosine")
    ]
    gains = [40.0, 40.0, 44.0, 44.0]
    assert all(f"{gain:+} points" in text and "reproduced" in text for gain, text in zip(gains, both))
    assert sentences(side((0, 1), 0.2), side((0, 2), 0.6)) == []
    assert sentences(side((0, 1), 0.2)) == []


def test_both_readings_of_the_regression_are_computed(tmp_path):
    generator = np.random.default_rng(0)
    labels = np.repeat(np.arange(6), 10)
    attributes = generator.dirichlet(np.ones(8), size=6)[labels] + 0.05 * generator.normal(size=(60, 8))
    embeddings = attributes @ generator.normal(size=(8, 4))
    np.savez(tmp_path / "attributes.npz", attributes=attributes)
    np.savez(tmp_path / "test_embeddings.npz", queries=embeddings, query_labels=labels)
    dataset = types.SimpleNamespace(class_names=[])
    state = attributes_of(UnitRun(tmp_path, 0, 0, {"zero_shot_ridge": 0.01}, {}), dataset)
    assert set(state.accuracies) == {"samples", "classes"}
    for fit, accuracy in state.accuracies.items():
        expected = zero_shot_accuracy(attributes, embeddings, labels, ridge=0.01, fit=fit)
        np.testing.assert_array_equal(accuracy.euclidean, expected.euclidean)
    assert not np.array_equal(state.accuracies["samples"].euclidean, state.accuracies["classes"].euclidean)


def test_positions_take_the_colour_of_their_largest_part():
    drawn = dominant_colors(attention([[[0.4, 0.0], [0.1, 0.0]], [[0.1, 0.1], [0.2, 0.1]]]), colormaps["tab10"])
    colors = np.array(colormaps["tab10"](range(2)))[:, :3]
    np.testing.assert_allclose(drawn[0, 0], colors[0])
    np.testing.assert_allclose(drawn[0, 1], colors[1] * 0.1 / 0.5)
    np.testing.assert_allclose(drawn[1, 0], colors[1] * 0.3 / 0.5)


@pytest.mark.parametrize("num_panels", [1, 2])
def test_panels_are_drawn(num_panels, tmp_path):
    images = [attention(np.random.default_rng(0).uniform(size=(8, 2, 2)))] * 2
    histograms = np.random.default_rng(1).dirichlet(np.ones(8), size=3)
    panel = ZeroShotPanel("with", histograms, {"l2": [0.4, 0.5], "cosine": [0.6, 0.5]}, images)
    path = tmp_path / "panels.png"
    zero_shot_panels([panel] * num_panels, path, class_names=["cat", "dog", "car"], chance=0.2, title="drawn")
    assert path.read_bytes().startswith(b"\x89PNG")
