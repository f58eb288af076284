"""Emulated processor with roots, quotients and exponentials slightly off.

The error is a unit in the last place; any processor can emulate it. IEEE 754 fixes the results of sums, products,
quotients and square roots, but not those of vectorised approximations: TensorFlow's float32 `rsqrt` refines the
estimate of the processor (RSQRTPS), which makers choose freely, so that rsqrt(1) is 1 on one processor and .99999988 on
another, and `exp`, `log` and `sigmoid` are polynomials. Code must not decide anything by such a result being exactly 1
or 0. Here every operation that some processor may approximate is replaced by itself times `1 + units 2^-23`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import NamedTuple

import tensorflow as tf

LAST_PLACE = 2.0**-23  # of float32 numbers from 1 to 2; below 1 the places are half as wide
PACKET = 8  # numbers that are computed at once; those that are left over are computed one by one

_MODULES = (tf, tf.math)
_FUNCTIONS = (
    *("rsqrt", "sqrt", "reciprocal", "reciprocal_no_nan", "divide", "divide_no_nan"),
    *("exp", "log", "sigmoid", "softplus"),
)
_OPERATORS = ("__truediv__", "__rtruediv__")


class Processor(NamedTuple):
    """The size and place of the errors of results.

    Attributes:
        units: of the last place (below 1 half as many), positive or negative.
        in_packets: whether only whole packets are off, and the numbers after the last one exact.
    """

    units: int
    in_packets: bool = False


PROCESSORS = {
    "one unit low": Processor(-1),
    "two units low": Processor(-2),
    "two units high": Processor(2),
    "packets one unit low": Processor(-1, in_packets=True),
}


@contextlib.contextmanager
def inexact_arithmetic(processor: Processor) -> Iterator[None]:
    """Make float32 results of approximated operations inexact within this context.

    Other types stay exact. Functions that `tf.function` traces within it keep the errors. Derivatives that TensorFlow
    itself makes of these operations, and operations inside its own functions (a softmax), are unchanged.

    Args:
        processor: size and place of the errors.
    """
    owners = [(module, name) for module in _MODULES for name in _FUNCTIONS if hasattr(module, name)]
    owners += [(tf.Tensor, name) for name in _OPERATORS]
    originals = [(owner, name, getattr(owner, name)) for owner, name in owners]
    try:
        for owner, name, function in originals:
            setattr(owner, name, _inexact(function, processor))
        yield
    finally:
        for owner, name, function in originals:
            setattr(owner, name, function)


def _inexact(function: Callable, processor: Processor) -> Callable:
    def inexact(*args, **kwargs):
        result = function(*args, **kwargs)
        is_float32 = isinstance(result, tf.Tensor) and result.dtype == tf.float32
        return result * _factors(result, processor) if is_float32 else result

    return inexact


def _factors(result, processor: Processor):
    """Return the factors of a result, of its shape (or a scalar)."""
    factor = 1.0 + processor.units * LAST_PLACE
    if not processor.in_packets:
        return tf.constant(factor, result.dtype)
    places = tf.reshape(tf.range(tf.size(result)), tf.shape(result))
    in_packet = places < tf.size(result) // PACKET * PACKET
    return tf.where(in_packet, tf.constant(factor, result.dtype), tf.constant(1.0, result.dtype))
