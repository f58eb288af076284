"""Closed forms in the Poincaré ball, in extended precision: oracles of distances."""

import numpy as np


def exponential(tangent, curvature):
    """The point that a tangent vector at the origin leads to."""
    tangent, root = np.asarray(tangent, np.longdouble), np.sqrt(np.longdouble(curvature))
    length = np.sqrt((tangent**2).sum())
    return tangent if length == 0 else np.tanh(root * length) * tangent / (root * length)


def distance(first, second, curvature):
    """`(2/√c) artanh(√c ‖(-p) ⊕ q‖)` by Möbius addition, of the points of two tangent vectors."""
    c = np.longdouble(curvature)
    p, q = -exponential(first, curvature), exponential(second, curvature)
    product, of_p, of_q = (p * q).sum(), (p**2).sum(), (q**2).sum()
    total = ((1 + 2 * c * product + c * of_q) * p + (1 - c * of_p) * q) / (1 + 2 * c * product + c**2 * of_p * of_q)
    return 2 / np.sqrt(c) * np.arctanh(np.sqrt(c * (total**2).sum()))


def distances(first, second, curvature):
    """Those of all pairs, `[first, second]`, float64."""
    return np.array([[distance(x, y, curvature) for y in second] for x in first], np.float64)
