"""One hand-written gradient against numerical derivatives in float64."""

from __future__ import annotations

import contextlib
import functools
import zlib

import numpy as np
import tensorflow as tf

from tests.conformance.central_differences import derivatives
from tests.conformance.gradient_cases import CASES
from tests.conformance.inexact_arithmetic import Processor, inexact_arithmetic


class GradientCheck:
    """Derivatives in float64 of a case of `CASES`, and its gradients' errors.

    The differentiated value is the sum of all outputs, each entry times a normal number.

    Args:
        name: of the case.
        rows: how many rows the first input has.
        lengths: of the vectors, see `gradient_cases.vectors`.
        dtype: of the inputs, "float32" or "bfloat16"; the derivatives are taken at the rounded inputs.
        seed: of inputs, of upstream gradients and of directions.
    """

    def __init__(self, name: str, rows: int, lengths: str, dtype: str = "float32", seed: int = 0):
        self.name, self.dtype = name, dtype
        generator = np.random.default_rng((seed, rows, zlib.crc32(f"{name} {lengths}".encode())))
        given = CASES[name].inputs(rows, lengths, generator)
        self.inputs = [tf.cast(tf.constant(array, tf.float32), dtype) for array in given.arrays]
        exact = [tf.cast(tensor, tf.float64) for tensor in self.inputs]
        function = CASES[name].exact_function or CASES[name].function
        self.upstream = [generator.normal(size=output.shape) for output in function(*exact)]
        value = _value_of(name)

        def exact_value(*arrays):
            return float(value([tf.constant(array) for array in arrays], [tf.constant(part) for part in self.upstream]))

        self.derivatives = derivatives(exact_value, [tensor.numpy() for tensor in exact], given.on_the_ball, seed)

    def error(self, processor: Processor | None = None, as_function: bool = False) -> float:
        """Return the gradient's relative error, the largest over the inputs.

        Args:
            processor: the arithmetic to emulate; None: that of this machine.
            as_function: inside a `tf.function`, not eagerly.
        """
        arithmetic = contextlib.nullcontext() if processor is None else inexact_arithmetic(processor)
        function = _gradients_of(self.name)
        if as_function:
            function = (
                tf.function(function, autograph=False) if processor else _gradients_as_function(self.name, self.dtype)
            )
        with arithmetic:
            gradients = function(self.inputs, [tf.constant(part, tf.float32) for part in self.upstream])
        gradients = [tf.cast(gradient, tf.float64).numpy() for gradient in gradients]
        return max(found.relative_error(gradient) for found, gradient in zip(self.derivatives, gradients))


@functools.cache
def _value_of(name: str):
    """Return `(inputs, upstream) -> scalar` in float64.

    It is traced once for any number of rows.
    """
    function = CASES[name].exact_function or CASES[name].function

    @tf.function(reduce_retracing=True, autograph=False)
    def value(inputs, upstream):
        return tf.add_n([tf.reduce_sum(part * output) for part, output in zip(upstream, function(*inputs))])

    return value


def _gradients_of(name: str):
    """Return `(inputs, upstream) -> gradients` of the case's function."""

    def gradients(inputs, upstream):
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            outputs = CASES[name].function(*inputs)
        return tape.gradient(outputs, inputs, [tf.cast(part, out.dtype) for part, out in zip(upstream, outputs)])

    return gradients


@functools.cache
def _gradients_as_function(name: str, dtype: str):
    del dtype  # a trace of its own
    return tf.function(_gradients_of(name), reduce_retracing=True, autograph=False)
