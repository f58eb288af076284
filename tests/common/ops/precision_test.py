import pytest
import tensorflow as tf

from common.ops.precision import in_full_precision


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


def test_nothing_given():
    assert in_full_precision({}) == {"dtype": "float32"}
