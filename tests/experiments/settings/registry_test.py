import dataclasses
from typing import Literal

import numpy as np
import pytest

from common.commands.plugins import Provider
from common.data import MPerClassBatches
from common.errors import InvalidInput
from common.losses import ContrastiveLoss, ProxyNCALoss
from common.pooling import GlobalAveragePooling
from experiments.parts.registry import OPTIMIZERS, SAMPLERS, Registry
from experiments.recipes import resolve
from experiments.settings import build
from tests.experiments.settings.plugin_tables import restored_tables


@pytest.fixture
def registry():
    with restored_tables():
        yield Registry(Provider("tiny_plugin", "", "sha256:0123456789abcdef"))


def test_a_loss_that_needs_classes_has_proxies(registry):
    class OwnProxies(ProxyNCALoss):
        """Own proxies."""

        def __init__(self, num_classes: int, embedding_dim: int, temperature: float = 0.2, **kwargs):
            super().__init__(num_classes, embedding_dim, temperature=temperature, **kwargs)

    registry.loss("own_proxies", OwnProxies)
    config = resolve("cub200", "own_proxies", "gap", "thesis", "full", {})
    assert (config.own_proxies_temperature, config.proxy_multiplier, config.classes_per_batch) == (0.2, 100.0, 32)
    with pytest.raises(InvalidInput, match="with a pair loss"):
        resolve("cub200", "own_proxies+xbm", "gap", "thesis", "full", {})


@pytest.mark.parametrize("name", ["c2", "gap", "two names", "My", "a+b", "xbm", "", 3])
def test_names_that_cannot_be(registry, name):
    add = registry.pooling if name == "gap" else registry.loss
    with pytest.raises(InvalidInput, match="Invalid name of a (loss|pooling): received"):
        add(name, GlobalAveragePooling if name == "gap" else ContrastiveLoss)


def test_only_words_of_a_losss_name_are_told_apart(registry):
    with pytest.raises(InvalidInput, match="Invalid name of a miner: received 'regularizers'"):
        registry.miner("regularizers", GlobalAveragePooling)
    registry.sampler("distance", MPerClassBatches)


def test_samplers_and_optimisers_are_known_by_what_they_take(registry):
    class Remembering(MPerClassBatches):
        def remember(self, embeddings):
            """Leave them out."""

    def own(learning_rate, weight_decay):
        """Own rule."""

    registry.optimizer("own", own)
    registry.sampler("anything", lambda labels, batch_size, seed: None)
    registry.sampler("remembering", Remembering, by_embeddings=True)
    assert OPTIMIZERS["own"].decays
    assert [SAMPLERS[name].of_classes for name in ("anything", "remembering")] == [False, True]
    config = resolve("glyphs", "c2", "gap", "thesis", "smoke", {"sampler": "remembering"})
    batches = build.build_batches(config, np.arange(200) % 50, 0)
    assert build.memory_of(config, batches) is batches


def test_a_name_that_is_registered_twice_says_by_whom(registry):
    registry.pooling("mine", GlobalAveragePooling)
    with pytest.raises(
        InvalidInput, match=r"a new name: plug-in tiny_plugin \(sha256:0123456789ab\) has registered it"
    ):
        registry.pooling("mine", GlobalAveragePooling)


def loss_of(annotation, default):
    class Loss(ContrastiveLoss):
        """A loss."""

        def __init__(self, push=default, **kwargs):
            super().__init__(**kwargs)

    Loss.__init__.__annotations__["push"] = annotation
    return Loss


@pytest.mark.parametrize(
    ("annotation", "default"),
    [
        (float, "much"),
        (int, 1.5),
        (int, True),
        (bool, 1),
        (str, None),
        (list, []),
    ],
)
def test_a_setting_of_another_type_is_refused(registry, annotation, default):
    with pytest.raises(InvalidInput, match="setting push of bad: .* expected int, float, str or bool with a default"):
        registry.loss("bad", loss_of(annotation, default))
    assert "bad" not in build.LOSSES


@pytest.mark.parametrize(
    ("annotation", "default", "kind"),
    [(float, 1, float), (int | None, None, int), (str, "x", str), (bool, False, bool), (Literal["x", "y"], "x", str)],
)
def test_types_that_settings_have(registry, annotation, default, kind):
    registry.loss("good", loss_of(annotation, default))
    (found,) = (each for each in dataclasses.fields(build.LOSSES["good"].settings) if each.name == "good_push")
    assert found.default == default
    choices = found.metadata["choices"]
    assert (choices == ("x", "y")) == (annotation not in (float, int | None, str, bool))
    assert type(default) in (kind, int, type(None))


def test_a_data_set_takes_a_recipe_that_there_is(registry):
    with pytest.raises(InvalidInput, match="recipe_of of mine: received 'birds', expected one of emoji, .*glyphs"):
        registry.dataset("mine", lambda data_dir, cache_dir, seed: None, recipe_of="birds")


def test_a_network_without_frozen_normalisation_and_weights_gets_both(registry):
    from tensorflow import keras

    def network(input_channels: int):
        images = keras.Input((None, None, input_channels))
        return keras.Model(images, keras.layers.BatchNormalization()(images))

    registry.backbone("normalised", network)
    model = build.BACKBONES["normalised"](3, frozen_batch_norm=True)
    assert model.trainable_variables == []
    with pytest.raises(InvalidInput, match="weights"):
        build.BACKBONES["normalised"](3, weights="nowhere.npz")
