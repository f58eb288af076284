"""Poolings one by one, recomputed in NumPy."""

import numpy as np
import pytest
import tensorflow as tf
from scipy.ndimage import correlate, uniform_filter
from scipy.special import expit

from common.pooling import ClassTokenPooling, GlobalAverageMaxPooling, GlobalAveragePooling, GlobalMaxPooling
from common.pooling.cbam import CBAMPooling
from common.pooling.cross_dimensional import CrossDimensionalPooling
from common.pooling.delf import DeLFPooling
from common.pooling.generalized_max import GeneralizedMaxPooling
from common.pooling.generalized_mean import GeneralizedMeanPooling
from common.pooling.norm_attention import NormAttentionPooling
from common.pooling.weldon import WeldonPooling


def cbam_twin(features, kernel, narrow, widen):
    """`features` `[height, width, channels]`; `kernel` `[side, side, 2, 1]`."""
    summaries = features.mean(axis=(0, 1)), features.max(axis=(0, 1))
    gated = features * expit(sum(np.maximum(each @ narrow, 0.0) @ widen for each in summaries))
    maps = gated.mean(axis=2), gated.max(axis=2)
    weights = expit(sum(correlate(each, kernel[:, :, place, 0], mode="constant") for place, each in enumerate(maps)))
    return np.mean(weights[..., None] * gated, axis=(0, 1)), weights


