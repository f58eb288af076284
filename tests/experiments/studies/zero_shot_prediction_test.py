import types

import numpy as np
from matplotlib import colormaps
from scipy import stats

from experiments.plans.study import StudyOptions
from experiments.plans.study_runs import NothingFinished
from experiments.protocols.attention import ImageAttention
from experiments.reports.intervals import interval_of_runs
from experiments.rows.run_folders import run_row
from experiments.studies import zero_shot_prediction
from experiments.studies.figures import FIGURES
from experiments.studies.zero_shot_prediction import RIDGES, attributes_of, dominant_colors, gain_sentences
from gsp_dml.zero_shot_evaluation import FITS, zero_shot_accuracy


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
    found = interval_of_runs(values)
    np.testing.assert_allclose((found.low, found.high), expected, rtol=1e-5)
    assert found.kind == "runs only"
    assert interval_of_runs(values[:1]) is None


def side_of(folds, level):
    """Runs whose accuracies grow with the fold under l2, and with the level of `classes`."""

    def accuracy(shift, fold):
        return {"euclidean": level + shift + fold / 10, "cosine": level + shift}

    found = [{"samples": accuracy(0, fold), "classes": accuracy(level / 10, fold), "chance": 0.2} for fold in folds]
    ridges = [{**of, "ridges": [[0.001, level], [0.05, level + fold / 10]]} for fold, of in zip(folds, found)]
    rows = [{"extras": {"zero_shot": of}} for of in ridges]
    return types.SimpleNamespace(places=[(fold, 0) for fold in folds], rows=rows)


def test_a_gain_is_of_the_same_trainings_alone():
    names = ("without L_ZS", "with L_ZS")
    both = gain_sentences(dict(zip(names, (side_of((0, 1), 0.2), side_of((0, 1), 0.6)))))
    assert [sentence.partition(" distance")[0].removeprefix("L_ZS, fitted to ") for sentence in both] == [
        *("samples, euclidean", "samples, cosine", "classes, euclidean", "classes, cosine")
    ]
    gains = [40.0, 40.0, 44.0, 44.0]
    assert all(f"{gain:+} points" in text and "reproduced" in text for gain, text in zip(gains, both))
    assert gain_sentences(dict(zip(names, (side_of((0, 1), 0.2), side_of((0, 2), 0.6))))) == []
    assert gain_sentences({"without L_ZS": side_of((0, 1), 0.2)}) == []


def test_a_run_is_recorded_with_its_accuracies(drawn_cells, monkeypatch):
    study = FIGURES["5.6"](StudyOptions("cifar10_seen", "demo", repeats=2))
    found = {**dict.fromkeys(FITS, {"euclidean": 0.3, "cosine": 0.15}), "ridges": [[0.05, 0.3]], "chance": 0.2}
    state = np.full((10, 8), 0.125), list("abcdefghij"), found
    monkeypatch.setattr(zero_shot_prediction, "attributes_of", lambda row, dataset, cache_dir: state)
    images = [attention(np.random.default_rng(0).uniform(size=(8, 2, 2)))] * 3
    monkeypatch.setattr(zero_shot_prediction, "_images_of", lambda row, dataset, cache_dir: images)
    finished = drawn_cells(lambda cell: 0.4)
    finished.dataset, finished.cache_dir = object(), None
    rows = study.recorded(finished).rows
    assert [(row["label"], row["extras"]["place"]) for row in rows] == [
        *[("without L_ZS", 0)] * 2,
        *[("with L_ZS", 1)] * 2,
    ]
    first, second = rows[2:]
    measured = {"zero_shot": found, "zero_shot_l2": 0.3, "zero_shot_cosine": 0.15}
    assert {name: second["extras"][name] for name in measured} == measured
    assert second.arrays == {}
    assert first["extras"]["image_names"] == ["cat"] * 3
    assert first["extras"]["prototype_names"] == [f"prototype {index}" for index in range(8)]
    np.testing.assert_allclose(first.arrays["parts"][0, 3], images[0].prototypes["prototype 3"], rtol=1e-6)


def test_both_readings_of_the_regression_are_computed(tmp_path):
    generator = np.random.default_rng(0)
    labels = np.repeat(np.arange(6), 10)
    attributes = generator.dirichlet(np.ones(8), size=6)[labels] + 0.05 * generator.normal(size=(60, 8))
    embeddings = attributes @ generator.normal(size=(8, 4))
    np.savez(tmp_path / "attributes.npz", attributes=attributes)
    np.savez(tmp_path / "test_embeddings.npz", queries=embeddings, query_labels=labels)
    dataset = types.SimpleNamespace(class_names=[])
    _, _, found = attributes_of(run_row(tmp_path, 0, 0, {"zero_shot_ridge": 0.01}, {}), dataset)
    for fit in ("samples", "classes"):
        expected = zero_shot_accuracy(attributes, embeddings, labels, ridge=0.01, fit=fit)
        assert found[fit] == {name: round(getattr(expected, name).mean(), 6) for name in ("euclidean", "cosine")}
    assert found["samples"] != found["classes"]
    assert [ridge for ridge, _ in found["ridges"]] == list(RIDGES)
    weakest = zero_shot_accuracy(attributes, embeddings, labels, ridge=RIDGES[0]).euclidean.mean()
    assert found["ridges"][0][1] == round(weakest, 6)


def test_positions_take_the_colour_of_their_largest_part():
    colors = colormaps["tab10"](range(2))[:, :3]
    parts = np.array([[[0.4, 0.0], [0.1, 0.0]], [[0.1, 0.1], [0.2, 0.1]]])
    drawn = dominant_colors(parts.sum(axis=0), parts, colors)
    np.testing.assert_allclose(drawn[0, 0], colors[0])
    np.testing.assert_allclose(drawn[0, 1], colors[1] * 0.1 / 0.5)
    np.testing.assert_allclose(drawn[1, 0], colors[1] * 0.3 / 0.5)
