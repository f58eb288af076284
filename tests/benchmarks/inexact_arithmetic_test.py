"""The emulated processor: what is off within its context, and that nothing is afterwards."""

import numpy as np
import pytest
import tensorflow as tf

from benchmarks.inexact_arithmetic import PROCESSORS, inexact_arithmetic
from common.errors import InvalidInput, check_positive

OPERATIONS = {
    "rsqrt": lambda x: tf.math.rsqrt(x),
    "quotient": lambda x: x / x,
    "number over tensor": lambda x: 1.0 / x,
    "divide_no_nan": lambda x: tf.math.divide_no_nan(x, x),
    "sqrt": lambda x: tf.sqrt(x),
}


def off_by(result):
    """Units of 2^-23 from one, of each number."""
    return ((np.asarray(result, np.float64) - 1.0) * 2**23).tolist()


@pytest.mark.parametrize("wrapped", [False, True], ids=["eager", "function"])
@pytest.mark.parametrize("apply", OPERATIONS.values(), ids=OPERATIONS)
def test_whole_packets_of_ones_are_off_and_the_rest_is_right(apply, wrapped):
    def found():
        return np.ravel(off_by((tf.function(apply) if wrapped else apply)(tf.ones([2, 5]))))

    here = found()  # within a function TensorFlow makes a reciprocal of 1 / x, which may be off itself
    with inexact_arithmetic(PROCESSORS["packets one unit low"]):
        assert (found() - here).tolist() == [-1.0] * 8 + [0.0] * 2


@pytest.mark.parametrize(("processor", "units"), [("one unit low", -1), ("two units low", -2), ("two units high", 2)])
def test_units_are_counted(processor, units):
    with inexact_arithmetic(PROCESSORS[processor]):
        assert off_by(tf.math.rsqrt(tf.ones([3]))) == [units] * 3


def test_float64_is_left_alone():
    with inexact_arithmetic(PROCESSORS["two units low"]):
        assert float(tf.math.rsqrt(tf.ones([], tf.float64))) == 1.0


def test_all_is_as_before_even_after_an_error():
    before = [tf.math.rsqrt, tf.sqrt, tf.exp, tf.math.divide_no_nan, tf.Tensor.__truediv__]
    with pytest.raises(InvalidInput), inexact_arithmetic(PROCESSORS["one unit low"]):
        check_positive("seen", -1 if tf.sqrt is not before[1] else 1)
    assert [tf.math.rsqrt, tf.sqrt, tf.exp, tf.math.divide_no_nan, tf.Tensor.__truediv__] == before
