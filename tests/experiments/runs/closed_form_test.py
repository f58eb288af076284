import dataclasses
import json

import numpy as np
import pytest

from common.backbones import network_names, save_parameters
from common.errors import InvalidInput
from common.files import read_arrays
from common.retrieval.metrics import TABLE_METRICS
from common.training import within_class_whitening
from experiments.recipes import resolve
from experiments.runs import closed_form
from experiments.runs.closed_form import start_head
from experiments.runs.trained_model import load_trained_model
from experiments.runs.trunk import trunk_of
from experiments.runs.unit_runs import UnitRuns
from experiments.settings import build
from experiments.settings.method_names import parse_loss
from experiments.settings.places import Places
from tests.experiments.patterned_images import patterned_images
from tests.experiments.tiny_network import CHANNELS, tiny_network

pytestmark = pytest.mark.usefixtures("tiny_network", "functions_run_eagerly")

DIM = 8
SETTINGS = {
    "num_folds": 2,
    "embedding_dim": DIM,
    "image_size": 32,
    "crop": "shift_flip",
    "classes_per_batch": 4,
    "samples_per_class": 4,
    "steps_per_evaluation": 1,
    "max_steps": 1,
    "backbone": "resnet10",
    "head_start": "whitening",
}


@pytest.fixture(autouse=True)
def channels_of_the_tiny_network(monkeypatch):
    monkeypatch.setitem(network_names.CHANNELS, "resnet10", CHANNELS)


def configuration(pooling="gap", **overrides):
    return resolve("cifar10", "c2", pooling, "thesis", "smoke", {**SETTINGS, **overrides})


@pytest.fixture(scope="module")
def dataset():
    return patterned_images(8, 10)


def started(config, dataset):
    model = build.build_model(config, dataset, dataset.train.num_classes, seed=0)
    inputs = build.build_inputs(config, dataset)
    model(next(iter(inputs(dataset.train))))
    start_head(model, config.head_start, inputs, dataset.train)
    return model, inputs(dataset.train)


def test_embeddings_start_as_the_closed_form_of_the_pooled_features(dataset):
    model, batches = started(configuration(pooling="gmp"), dataset)
    features = model.embed(batches, output="pooled")
    expected = within_class_whitening(features, dataset.train.labels, DIM)(features)
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    np.testing.assert_allclose(model.embed(batches), expected, atol=1e-3)
    channels = features.shape[1]
    kernel = model.head.projection.kernel.numpy()
    assert np.square(kernel).sum() == pytest.approx(2 * channels * DIM / (channels + DIM), rel=1e-4)


def test_the_identity_starts_with_the_pooled_features(dataset):
    model, batches = started(configuration(pooling="gmp", head_start="identity", embedding_dim=CHANNELS), dataset)
    features = model.embed(batches, output="pooled")
    np.testing.assert_allclose(
        model.embed(batches), features / np.linalg.norm(features, axis=1, keepdims=True), atol=1e-6
    )
    with pytest.raises(InvalidInput, match="--head_start=identity: received 8, expected 16, .* --head_start=pca"):
        started(configuration(head_start="identity"), dataset)


def test_a_run_measures_its_way_from_the_start_and_keeps_a_share(dataset, tmp_path):
    """Three equal runs, of which two keep the weights at half of the way and at the start."""
    settings = {"head_start": "identity", "embedding_dim": CHANNELS, "learning_rate": 0.01, "max_steps": 2}
    runs = UnitRuns(dataset, Places(str(tmp_path / "runs"), str(tmp_path / "cache")))
    kept_shares = [configuration(**settings, kept_share=share) for share in (0.5, 0.0)]
    configs = [configuration(**settings, interpolation="0,0.5"), *kept_shares]
    found = []
    for config in configs:
        runs.train(config, 0, 0)
        path = runs.unit_dir(config, 0, 0)
        found.append((json.loads((path / "result.json").read_text()), read_arrays(path / "weights.npz")))
    (measured, end), (kept, half), (_, start) = found
    way = measured["interpolated"]
    figures = measured["untrained"], kept["test"], measured["test"]
    untrained, of_half, of_end = ({name: of[name] for name in TABLE_METRICS} for of in figures)
    assert way["0"]["test"] == pytest.approx(untrained, abs=1e-6)
    assert way["0"]["validation"]["MAP@R"] == pytest.approx(
        measured["validation_before"]["untrained"]["MAP@R"], abs=1e-6
    )
    assert way["0.5"]["test"] == pytest.approx(of_half, abs=1e-6)
    assert way["0.5"]["test"] != pytest.approx(of_end, abs=1e-3)
    for name, weight in end.items():
        np.testing.assert_allclose(half[name], (start[name] + weight) / 2, atol=1e-5)


