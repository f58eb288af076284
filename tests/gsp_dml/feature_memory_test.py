"""What the feature memory keeps: averages or local features, at once or after a delay."""

import numpy as np
import pytest
import tensorflow as tf

from common.errors import InvalidInput
from gsp_dml import GeneralizedSumPooling
from gsp_dml.prototype_initializer import one_feature_an_image


def small_features(batch=8, seed=0):
    return 0.1 * np.random.default_rng(seed).normal(size=(batch, 3, 4, 5)).astype(np.float32)


def test_one_feature_an_image_goes_round_the_positions():
    features = np.arange(12.0)[None, :, None] + 100 * np.arange(64.0)[:, None, None]
    chosen = np.asarray(one_feature_an_image(tf.constant(features), None, 0))[:, 0]
    images, positions = chosen // 100, chosen % 100
    np.testing.assert_array_equal(images, np.arange(64))
    assert np.bincount(positions.astype(int), minlength=12).min() >= 4
    later = np.asarray(one_feature_an_image(tf.constant(features), None, 64))[:, 0] % 100
    assert not np.array_equal(later, positions)


def test_padding_is_never_remembered():
    features = np.random.default_rng(0).normal(size=(40, 6, 1))
    mask = np.zeros((40, 6), bool)
    mask[:, 1:4:2] = True
    chosen = np.asarray(one_feature_an_image(tf.constant(features), tf.constant(mask), 7))
    is_valid = (chosen[:, :, None] == features[:, [1, 3]].transpose(0, 2, 1)).any(-1)
    assert is_valid.all()
    assert set(np.argmax(features[:, :, 0] == chosen, axis=1)) == {1, 3}


def test_prototypes_are_local_features_when_those_are_remembered():
    features = small_features()
    layer = GeneralizedSumPooling(2, memory_size=8, memory_features="local_features")
    layer(features, training=True)
    distances = np.abs(features.reshape(-1, 1, 5) - np.asarray(layer.prototypes)).max(-1)
    np.testing.assert_allclose(distances.min(0), 0, atol=1e-7)


def test_nothing_is_remembered_before_the_delay_is_over():
    layer = GeneralizedSumPooling(2, memory_size=10, memory_delay=12)
    batches = [small_features(seed=seed) for seed in range(3)]
    layer(batches[0], training=True)
    np.testing.assert_array_equal(layer.memory, 0)
    layer(batches[1], training=True)
    averages = [batch.mean((1, 2)) for batch in batches]
    np.testing.assert_allclose(np.asarray(layer.memory)[:4], averages[1][4:], rtol=1e-5)
    np.testing.assert_array_equal(np.asarray(layer.memory)[4:], 0)
    assert not bool(layer.has_prototypes())
    layer(batches[2], training=True)
    np.testing.assert_allclose(np.asarray(layer.memory)[4:], averages[2][:6], rtol=1e-5)
    assert bool(layer.has_prototypes())


def test_both_are_restored_from_the_configuration():
    layer = GeneralizedSumPooling(2, memory_size=10, memory_features="local_features", memory_delay=12)
    twin = GeneralizedSumPooling.from_config(layer.get_config())
    assert (twin.memory_features, twin.memory_delay) == ("local_features", 12)


@pytest.mark.parametrize(
    ("setting", "message"), [({"memory_features": "all"}, "local_features"), ({"memory_delay": -1}, "-1")]
)
def test_wrong_settings_are_named(setting, message):
    with pytest.raises(InvalidInput, match=message):
        GeneralizedSumPooling(2, memory_size=10, **setting)
