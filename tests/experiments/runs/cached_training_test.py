import dataclasses
import json
import pathlib
import shutil
from types import SimpleNamespace
from unittest import mock

import numpy as np
import pytest
import tensorflow as tf

from common.backbones import CutNetwork, resnet50, save_parameters
from common.errors import InvalidInput
from common.files import write_json
from common.training import EmbeddingModel
from common.training.cached_features import _rows
from experiments.recipes import resolve
from experiments.runs.start_checks import _can_be_cut
from experiments.runs.trained_model import load_trained_model
from experiments.runs.unit_runs import UnitRuns
from experiments.settings import build
from experiments.settings.built_run import origin_of_features
from experiments.settings.places import Places
from experiments.settings.splits import split_of
from tests.experiments.patterned_images import patterned_images
from tests.experiments.tiny_network import tiny_network
from tests.support.interrupted_training import stop_after_second_checkpoint

pytestmark = pytest.mark.usefixtures("functions_run_eagerly")

FOLD = EmbeddingModel.fold_batch_norm
NETWORK = "resnet20"  # of one convolution here; what layers are for is asked of `resnet10`
SETTINGS = {
    "num_folds": 2,
    "embedding_dim": 16,
    "image_size": 32,
    "crop": "shift_flip",
    "classes_per_batch": 4,
    "samples_per_class": 4,
    "learning_rate": 1e-3,
    "steps_per_evaluation": 2,
    "max_steps": 6,
    "trained_from": "head",
    "views": 3,
}


@pytest.fixture(scope="module", autouse=True)
def one_convolution():
    with mock.patch.dict(build.BACKBONES, {NETWORK: tiny_network}):
        yield


@pytest.fixture(scope="module")
def dataset():
    return patterned_images(12, 20)


def configuration(loss="c2", pooling="gap", method="plain", **overrides):
    return resolve("cifar10", loss, pooling, "thesis", "smoke", {**SETTINGS, **overrides}, method)


def trained(runs, config):
    runs.train(config, fold=0, repeat=0, checkpoint_seconds=0)
    path = runs.unit_dir(config, 0, 0)
    metrics = [json.loads(line) for line in (path / "metrics.jsonl").read_text().splitlines()]
    return json.loads((path / "result.json").read_text()), metrics, np.load(path / "test_embeddings.npz")["queries"]


@pytest.fixture(scope="module")
def runs(dataset, tmp_path_factory):
    folder = tmp_path_factory.mktemp("cached")
    return UnitRuns(dataset, Places(str(folder / "runs"), str(folder / "cache")))


def test_rows_of_features_keep_families_and_encounters(dataset):
    """Otherwise folds would divide families, and photos of an encounter validate each other."""
    train = dataclasses.replace(
        dataset.train, families=np.array([0] * 8 + [1] * 4)[dataset.train.labels], encounters=dataset.train.labels
    )
    images = dataclasses.replace(dataset, train=train, folds_by_family=True)
    rows = _rows(images, None, None)
    split, expected = (split_of(each, configuration(), 1, 0) for each in (rows, images))
    assert expected.queries.labels.tolist() == [0, 1, 2, 3]
    np.testing.assert_array_equal(split.queries.labels, expected.queries.labels)
    np.testing.assert_array_equal(split.training.labels, expected.training.labels)


slow = [pytest.mark.slow, pytest.mark.default_stack]  # cuts, features and resume are tested apart on either stack
CASES = {
    "memory": {"loss": "c1+xbm", "xbm_batches": 3},
    "last_stage": {"backbone": "resnet10", "trained_from": "layer3"},
    "gsp": {"loss": "pnca", "pooling": "gsp", "num_prototypes": 8, "gsp_memory_size": 32},
}


@pytest.mark.slow
@pytest.mark.default_stack
def test_figures_are_those_of_uncached_training_with_the_same_views(runs):
    settings = {"backbone": NETWORK, "method": "ccp", "ccp_start": 4, "proxies_per_class": 2, "pool_size": 4}
    cached, cached_metrics, cached_queries = trained(runs, configuration(**settings))
    plain, plain_metrics, plain_queries = trained(runs, configuration(**settings, cached_features=False))
    assert cached["test"]["MAP@R"] == pytest.approx(plain["test"]["MAP@R"], abs=1e-3)
    assert cached["untrained"]["MAP@R"] == pytest.approx(plain["untrained"]["MAP@R"], abs=1e-3)
    assert cached["test"]["MAP@R"] != pytest.approx(cached["untrained"]["MAP@R"], abs=5e-3)
    assert losses(cached_metrics) == pytest.approx(losses(plain_metrics), rel=1e-3)
    np.testing.assert_allclose(cached_queries, plain_queries, atol=2e-3)


