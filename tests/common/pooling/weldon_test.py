import numpy as np
import pytest
import tensorflow as tf

from common.pooling.weldon import WeldonPooling


def twin(features, num_largest, num_smallest):
    ordered = np.sort(features, axis=1)
    smallest = ordered[:, :num_smallest].mean(axis=1) if num_smallest else 0.0
    return ordered[:, -num_largest:].mean(axis=1) + smallest


@pytest.mark.parametrize(("num_largest", "num_smallest"), [(3, 3), (1, 0), (2, 5), (12, 12)])
def test_equals_loops(num_largest, num_smallest):
    features = np.random.default_rng(0).normal(size=(2, 3, 4, 5))
    pooled = WeldonPooling(num_largest, num_smallest, dtype="float64")(features)
    np.testing.assert_allclose(pooled, twin(features.reshape(2, 12, 5), num_largest, num_smallest), rtol=1e-12)


def test_ties_select_exactly_k():
    tokens = tf.constant([[[1.0], [1.0], [1.0], [0.0]]])
    layer = WeldonPooling(2, 0)
    with tf.GradientTape() as tape:
        tape.watch(tokens)
        pooled = layer(tokens)
    assert pooled.numpy().item() == 1.0
    np.testing.assert_array_equal(tape.gradient(pooled, tokens)[0, :, 0], [0.5, 0.5, 0.0, 0.0])


def test_mask_may_leave_fewer_positions_than_k():
    tokens = np.array([[[1.0], [5.0], [-3.0], [2.0]]], np.float32)
    mask = tf.constant([[True, True, False, False]])
    np.testing.assert_allclose(WeldonPooling(3, 1)(tokens, mask=mask), [[3.0 + 1.0]])
