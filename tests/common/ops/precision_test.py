import pytest
import tensorflow as tf

from common.ops.precision import at_least_float32, in_full_precision


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (None, "float32"),
        ("float16", "float32"),
        ("mixed_float16", "float32"),
        ("mixed_bfloat16", "float32"),
        ("float32", "float32"),
        ("float64", "float64"),
        (tf.float64, "float64"),
        (tf.keras.mixed_precision.Policy("float64"), "float64"),
    ],
)
def test_types(given, expected):
    arguments = {"name": "pooling", "dtype": given}
    assert in_full_precision(arguments) == {"name": "pooling", "dtype": expected}
    assert arguments["dtype"] is given


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("float64", "float64"),
        ("float32", "float32"),
        ("float16", "float32"),
        ("bfloat16", "float32"),
        ("int32", "float32"),
    ],
)
def test_half_precision_and_integers_become_float32(given, expected):
    assert at_least_float32(tf.ones([2], given)).dtype == expected
