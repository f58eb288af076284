import numpy as np
import pytest

from common.errors import InvalidInput
from common.retrieval.exact_scale import brought_to_one


@pytest.mark.parametrize("size", [5e-324, 1e-310, 1e-200, 1.0, 3.0, 1e200, 1.7e308])
def test_the_largest_coordinate_is_of_order_one_and_no_digit_changes(size):
    embeddings = size * np.array([[-1.0, 0.5], [0.25, 0.0]])
    points, exponent = brought_to_one("embeddings", embeddings)
    assert 0.5 <= np.abs(points).max() < 1
    np.testing.assert_array_equal(np.ldexp(points, exponent), embeddings)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_points_are_float64_whatever_they_were(dtype):
    points, exponent = brought_to_one("embeddings", np.array([[3.0, -6.0]], dtype))
    assert (points.dtype, exponent) == (np.float64, 3)
    assert points.tolist() == [[0.375, -0.75]]
    assert brought_to_one("embeddings", np.zeros((2, 3), dtype))[0].tolist() == np.zeros((2, 3)).tolist()


def test_what_is_not_finite_is_named():
    with pytest.raises(InvalidInput, match="Invalid gallery embeddings: received 'NaN or infinity in row 1'"):
        brought_to_one("gallery embeddings", np.array([[1.0], [np.inf]]))
