"""Normalisation of embeddings to comparable length."""

from __future__ import annotations

import typing
from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from common.errors import check_choice, invalid
from common.ops.precision import at_least_float32
from common.ops.reductions import mean_or_zero
from common.parameters import Normalization

NORMALIZATIONS: tuple[str, ...] = typing.get_args(Normalization)
# Squared norms from here on are on the unit sphere or outside of it. A vector that was clipped before has norm 1 to
# rounding, a few 1e-7, on either side: whether it has a radial gradient must not hang on that.
SPHERE = 1.0 - 2.0**-18


def normalize(x: tf.Tensor, mode: str) -> tf.Tensor:
    """Normalise vectors along the last axis.

    - `"unit"`: `v / ‖v‖`, the unit sphere; zero stays zero, with zero gradient.
    - `"clip"`: `v / max(1, ‖v‖)`, the projection onto the unit ball; the identity inside of it. A vector of norm 1 to
      rounding (a squared norm from 1 - 4e-6 on) counts as one on the sphere: its gradient is tangential.
    - `"none"`: `v`.

    What has no direction in its type is NaN, so that whoever computes with it notices: a vector with a component that
    is not finite, or whose squared norm is not (beyond a length of 1.8e19 in float32).

    Reference: thesis 5.2.4 (`"unit"`, GSP and its baselines) and 3.2.4 (`"clip"`, CCP and its baselines).

    Args:
        x: `[..., dim]`.
        mode: one of `NORMALIZATIONS`.

    Returns:
        `[..., dim]`, at least float32. Exact gradient.

    Raises:
        InvalidInput: `mode` is unknown.
    """
    check_choice("normalization", mode, NORMALIZATIONS)
    x = at_least_float32(x)
    if mode == "none":
        return x
    squared_norms = tf.reduce_sum(tf.square(x), axis=-1, keepdims=True)
    overflow = tf.constant(np.nan, squared_norms.dtype)  # else x / inf would be zero
    squared_norms = tf.where(tf.math.is_inf(squared_norms), overflow, squared_norms)
    if mode == "clip":
        # The value is that of max(1, ‖v‖²); the gradient, which a maximum has from 1 on, begins at the sphere.
        differentiated = tf.where(squared_norms < SPHERE, tf.ones_like(squared_norms), squared_norms)
        squared_norms = differentiated + tf.stop_gradient(tf.maximum(squared_norms, 1.0) - differentiated)
        # Times the inverse: the gradient of a division by a column takes four more passes over x.
        return x * (1.0 / tf.sqrt(squared_norms))
    nonzero = squared_norms != 0.0  # also where it is NaN
    norms = tf.sqrt(tf.where(nonzero, squared_norms, tf.ones_like(squared_norms)))
    return tf.where(nonzero, x / norms, tf.zeros_like(x))


def normalize_groups(x: tf.Tensor, mode: str, sizes: Sequence[int]) -> tf.Tensor:
    """Normalise slices of vectors separately: several embeddings side by side.

    The slices are not rescaled. With `"unit"` a vector of H slices has the length √H, and the squared distance of two
    is the sum of those of their slices; rankings are those of vectors of unit length.

    Args:
        x: `[..., dim]`.
        mode: one of `NORMALIZATIONS`.
        sizes: numbers of components of the slices, from the first on; together `dim`.

    Returns:
        `[..., dim]`, at least float32. Exact gradient.

    Raises:
        InvalidInput: `mode` is unknown, or the slices are not as long as the vectors.
    """
    sizes = tuple(sizes)
    dim = x.shape[-1]
    if not sizes or min(sizes) < 1 or (dim is not None and sum(sizes) != dim):
        raise invalid("sizes", received=sizes, expected=f"positive numbers that add up to the {dim} components")
    return tf.concat([normalize(part, mode) for part in tf.split(x, sizes, axis=-1)], axis=-1)


def mean_norm(x: tf.Tensor) -> tf.Tensor:
    """Return `mean ‖x‖` of vectors; some losses penalise it instead of normalising.

    Args:
        x: `[n, dim]`.

    Returns:
        A scalar, at least float32; 0 without vectors. Exact gradient, zero at zero.
    """
    x = at_least_float32(x)
    return mean_or_zero(tf.reduce_sum(x * normalize(x, "unit"), axis=-1))
