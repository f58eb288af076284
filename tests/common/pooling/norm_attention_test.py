import numpy as np
import pytest
import tensorflow as tf
from scipy.ndimage import uniform_filter

from common.pooling.norm_attention import NormAttentionPooling


def twin(features, window):
    """`features` `[height, width, channels]`; means are of the neighbours that there are."""

    def local_mean(values):
        return uniform_filter(values, (window, window, 1), mode="constant")

    norms = np.linalg.norm(features, axis=2, keepdims=True)
    return np.mean(norms * local_mean(features) / local_mean(np.ones_like(features)), axis=(0, 1))


@pytest.mark.parametrize("window", [1, 3, 5])
def test_equals_loops(window):
    features = np.random.default_rng(0).normal(size=(2, 3, 4, 5))
    layer, norms = NormAttentionPooling(window, dtype="float64"), np.linalg.norm(features, axis=-1).reshape(2, 12)
    np.testing.assert_allclose(layer(features), [twin(image, window) for image in features], rtol=1e-12)
    np.testing.assert_allclose(layer.spatial_weights(features), norms / norms.sum(axis=1, keepdims=True), rtol=1e-12)


def test_neighbours_outside_of_the_mask_do_not_count():
    maps = np.random.default_rng(2).normal(size=(1, 4, 4, 3))
    mask = np.zeros((1, 4, 4), bool)
    mask[:, :2, :3] = True
    pooled = NormAttentionPooling(3, dtype="float64")(np.where(mask[..., None], maps, np.inf), mask=mask)
    np.testing.assert_allclose(pooled, [twin(maps[0, :2, :3], 3)], rtol=1e-12)


def test_attention_gradient_can_be_stopped():
    features = tf.constant(np.random.default_rng(0).normal(size=(1, 1, 1, 3)))

    def gradient(stopped):
        layer = NormAttentionPooling(1, stop_attention_gradient=stopped, dtype="float64")
        with tf.GradientTape() as tape:
            tape.watch(features)
            first = layer(features)[0, 0]
        return tape.gradient(first, features)[0, 0, 0]

    vector = features[0, 0, 0].numpy()
    norm = np.linalg.norm(vector)
    np.testing.assert_allclose(gradient(True), [norm, 0.0, 0.0], rtol=1e-12)
    np.testing.assert_allclose(gradient(False), norm * np.eye(3)[0] + vector[0] * vector / norm, rtol=1e-12)
