import numpy as np
import pytest

from common.pooling.generalized_mean import GeneralizedMeanPooling


def twin(features, power, floor):
    return np.mean(np.maximum(features, floor) ** power, axis=1) ** (1.0 / power)


@pytest.mark.parametrize("power", [0.5, 1.0, 3.0, 7.5])
def test_equals_loops(power):
    features = np.random.default_rng(0).normal(size=(2, 3, 4, 5))
    pooled = GeneralizedMeanPooling(power, floor=1e-3, dtype="float64")(features)
    np.testing.assert_allclose(pooled, twin(features.reshape(2, 12, 5), power, 1e-3), rtol=1e-12)


def test_large_powers_and_features_neither_overflow_nor_vanish():
    tokens = np.array([[[1e15, 1e-5], [1e14, 2e-5]]], np.float32)
    pooled = GeneralizedMeanPooling(20.0)(tokens)
    np.testing.assert_allclose(pooled, twin(tokens.astype(np.float64), 20.0, 1e-6), rtol=1e-5)


@pytest.mark.parametrize("trainable", [True, False])
def test_power_is_trained_unless_fixed(trainable):
    layer = GeneralizedMeanPooling(2.0, trainable_power=trainable)
    layer.build((None, 2, 1))
    assert len(layer.trainable_variables) == trainable
