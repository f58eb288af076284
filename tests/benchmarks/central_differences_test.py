"""Numerical derivatives of functions whose derivatives are known, and the errors of gradients that are off."""

import numpy as np
import pytest

from benchmarks.central_differences import FEW_INPUTS, NUM_DIRECTIONS, derivatives

UNIT = np.array([[0.6, 0.8, 0.0], [0.0, 0.0, 1.0]])


def clipped_sum(vectors):
    """The sum of `v / max(1, ||v||)`, weighted."""
    norms = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return float(np.sum([1.0, -2.0, 3.0] * vectors / np.maximum(1.0, norms)))


def tangential(vectors):
    """The gradient of `clipped_sum` on the ball, as outside of it."""
    upstream = np.broadcast_to([1.0, -2.0, 3.0], vectors.shape)
    return upstream - (upstream * vectors).sum(axis=-1, keepdims=True) * vectors


def test_few_inputs_are_asked_coordinate_by_coordinate():
    values = np.random.default_rng(0).normal(size=(3, 4))
    (found,) = derivatives(lambda x: float((x**3).sum()), [values], [None])
    np.testing.assert_array_equal(found.directions.sum(axis=0), np.ones((3, 4)))
    np.testing.assert_allclose(found.values, 3.0 * values.ravel() ** 2, atol=1e-9)
    assert found.relative_error(3.0 * values**2) < 1e-8
    assert found.relative_error(3.03 * values**2) == pytest.approx(0.01, rel=1e-6)


def test_many_inputs_are_asked_along_random_directions():
    values = np.random.default_rng(5).normal(size=(FEW_INPUTS, 3))
    first, second = derivatives(lambda x, y: float((x**2).sum() * y.sum()), [values, np.ones(2)], [None, None])
    assert first.directions.shape == (NUM_DIRECTIONS, FEW_INPUTS, 3)
    assert first.relative_error(4.0 * values) < 1e-7
    assert second.relative_error(np.full(2, (values**2).sum())) < 1e-7
    noise = np.random.default_rng(1).normal(size=values.shape)
    wrong = 4.0 * values + 0.2 * np.linalg.norm(4.0 * values) / np.linalg.norm(noise) * noise
    assert 0.1 < first.relative_error(wrong) < 0.4  # .2 but for the directions that were drawn


def test_on_the_ball_the_derivative_is_that_from_outside():
    (found,) = derivatives(clipped_sum, [UNIT], [np.array([True, True])])
    assert found.relative_error(tangential(UNIT)) < 1e-8
    assert (np.abs(found.directions).sum(axis=0) == 1.0).all()
    assert ((found.directions * UNIT).sum(axis=-1) >= 0).all()
    inwards = np.broadcast_to([1.0, -2.0, 3.0], UNIT.shape)
    assert found.relative_error(inwards) > 0.1  # the gradient of the other side