@pytest.mark.parametrize(("reduction", "side"), [(1, 3), (2, 1), (4, 5)])
def test_cbam_equals_loops(reduction, side):
    rng = np.random.default_rng(0)
    features = rng.normal(size=(2, 3, 4, 6))
    layer = CBAMPooling(reduction, kernel_size=side, dtype="float64")
    layer.build(features.shape)
    shapes = {"kernel": (side, side, 2, 1), "narrow": (6, 6 // reduction), "widen": (6 // reduction, 6)}
    weights = {name: rng.normal(size=shape) for name, shape in shapes.items()}
    layer.position_gate.set_weights([weights["kernel"]])
    layer.narrow.set_weights([weights["narrow"]])
    layer.widen.set_weights([weights["widen"]])
    pooled, shares = layer(features), layer.spatial_weights(features)
    for image in range(2):
        expected, gates = cbam_twin(features[image], **weights)
        np.testing.assert_allclose(pooled[image], expected, rtol=1e-10)
        np.testing.assert_allclose(shares[image], (gates / gates.sum()).ravel(), rtol=1e-10)


def random_tokens():
    return np.random.default_rng(0).normal(size=(4, 6, 5)).astype(np.float32)


def test_the_first_of_the_tokens_is_taken():
    tokens = random_tokens()
    np.testing.assert_array_equal(ClassTokenPooling()(tokens), tokens[:, 0])
    np.testing.assert_array_equal(ClassTokenPooling()(tokens[:, None, :1]), tokens[:, 0])


def test_a_masked_first_token_is_zero():
    mask = np.ones((4, 6), bool)
    mask[1, 0] = mask[2, 3] = False
    tokens = random_tokens()
    expected = tokens[:, 0] * np.array([1, 0, 1, 1], np.float32)[:, None]
    np.testing.assert_array_equal(ClassTokenPooling()(tokens, mask=mask), expected)


def cross_dimensional_twin(features, channel_rate, epsilon):
    rectified = np.maximum(features, 0.0)
    sums = rectified.sum(axis=2)
    weights = np.sqrt(sums / np.linalg.norm(sums, axis=1, keepdims=True))
    rates = np.mean(rectified > 0 if channel_rate == "nonzero" else expit(rectified), axis=1)
    importance = np.log((features.shape[2] * epsilon + rates.sum(axis=1, keepdims=True)) / (epsilon + rates))
    pooled = importance * np.mean(weights[..., None] * rectified, axis=1)
    return pooled, weights / weights.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("channel_rate", ["nonzero", "sigmoid"])
@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
def test_cross_dimensional_equals_loops(channel_rate, scale):
    features = scale * np.random.default_rng(0).normal(size=(2, 3, 4, 5))
    layer = CrossDimensionalPooling(channel_rate, epsilon=1e-4, dtype="float64")
    pooled, shares = cross_dimensional_twin(features.reshape(2, 12, 5), channel_rate, 1e-4)
    np.testing.assert_allclose(layer(features), pooled, rtol=1e-12)
    np.testing.assert_allclose(layer.spatial_weights(features), shares, rtol=1e-12)


def delf_twin(features, hidden, hidden_bias, score, score_bias):
    active = np.maximum(features @ hidden + hidden_bias, 0.0)
    scores = np.log1p(np.exp(active @ score + score_bias))
    return np.mean(scores * features, axis=1), scores[..., 0]


def test_delf_equals_loops():
    rng = np.random.default_rng(0)
    features = rng.normal(size=(2, 3, 4, 5))
    layer = DeLFPooling(6, dtype="float64")
    layer.build((None, 3, 4, 5))
    weights = [rng.normal(size=weight.shape) for weight in layer.get_weights()]
    layer.set_weights(weights)
    pooled, scores = delf_twin(features.reshape(2, 12, 5), *weights)
    np.testing.assert_allclose(layer(features), pooled, rtol=1e-12)
    np.testing.assert_allclose(layer.spatial_weights(features), scores / scores.sum(axis=1, keepdims=True), rtol=1e-12)


def generalized_max_twin(features, ridge):
    """The primal problem, by normal equations over channels."""
    systems = features.transpose(0, 2, 1) @ features + ridge * np.eye(features.shape[2])
    return np.linalg.solve(systems, features.sum(axis=1)[..., None])[..., 0]


@pytest.mark.parametrize("ridge", [1e-3, 1.0, 50.0])
def test_generalized_max_equals_loops(ridge):
    features = np.random.default_rng(0).normal(size=(3, 3, 4, 5))
    pooled = GeneralizedMaxPooling(ridge, dtype="float64")(features)
    np.testing.assert_allclose(pooled, generalized_max_twin(features.reshape(3, 12, 5), ridge), rtol=1e-9)


def test_a_position_that_counts_negatively_has_its_share():
    tokens = np.array([[[1.0, 0.0], [3.0, 0.0]]])  # coefficients (I + F F')^-1 1 = (4, -1) / 11
    weights = GeneralizedMaxPooling(1.0, dtype="float64").spatial_weights(tokens * [[[1.0], [4 / 3]]])
    system = np.linalg.solve(np.array([[2.0, 4.0], [4.0, 17.0]]), np.ones(2))
    assert system[1] < 0
    np.testing.assert_allclose(weights, [np.abs(system) / np.abs(system).sum()], rtol=1e-12)


@pytest.mark.parametrize("scale", [1e2, 1e4, 1e8, 1e12])
def test_huge_equal_features_are_solved(scale):
    tokens = np.full((1, 49, 64), scale, np.float32)
    pooled = GeneralizedMaxPooling()(tokens)
    np.testing.assert_allclose(pooled, 1 / (64 * scale), rtol=1e-3)


def test_ridge_is_not_raised_for_features_of_common_size():
    features = np.abs(np.random.default_rng(0).normal(size=(2, 49, 1024))).astype(np.float32)
    pooled = GeneralizedMaxPooling()(features)
    np.testing.assert_allclose(pooled, generalized_max_twin(features.astype(np.float64), 1.0), atol=1e-6)


def generalized_mean_twin(features, power, floor):
    return np.mean(np.maximum(features, floor) ** power, axis=1) ** (1.0 / power)


@pytest.mark.parametrize("power", [0.5, 1.0, 3.0, 7.5])
def test_generalized_mean_equals_loops(power):
    features = np.random.default_rng(0).normal(size=(2, 3, 4, 5))
    pooled = GeneralizedMeanPooling(power, floor=1e-3, dtype="float64")(features)
    np.testing.assert_allclose(pooled, generalized_mean_twin(features.reshape(2, 12, 5), power, 1e-3), rtol=1e-12)


def test_large_powers_and_features_neither_overflow_nor_vanish():
    tokens = np.array([[[1e15, 1e-5], [1e14, 2e-5]]], np.float32)
    pooled = GeneralizedMeanPooling(20.0)(tokens)
    np.testing.assert_allclose(pooled, generalized_mean_twin(tokens.astype(np.float64), 20.0, 1e-6), rtol=1e-5)


POOLINGS = {
    GlobalAveragePooling: lambda x: x.mean(axis=0),
    GlobalMaxPooling: lambda x: x.max(axis=0),
    GlobalAverageMaxPooling: lambda x: x.mean(axis=0) + x.max(axis=0),
}


@pytest.fixture(params=list(POOLINGS), ids=lambda pooling: pooling.__name__)
def pooling_class(request):
    return request.param


def random_maps():
    return np.random.default_rng(0).normal(size=(4, 3, 2, 5)).astype(np.float32)


def test_feature_maps_equal_the_definition(pooling_class):
    maps = random_maps()
    expected = [POOLINGS[pooling_class](image.reshape(-1, 5)) for image in maps]
    np.testing.assert_allclose(pooling_class()(maps), expected, rtol=1e-6, atol=1e-6)


def test_masked_positions_do_not_count(pooling_class):
    tokens = random_maps().reshape(4, 6, 5)
    mask = np.arange(6) < np.array([[6], [1], [3], [0]])
    expected = [POOLINGS[pooling_class](x[m]) if m.any() else np.zeros(5) for x, m in zip(tokens, mask)]
    spoiled = np.where(mask[..., None], tokens, np.nan)
    np.testing.assert_allclose(pooling_class()(spoiled, mask=mask), expected, rtol=1e-6, atol=1e-6)


def test_half_precision_is_averaged_in_float32():
    maps = np.full((1, 64, 64, 1), 100.0, np.float16)  # the sum, 409,600, is above the largest float16
    pooled = GlobalAveragePooling(dtype="float16")(maps)
    assert pooled.dtype == tf.float16
    np.testing.assert_array_equal(pooled, [[100.0]])


def norm_attention_twin(features, window):
    """`features` `[height, width, channels]`; means are of the neighbours that there are."""

    def local_mean(values):
        return uniform_filter(values, (window, window, 1), mode="constant")

    norms = np.linalg.norm(features, axis=2, keepdims=True)
    return np.mean(norms * local_mean(features) / local_mean(np.ones_like(features)), axis=(0, 1))


@pytest.mark.parametrize("window", [1, 3, 5])
def test_norm_attention_equals_loops(window):
    features = np.random.default_rng(0).normal(size=(2, 3, 4, 5))
    layer, norms = NormAttentionPooling(window, dtype="float64"), np.linalg.norm(features, axis=-1).reshape(2, 12)
    np.testing.assert_allclose(layer(features), [norm_attention_twin(image, window) for image in features], rtol=1e-12)
    np.testing.assert_allclose(layer.spatial_weights(features), norms / norms.sum(axis=1, keepdims=True), rtol=1e-12)


def test_neighbours_outside_of_the_mask_do_not_count():
    maps = np.random.default_rng(2).normal(size=(1, 4, 4, 3))
    mask = np.zeros((1, 4, 4), bool)
    mask[:, :2, :3] = True
    pooled = NormAttentionPooling(3, dtype="float64")(np.where(mask[..., None], maps, np.inf), mask=mask)
    np.testing.assert_allclose(pooled, [norm_attention_twin(maps[0, :2, :3], 3)], rtol=1e-12)


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


def weldon_twin(features, num_largest, num_smallest):
    ordered = np.sort(features, axis=1)
    smallest = ordered[:, :num_smallest].mean(axis=1) if num_smallest else 0.0
    return ordered[:, -num_largest:].mean(axis=1) + smallest


@pytest.mark.parametrize(("num_largest", "num_smallest"), [(3, 3), (1, 0), (2, 5), (12, 12)])
def test_weldon_equals_loops(num_largest, num_smallest):
    features = np.random.default_rng(0).normal(size=(2, 3, 4, 5))
    pooled = WeldonPooling(num_largest, num_smallest, dtype="float64")(features)
    np.testing.assert_allclose(pooled, weldon_twin(features.reshape(2, 12, 5), num_largest, num_smallest), rtol=1e-12)


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
