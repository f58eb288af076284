"""Linear embeddings in closed form: principal axes, and whitening within classes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from sklearn.covariance import ledoit_wolf_shrinkage

from common.diagnostics.posterior_refinement import principal_axes
from common.errors import check_fraction, invalid

_SMALLEST_EIGENVALUE = 1e-6  # of a covariance, relative to their mean


class AffineMap(NamedTuple):
    """An affine map, as a `Dense` layer holds it.

    Attributes:
        kernel: `[channels, dim]`, float64.
        bias: `[dim]`, float64; minus the projected mean of the features.
    """

    kernel: np.ndarray
    bias: np.ndarray

    def __call__(self, features: np.ndarray) -> np.ndarray:
        """Map features `[items, channels]` to `[items, dim]`, float64."""
        return np.asarray(features, np.float64) @ self.kernel + self.bias


def principal_components(features: np.ndarray, dim: int) -> AffineMap:
    """Return the projection on the first principal axes.

    The map is `x -> V^T (x - m)`: the mean m of the features is removed, and V holds the `dim` orthonormal eigenvectors
    of their covariance with the largest eigenvalues (`common.diagnostics.principal_axes`).

    Args:
        features: `[items, channels]`, finite.
        dim: size of the result, from 1 to the smaller of `channels` and `items - 1`.

    Raises:
        InvalidInput: another shape or `dim`, or features that are not finite.

    Examples:
        >>> features = np.array([[0, 0, 1], [2, 2, 1], [4, 4, 1.5]])
        >>> print(abs(principal_components(features, 1)(features)).round(2).ravel())
        [2.83 0.01 2.85]
    """
    features = _checked(features)
    return _centred(principal_axes(features, dim), features)


def within_class_whitening(
    features: np.ndarray, labels: np.ndarray, dim: int, shrinkage: float | None = None, share: float = 1.0
) -> AffineMap:
    """Return the whitening within classes, followed by the first principal axes.

    The map is `x -> V^T S^(-share/2) (x - m)` with the mean m of the features. S is the covariance of the features
    around the means of their classes, shrunk towards a multiple of the identity: `(1 - a) S_w + a (tr S_w / channels)
    I`. V holds the principal axes of the whitened features of all classes. Without shrinkage, these are the axes of
    linear discriminant analysis. Where all channels are kept, but the items are too few for as many axes, V is the
    identity: what the items do not show is then kept, too.

    Reference: Ledoit and Wolf, "A well-conditioned estimator for large-dimensional covariance matrices", 2004 (the
    shrinkage a, from the features alone).

    Args:
        features: `[items, channels]`, finite.
        labels: classes `[items]`; one of them at least has two different items.
        dim: size of the result: `channels`, or 1 to `items - 1`.
        shrinkage: a, in [0, 1]; None for the one of Ledoit and Wolf. Eigenvalues of S below 1e-6 of their mean are
            raised to it.
        share: of the whitening, in (0, 1]; close to 0 leaves the features as they are.

    Raises:
        InvalidInput: another shape, `dim`, shrinkage or share; features that are not finite; or no variance within
            classes.

    Examples:
        >>> features, labels = np.array([[0, 0], [0, 1], [3, 0], [3, 1.0]]), np.array([0, 0, 1, 1])
        >>> print(within_class_whitening(features, labels, 1, shrinkage=0.5)(features).round(1).ravel())
        [-6. -6.  6.  6.]
    """
    check_fraction("share", share)
    features = _checked(features)
    classes, places = np.unique(np.asarray(labels), return_inverse=True)
    if places.shape != features.shape[:1]:
        raise invalid("labels", received=np.shape(labels), expected=f"one of each item: {features.shape[:1]}")
    sums = np.zeros((len(classes), features.shape[1]))
    np.add.at(sums, places, features)
    residuals = features - (sums / np.bincount(places)[:, None])[places]
    if not residuals.any():
        raise invalid("labels", received="classes without variance", expected="a class with two different items")
    if shrinkage is None:
        shrinkage = float(ledoit_wolf_shrinkage(residuals, assume_centered=True))
    check_fraction("shrinkage", shrinkage, zero_allowed=True)
    values, axes = np.linalg.eigh(residuals.T @ residuals / len(residuals))
    scale = values.mean()
    values = np.maximum((1 - shrinkage) * values + shrinkage * scale, _SMALLEST_EIGENVALUE * scale)
    whitening = (axes / values ** (share / 2)) @ axes.T
    if len(features) <= dim == features.shape[1]:
        return _centred(whitening, features)
    return _centred(whitening @ principal_axes(features @ whitening, dim), features)


def _checked(features: np.ndarray) -> np.ndarray:
    features = np.asarray(features, np.float64)
    if features.ndim != 2 or not np.isfinite(features).all():
        received = f"shape {features.shape}" if features.ndim != 2 else "NaN or infinite values"
        raise invalid("features", received=received, expected="finite numbers [items, channels]")
    return features


def _centred(kernel: np.ndarray, features: np.ndarray) -> AffineMap:
    return AffineMap(kernel, -features.mean(axis=0) @ kernel)
