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


def test_prototypes_are_local_features_when_those_are_remembered():
    features = small_features()
    layer = GeneralizedSumPooling(2, memory_size=8, memory_features="local_features")
    layer(features, training=True)
    distances = np.abs(features.reshape(-1, 1, 5) - np.asarray(layer.prototypes)).max(-1)
    np.testing.assert_allclose(distances.min(0), 0, atol=1e-7)


@pytest.mark.parametrize(
    ("setting", "message"), [({"memory_features": "all"}, "local_features"), ({"memory_delay": -1}, "-1")]
)
def test_wrong_settings_are_named(setting, message):
    with pytest.raises(InvalidInput, match=message):
        GeneralizedSumPooling(2, memory_size=10, **setting)
