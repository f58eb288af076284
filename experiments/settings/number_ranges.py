"""Ranges of the configuration's numbers, checked early and shown by `--help`."""

from __future__ import annotations

import math
from typing import NamedTuple


class NumberRange(NamedTuple):
    """An interval of finite numbers.

    Attributes:
        low, high: its ends; infinite if unbounded.
        low_included, high_included: whether the end belongs to it; infinity never does.
    """

    low: float = -math.inf
    high: float = math.inf
    low_included: bool = False
    high_included: bool = False

    def __contains__(self, value) -> bool:
        above = value > self.low or (self.low_included and value == self.low)
        below = value < self.high or (self.high_included and value == self.high)
        return abs(value) < math.inf and above and below

    def __str__(self) -> str:
        opening, closing = "[" if self.low_included else "(", "]" if self.high_included else ")"
        return f"{opening}{self.low:g}, {self.high:g}{closing}"


FINITE = NumberRange()
POSITIVE = NumberRange(low=0)
NOT_NEGATIVE = NumberRange(low=0, low_included=True)
SHARE = NumberRange(0, 1, low_included=True, high_included=True)