@pytest.mark.parametrize(
    "case", [pytest.param("memory", marks=pytest.mark.release), pytest.param("last_stage", marks=slow), "gsp"]
)
def test_nothing_but_the_rounding_to_float16_differs_from_uncached_training(case, dataset, runs, tmp_path, monkeypatch):
    """From a random network at 1e-3 the rounding grows; with it in the uncached network nothing is left to grow."""
    settings = {"backbone": NETWORK, **CASES[case]}
    cached, cached_metrics, cached_queries = trained(runs, configuration(**settings))
    monkeypatch.setattr(CutNetwork, "call", rounding_call)
    rounding = UnitRuns(dataset, Places(str(tmp_path / "runs"), str(tmp_path / "cache")))
    plain, plain_metrics, plain_queries = trained(rounding, configuration(**settings, cached_features=False))
    assert cached["test"]["MAP@R"] == pytest.approx(plain["test"]["MAP@R"], abs=1e-3)
    assert losses(cached_metrics) == pytest.approx(losses(plain_metrics), rel=1e-5)
    np.testing.assert_allclose(cached_queries, plain_queries, atol=1e-4)


def rounding_call(self, images, training=None):
    activations = tf.cast(self.lower(images, training=False), tf.float16)
    return self.upper(tf.stop_gradient(tf.cast(activations, tf.float32)), training=training)


def losses(metrics):
    return [line["loss"] for line in metrics]


def test_other_views_give_other_figures(runs):
    """The tolerance above tells: with one view fewer, the losses differ by more."""
    three, two = (losses(trained(runs, configuration(backbone=NETWORK, views=views))[1]) for views in (3, 2))
    assert three != pytest.approx(two, rel=3e-3)


def test_a_stopped_run_goes_on_bit_for_bit_from_the_same_files(dataset, runs, tmp_path, monkeypatch):
    config = configuration(backbone=NETWORK)
    whole, whole_metrics, queries = trained(runs, config)
    stopped = UnitRuns(dataset, Places(str(tmp_path / "runs"), runs.cache_dir))
    stop_after_second_checkpoint(monkeypatch)
    with pytest.raises(KeyboardInterrupt):
        stopped.train(config, 0, 0, checkpoint_seconds=0)
    monkeypatch.undo()
    before = modification_times(runs.cache_dir)
    resumed, resumed_metrics, resumed_queries = trained(stopped, config)
    assert before
    assert modification_times(runs.cache_dir) == before
    np.testing.assert_array_equal(resumed_queries, queries)
    assert resumed["test"] == whole["test"]
    assert losses(resumed_metrics) == losses(whole_metrics)


def modification_times(cache_dir):
    return {path: path.stat().st_mtime_ns for path in pathlib.Path(cache_dir).rglob("activations-*.npy")}


def test_folds_and_methods_share_the_features_of_one_network(dataset, runs, tmp_path):
    network = tmp_path / "network.npz"
    save_parameters(tiny_network(3), network)
    cache = tmp_path / "cache"
    own = UnitRuns(dataset, Places(str(tmp_path / "runs"), str(cache)))
    shared = {"weights": str(network), "backbone": NETWORK, "max_steps": 2}
    own.train(configuration(**shared), 0, 0)
    files = modification_times(cache)
    assert len(files) == 2
    own.train(configuration("c1", pooling="gmp", **shared), 1, 1)
    assert modification_times(cache) == files


def test_folded_batch_norm_trains_above_the_cut_from_the_same_features(dataset, runs):
    above = {"backbone": "resnet10", "trained_from": "layer3.1", "frozen_batch_norm": True, "max_steps": 4}
    _, plain_metrics, plain_queries = trained(runs, configuration(**above))
    features = modification_times(runs.cache_dir)
    with mock.patch.object(EmbeddingModel, "fold_batch_norm", autospec=True, side_effect=FOLD) as fold:
        _, metrics, queries = trained(runs, configuration(**above, fold_batch_norm=True))
    assert [type(call.args[0].backbone) is CutNetwork for call in fold.call_args_list] == [True, False]
    assert modification_times(runs.cache_dir) == features
    assert losses(metrics) == pytest.approx(losses(plain_metrics), rel=1e-4)
    np.testing.assert_allclose(queries, plain_queries, atol=1e-4)


