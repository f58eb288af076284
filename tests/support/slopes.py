"""Derivatives along directions, of variables where they are."""

import numpy as np


def slope_along(direction, variable, value, step=1e-6) -> float:
    """Return the central difference of a function without arguments; the variable stays as it was."""
    start, ends = np.array(variable), []
    for sign in (1, -1):
        variable.assign(start + sign * step * direction)
        ends.append(float(value()))
    variable.assign(start)
    return (ends[0] - ends[1]) / (2 * step)
