import numpy as np
import pytest

from common.pooling.generalized_max import GeneralizedMaxPooling


def twin(features, ridge):
    """The primal problem, by normal equations over channels."""
    systems = features.transpose(0, 2, 1) @ features + ridge * np.eye(features.shape[2])
    return np.linalg.solve(systems, features.sum(axis=1)[..., None])[..., 0]


@pytest.mark.parametrize("ridge", [1e-3, 1.0, 50.0])
def test_equals_loops(ridge):
    features = np.random.default_rng(0).normal(size=(3, 3, 4, 5))
    pooled = GeneralizedMaxPooling(ridge, dtype="float64")(features)
    np.testing.assert_allclose(pooled, twin(features.reshape(3, 12, 5), ridge), rtol=1e-9)


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
    np.testing.assert_allclose(pooled, twin(features.astype(np.float64), 1.0), atol=1e-6)
