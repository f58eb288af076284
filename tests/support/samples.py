"""Samples of products of parameters: the rest of a product is marked `release`."""

import itertools
from collections.abc import Sequence

import pytest


def sampled(names: str, *values: Sequence, **settings):
    """Parametrise a test by a product, of which a diagonal always runs.

    Each value of the longest list comes up once, and the combinations of the others take turns beside it.

    Args:
        names: as for `pytest.mark.parametrize`, in the order of `values`.
        *values: of each name.
        **settings: for `pytest.mark.parametrize`.
    """
    longest = max(range(len(values)), key=lambda place: len(values[place]))
    others = list(itertools.product(*(column for place, column in enumerate(values) if place != longest)))
    rows = []
    for (turn, value), (number, beside) in itertools.product(enumerate(values[longest]), enumerate(others)):
        row = [*beside[:longest], value, *beside[longest:]]
        is_sample = number == turn % len(others)
        rows.append(pytest.param(*row, marks=() if is_sample else pytest.mark.release))
    return pytest.mark.parametrize(names, rows, **settings)
