"""Posterior refinement: changes of a learnt metric matrix after training, without data.

A linear neck W `[dim, channels]` on features x makes the similarity `x^T M x'` with the metric matrix `M = W^T W`. The
paper replaces M by a restrained M' and ranks the features x with it. Its claims: a smaller trace (of a positive
semi-definite M'), or a smaller Frobenius norm (at the same trace), tightens a bound of the error on unseen data.

Two observations contradict the paper. A restrained diagonal makes M' indefinite, so principle 1 does not apply to D(r);
`MatrixProperties.smallest_eigenvalue` shows it. And the identity ranks all channels, while the neck kept `dim` of them;
`principal_axes` and `random_axes` are the controls of that size.

Reference: Wang, Yang, Xu, "Posterior refinement on metric matrix improves generalization bound in metric learning",
section 4.2.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from common.errors import check_choice, check_fraction, invalid

RESTRAINTS = ("D", "R", "identity")
NORMALIZATIONS = ("metric", "features", "none")


class MatrixProperties(NamedTuple):
    """Properties in the paper's two principles.

    Attributes:
        trace: `tr(M)`.
        frobenius_norm: `||M||_F`.
        smallest_eigenvalue: negative if M is no metric, so that principle 1 does not apply.
        rank: eigenvalues that are not zero (above a 1e-6th of the largest absolute one).
    """

    trace: float
    frobenius_norm: float
    smallest_eigenvalue: float
    rank: int


def metric_matrix(projection: np.ndarray) -> np.ndarray:
    """Return `M = W^T W` of a neck `y = W x`.

    Args:
        projection: `W^T`, as a dense layer keeps it: `[channels, dim]`.

    Returns:
        `[channels, channels]`, float64, symmetric positive semi-definite.
    """
    projection = np.asarray(projection, np.float64)
    return projection @ projection.T


def refine(matrix: np.ndarray, restraint: str, ratio: float = 1.0, seed: int = 0) -> np.ndarray:
    """Return the refined matrix M' = g(M).

    `diagonal_restraint` is `D`, `random_restraint` is `R`; the identity ignores M and the ratio.

    Args:
        matrix: symmetric `[channels, channels]`.
        restraint: one of `RESTRAINTS`.
        ratio: r, in [0, 1].
        seed: of the choice of entries set to zero.

    Returns:
        `[channels, channels]`, float64; the argument stays unchanged.

    Raises:
        InvalidInput: an unknown restraint, a ratio outside [0, 1] or a matrix that is not symmetric.
    """
    check_choice("restraint", restraint, RESTRAINTS)
    if restraint == "identity":
        return np.eye(len(_checked(matrix)))
    return (diagonal_restraint if restraint == "D" else random_restraint)(matrix, ratio, seed)


def diagonal_restraint(matrix: np.ndarray, ratio: float, seed: int = 0) -> np.ndarray:
    """Apply D(r): set random diagonal entries to zero.

    Non-zero entries are set to zero one by one, until `tr(M') <= (1 - r) tr(M)`. The rest of M stays, so M' is
    indefinite as soon as a channel without its own entry correlates with another. r = 1 leaves no diagonal entry.

    Args:
        matrix: symmetric `[channels, channels]` with a diagonal of non-negative numbers.
        ratio: r, in [0, 1].
        seed: of the order.

    Raises:
        InvalidInput: the ratio is outside [0, 1]; the matrix is not symmetric or has a negative diagonal entry.
    """
    refined = _checked(matrix).copy()
    diagonal = np.diag(refined).copy()
    if (diagonal < 0).any():
        raise invalid("matrix", received=f"a diagonal entry {diagonal.min():g}", expected="a non-negative diagonal")
    removed = _removed_first(diagonal, check_fraction("ratio", ratio, zero_allowed=True), seed)
    refined[removed, removed] = 0.0
    return refined


def random_restraint(matrix: np.ndarray, ratio: float, seed: int = 0) -> np.ndarray:
    """Apply R(r): set random pairs `m_ij = m_ji` (i != j) to zero.

    It stops when `||M'_off||_F <= (1 - r) ||M_off||_F`. The diagonal, and with it the trace, stays. Drawing a pair
    twice changes nothing, so a random order of all pairs is the same procedure. r = 1 leaves `Diag(M)`; the paper calls
    this the identity, which it is up to the diagonal.

    Args:
        matrix: symmetric `[channels, channels]`.
        ratio: r, in [0, 1].
        seed: of the order.

    Raises:
        InvalidInput: the ratio is outside [0, 1], or the matrix is not symmetric.
    """
    refined = _checked(matrix).copy()
    rows, columns = np.triu_indices(len(refined), 1)
    kept = 1 - check_fraction("ratio", ratio, zero_allowed=True)
    removed = _removed_first(refined[rows, columns] ** 2, 1 - kept**2, seed)
    refined[rows[removed], columns[removed]] = 0.0
    refined[columns[removed], rows[removed]] = 0.0
    return refined


def matrix_properties(matrix: np.ndarray) -> MatrixProperties:
    """Compute the properties of a symmetric matrix `[channels, channels]`.

    They are trace, Frobenius norm, smallest eigenvalue and rank.
    """
    matrix = _checked(matrix)
    eigenvalues = np.linalg.eigvalsh(matrix)
    sizes = np.abs(eigenvalues)
    rank = int((sizes > 1e-6 * sizes.max()).sum())
    return MatrixProperties(
        float(np.trace(matrix)), float(np.linalg.norm(matrix)), float(eigenvalues[0]), rank if sizes.max() > 0 else 0
    )


def bilinear_embeddings(
    features: np.ndarray, matrix: np.ndarray, normalization: str = "metric"
) -> tuple[np.ndarray, np.ndarray]:
    """Return two embeddings whose inner products are `x_i^T M x_j`.

    M may be any symmetric matrix. Rank them by
    `evaluate_retrieval(queries, ..., gallery, ..., similarity="inner_product", exclude_same_row=True)`.

    - `"metric"`: each product is divided by the lengths `sqrt(x^T |M| x)` of both, where |M| has the absolute
      eigenvalues of M. For a positive semi-definite M this is the cosine of the embeddings, so `M = W^T W` ranks as
      the trained model of unit length does. For an indefinite M, where `x^T M x` may be negative, it is the length that
      still bounds all products by one.
    - `"features"`: the features are brought to unit length before M, the products are left as they are.
    - `"none"`: nothing is normalised.

    The paper does not state which of them it ranks by.

    Args:
        features: `[items, channels]`.
        matrix: symmetric `[channels, channels]`.
        normalization: one of `NORMALIZATIONS`; a feature of length zero stays as it is.

    Returns:
        `(queries, gallery)`, both `[items, channels]`, float64.
    """
    check_choice("normalization", normalization, NORMALIZATIONS)
    features, matrix = np.asarray(features, np.float64), _checked(matrix)
    if features.ndim != 2 or features.shape[1] != len(matrix):
        raise invalid(
            "features", received=list(features.shape), expected=f"[items, channels] with {len(matrix)} channels"
        )
    if normalization != "none":
        squares = (features**2).sum(axis=1)
        if normalization == "metric":
            eigenvalues, vectors = np.linalg.eigh(matrix)
            squares = (features @ vectors) ** 2 @ np.abs(eigenvalues)
        features = features / np.sqrt(np.where(squares > 0, squares, 1.0))[:, None]
    return features @ matrix, features


def principal_axes(features: np.ndarray, dim: int) -> np.ndarray:
    """Return the `dim` directions of largest variance as a neck `[channels, dim]`.

    The directions are its columns, whose largest entries are positive. Its `metric_matrix` is the identity on these
    directions: the identity refinement at the embedding's size. Columns are zero where no direction with variance is
    left, since any other one would be a matter of rounding.

    Args:
        features: `[items, channels]`, of training images; more items than `dim`.
        dim: at most the number of channels.

    Raises:
        InvalidInput: there are too few items or channels.
    """
    features = np.asarray(features, np.float64)
    if not 0 < dim <= min(features.shape[1], len(features) - 1):
        expected = f"1 to {min(features.shape[1], len(features) - 1)}, with {features.shape[0]} items of "
        raise invalid("dim", received=dim, expected=f"{expected}{features.shape[1]} channels")
    centred = features - features.mean(axis=0)
    values, axes = (each[..., : -dim - 1 : -1] for each in np.linalg.eigh(centred.T @ centred))
    axes = np.where(values > len(axes) * np.finfo(np.float64).eps * values[0], axes, 0.0)
    return axes * np.sign(axes[np.abs(axes).argmax(axis=0), np.arange(dim)])


def random_axes(channels: int, dim: int, seed: int = 0) -> np.ndarray:
    """Draw a neck of `dim` random orthonormal directions `[channels, dim]`.

    This is the control that needs no data either.
    """
    if not 0 < dim <= channels:
        raise invalid("dim", received=dim, expected=f"1 to {channels}, the channels")
    return np.linalg.qr(np.random.default_rng(seed).normal(size=(channels, dim)))[0]


def _removed_first(amounts: np.ndarray, share: float, seed: int) -> np.ndarray:
    """Return the first amounts whose removal leaves at most `1 - share`.

    The share is of the sum; non-zero amounts are taken in random order.
    """
    nonzero = np.flatnonzero(amounts)
    order = np.random.default_rng(seed).permutation(nonzero)
    if share >= 1 or not len(order):
        return order
    left = np.append(np.cumsum(amounts[order][::-1])[::-1], 0.0)  # [entries + 1], after none, one, two, ... are gone
    return order[: int(np.argmax(left <= (1 - share) * left[0]))]


def _checked(matrix: np.ndarray) -> np.ndarray:
    matrix = np.asarray(matrix, np.float64)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise invalid("matrix", received=list(matrix.shape), expected="a square matrix [channels, channels]")
    if not np.isfinite(matrix).all() or np.abs(matrix - matrix.T).max() > 1e-9 * np.abs(matrix).max():
        raise invalid("matrix", received="one that is not symmetric, or not finite", expected="a symmetric matrix")
    return matrix
