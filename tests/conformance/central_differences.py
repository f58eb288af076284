"""Numerical derivatives of a function in float64, and the error of a gradient.

Few inputs are differentiated along every coordinate, many along random directions. For independent normal directions v,
the mean of <g - d, v>^2 is ||g - d||^2, so both give the relative error of the whole gradient.

If a vector lies exactly on the unit ball, clipping `v / max(1, ||v||)` has a kink: its derivative outwards is that of
the projection onto the sphere, inwards that of the identity. The gradient is defined there as outside. It must agree
with the one-sided derivatives in all directions that do not lead into the ball, by the three-point formula

    (-3 F(x) + 4 F(x + h v) - F(x + 2 h v)) / 2 h

which is exact to h^2 like the central difference; tangential directions are among them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

STEP = 1e-5  # of a coordinate; rounding leaves about 1e-16 / STEP, the third derivative STEP^2
FEW_INPUTS = 200  # numbers up to which every coordinate is asked
NUM_DIRECTIONS = 16  # in each input with more


class Derivatives(NamedTuple):
    """Directional derivatives of a scalar function with respect to one input.

    Attributes:
        directions: `[directions, ...]`, the rest as the input.
        values: along them, `[directions]`.
    """

    directions: np.ndarray
    values: np.ndarray

    def relative_error(self, gradient) -> float:
        """Return `||<g, v> - d|| / ||d||` over the directions v.

        The gradient has the input's shape.
        """
        found = self.directions.reshape(len(self.values), -1) @ np.asarray(gradient, np.float64).ravel()
        return float(np.linalg.norm(found - self.values) / np.linalg.norm(self.values))


def derivatives(
    function: Callable[..., float], inputs: Sequence[np.ndarray], on_the_ball: Sequence, seed: int = 0
) -> list[Derivatives]:
    """Return the derivatives with respect to each input.

    Args:
        function: of float64 arrays like `inputs`.
        inputs: float64 arrays.
        on_the_ball: for each input None, or boolean `[rows]`: which vectors, the last axis, lie on the unit ball.
        seed: of the random directions.
    """
    generator = np.random.default_rng(seed)
    one_sided = any(rows is not None and rows.any() for rows in on_the_ball)
    found = []
    for index, (values, rows) in enumerate(zip(inputs, on_the_ball)):
        directions = _directions(values, generator)
        if rows is not None:
            directions = _outwards(directions, values, rows)

        def at(step, direction, index=index, values=values):
            return function(*inputs[:index], values + step * STEP * direction, *inputs[index + 1 :])

        slope = _one_sided if one_sided else _central
        found.append(Derivatives(directions, np.array([slope(at, direction) for direction in directions])))
    return found


def _central(at: Callable, direction: np.ndarray) -> float:
    return (at(1.0, direction) - at(-1.0, direction)) / (2.0 * STEP)


def _one_sided(at: Callable, direction: np.ndarray) -> float:
    return (-3.0 * at(0.0, direction) + 4.0 * at(1.0, direction) - at(2.0, direction)) / (2.0 * STEP)


def _directions(values: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    if values.size <= FEW_INPUTS:
        return np.eye(values.size).reshape(values.size, *values.shape)
    return generator.normal(size=(NUM_DIRECTIONS, *values.shape))


def _outwards(directions: np.ndarray, values: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Reverse parts of a direction that lead vectors into the ball.

    The vectors concerned lie on the ball.
    """
    leads_inside = (directions * values).sum(axis=-1, keepdims=True) < 0
    return np.where(leads_inside & rows[..., None], -directions, directions)