def test_the_run_holds_the_whole_network_and_embeds_images(dataset, runs):
    config = configuration(backbone=NETWORK)
    _, _, queries = trained(runs, config)
    loaded = load_trained_model(runs.unit_dir(config, 0, 0), dataset=dataset)
    embeddings = loaded.model.embed(loaded.inputs(loaded.dataset.test))
    np.testing.assert_allclose(embeddings, queries, atol=2e-3)


def test_a_run_that_was_begun_with_other_features_is_refused(dataset, runs):
    config = configuration(backbone=NETWORK, seed=5)
    path = runs.unit_dir(config, 0, 0)
    path.mkdir(parents=True)
    write_json(path / "features.json", {"training": "other", "evaluation": "other"})
    with pytest.raises(InvalidInput, match="begun with other features.*Delete"):
        runs.train(config, 0, 0)


def test_a_disk_that_is_too_small_is_said_before_anything_is_computed(dataset, runs, monkeypatch, tmp_path):
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=1000))
    small = UnitRuns(dataset, Places(str(tmp_path / "runs"), str(tmp_path / "cache")))
    with pytest.raises(InvalidInput, match=r"--cache_dir.*0\.0 GB free.*256 images, up to 3 views.*fewer --views"):
        small.train(configuration(backbone=NETWORK), 0, 0)
    assert not modification_times(tmp_path)


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"trained_from": "head", "frozen_backbone": True}, "--trained_from and --frozen_backbone say what is trained"),
        ({"trained_from": "head", "crop": "none", "views": 3}, "--views=3.*--crop=none"),
        ({"cached_features": True}, "--cached_features would have no effect"),
        ({"trained_from": "head", "views": 0}, "--views"),
        ({"trained_from": "head", "backbone": "token_embedding"}, "--trained_from.*token_embedding"),
    ],
)
def test_what_does_not_go_together_is_refused(overrides, message):
    with pytest.raises(InvalidInput, match=message):
        resolve("cifar10", "c2", "gap", "thesis", "smoke", overrides)


def test_a_layer_that_there_is_not_is_refused_with_those_that_there_are(dataset, runs):
    config = configuration(backbone="resnet10", trained_from="layer9")
    with pytest.raises(InvalidInput, match="'layer9'.*head.*resnet10.*layer1, layer2, layer3, layer3.1"):
        runs.train(config, 0, 0)
    assert not runs.unit_dir(config, 0, 0).exists()


@pytest.mark.parametrize(
    ("overrides", "cached", "views"),
    [
        ({}, None, None),
        ({"views": 2}, None, 2),
        ({"trained_from": "head"}, True, 4),
        ({"trained_from": "head", "crop": "none"}, True, 1),
        ({"trained_from": "head", "cached_features": False}, False, None),
    ],
)
def test_what_is_not_given_follows_from_the_cut_and_the_crop(overrides, cached, views):
    config = resolve("cifar10", "c2", "gap", "thesis", "smoke", overrides)
    assert (config.cached_features, config.views) == (cached, views)
    assert {"trained_from", "cached_features", "views"} & config.as_dict().keys() >= overrides.keys() - {"crop"}


def test_features_of_compressed_copies_are_others():
    given = [{"trained_from": "head", "copies": copies} for copies in ("exact", "compressed")]
    exact, compressed = (origin_of_features(resolve("cub200", "c2", "gap", "thesis", "full", each)) for each in given)
    assert compressed == {**exact, "copies": "compressed"}


@pytest.mark.release  # half a minute, most of it the building of four networks
def test_a_run_from_torchvision_parameters_loads_again(tmp_path):
    dataset, places = patterned_images(4, 6), Places(str(tmp_path / "runs"), str(tmp_path / "cache"))
    network = resnet50(3, layout="torchvision")
    save_parameters(network, tmp_path / "network.npz")
    settings = {"num_folds": 2, "classes_per_batch": 2, "samples_per_class": 4, "image_size": 32, "crop": "shift_flip"}
    settings |= {"backbone": "resnet50", "weights": str(tmp_path / "network.npz"), "trained_from": "head"}
    settings |= {"steps_per_evaluation": 1, "max_steps": 1, "views": 1}
    config = resolve("cifar10", "c2", "gap", "thesis", "smoke", settings)
    shape = build.shape_settings(config)
    _can_be_cut("resnet50", "layer4.0", **shape)  # a name of that layout
    runs = UnitRuns(dataset, places)
    runs.train(config, fold=0, repeat=0)
    trained = load_trained_model(runs.unit_dir(config, 0, 0), dataset=dataset, cache_dir=places.cache_dir)
    for found, given in zip(trained.model.backbone.get_weights(), network.get_weights(), strict=True):
        np.testing.assert_array_equal(found, given)