@pytest.mark.parametrize("shares", ["", "0.5,0.2", "0,1", "-0.1", "a"])
def test_shares_are_increasing_and_below_one(shares):
    with pytest.raises(InvalidInput, match="--interpolation: received .*, expected increasing numbers from 0 to below"):
        configuration(interpolation=shares)
    with pytest.raises(InvalidInput, match="which --kept_share leaves. Give one"):
        configuration(interpolation="0.5", kept_share=0.5)


def test_a_run_from_cached_features_starts_so_and_loads_again(dataset, tmp_path, monkeypatch):
    monkeypatch.setattr(build, "evaluation_batch_size", lambda config: 8)
    places = Places(str(tmp_path / "runs"), str(tmp_path / "cache"))
    runs = UnitRuns(dataset, places)
    save_parameters(tiny_network(3), tmp_path / "network.npz")
    weights = str(tmp_path / "network.npz")  # of all folds
    config = configuration(trained_from="head", views=2, learning_rate=1e-9, weights=weights)
    runs.train(config, fold=0, repeat=0)
    path = runs.unit_dir(config, 0, 0)
    trained = load_trained_model(path, dataset=dataset, cache_dir=places.cache_dir)
    batches = trained.inputs
    features = trained.model.embed(batches(trained.training), output="pooled")
    whitening = within_class_whitening(features, trained.training.labels, DIM)
    kernel, bias = (weight.numpy().astype(np.float64) for weight in trained.model.head.projection.weights)
    shapes = [matrix @ matrix.T / np.square(matrix).sum() for matrix in (kernel, whitening.kernel)]  # without signs
    np.testing.assert_allclose(*shapes, atol=2e-3)
    queries = np.load(path / "test_embeddings.npz")["queries"]
    np.testing.assert_allclose(trained.model.embed(batches(trained.dataset.test)), queries, atol=2e-3)
    assert np.abs(bias).max() > 0
    result = json.loads((path / "result.json").read_text())
    assert result["closed_form"].keys() == {
        "pca",
        "soft_whitening",
        "whitening",
    }  # of average features, which `gap` pools too
    assert result["closed_form"]["whitening"]["MAP@R"] == pytest.approx(result["test"]["MAP@R"], abs=5e-3)
    assert json.loads((path / "row.json").read_text())["row"]["extras"]["closed_form"] == result["closed_form"]
    extras = json.loads((path / "row.json").read_text())["row"]["extras"]
    before = extras["validation_before"]
    assert before == result["validation_before"]
    assert extras["validation_curve"][0][1] == pytest.approx(before["whitening"]["MAP@R"], abs=5e-3)
    with pytest.raises(InvalidInput, match="--head_start=whitening, whose neck has a bias"):
        trunk_of(trained)
    # The second method of a fold finds those of the first.
    monkeypatch.setattr(closed_form, "closed_form_figures", None)
    other = dataclasses.replace(config, loss=parse_loss("pnca"))
    runs.train(other, fold=0, repeat=0)
    untrained = [json.loads((runs.unit_dir(each, 0, 0) / "untrained.json").read_text()) for each in (config, other)]
    assert untrained[0] == untrained[1]
    assert untrained[0]["validation_before"]["untrained"] != untrained[0]["untrained"]
    with pytest.raises(TypeError):  # of other training classes there are none
        runs.train(dataclasses.replace(config, fold_order="backward"), fold=0, repeat=0)
    images = dataset.test.arrays.copy()
    images[-1] = 255 - images[-1]
    edited = dataclasses.replace(dataset, test=dataclasses.replace(dataset.test, inputs=images))
    with pytest.raises(TypeError):  # nor of a test image changed behind the first batch
        UnitRuns(edited, places).train(other, fold=0, repeat=0)


@pytest.mark.parametrize("overrides", [{"pooling": "gsp"}, {"pooling": "weldon"}, {"backbone": "token_embedding"}])
def test_heads_without_a_single_linear_layer_behind_the_pooling_are_refused(overrides):
    with pytest.raises(InvalidInput, match="--pooling with --head_start=whitening: .* such as gap, gmp or gemean"):
        build.build_head(configuration(**overrides))


def test_embeddings_larger_than_the_features_are_refused(dataset):
    with pytest.raises(InvalidInput, match="--embedding_dim with --head_start=pca: received 600, expected at most"):
        started(configuration(head_start="pca", embedding_dim=600), dataset)
