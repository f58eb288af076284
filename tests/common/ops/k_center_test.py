import numpy as np
import pytest
import tensorflow as tf

from common.errors import InvalidInput
from common.ops.k_center import covering_radius, greedy_k_center, nearest_squared_distances


def greedy_oracle(points, num_centers, initial=None):
    """Loops over candidates; the first of the farthest wins, what is picked is out."""
    chosen, repelling = [], [] if initial is None else list(initial)
    for _ in range(num_centers):
        best, best_distance = None, -1.0
        for index, point in enumerate(points):
            if index in chosen:
                continue
            others = [*repelling, *(points[c] for c in chosen)]
            distance = min((np.sum((point - other) ** 2) for other in others), default=np.inf)
            if distance > best_distance:
                best, best_distance = index, distance
        chosen.append(best)
    return chosen


def random_case(rng):
    """Integer grids, so that distances are exact and ties and duplicates are frequent."""
    num_points = int(rng.integers(1, 15))
    points = rng.integers(-3, 4, size=(num_points, int(rng.integers(1, 4)))).astype(np.float32)
    initial = rng.integers(-3, 4, size=(int(rng.integers(1, 4)), points.shape[1])).astype(np.float32)
    return points, int(rng.integers(1, num_points + 1)), initial if rng.random() < 0.5 else None


@pytest.mark.parametrize("block", range(4))
def test_two_hundred_random_cases_equal_the_oracle(block):
    rng = np.random.default_rng(block)
    for _ in range(50):
        points, num_centers, initial = random_case(rng)
        np.testing.assert_array_equal(
            greedy_k_center(points, num_centers, initial), greedy_oracle(points, num_centers, initial)
        )


def radius_oracle(points, centers):
    return max(min(np.linalg.norm(point - center) for center in centers) for point in points)


def test_the_covering_radius_equals_its_definition():
    rng = np.random.default_rng(3)
    points, centers = rng.normal(size=(2, 7, 3)), rng.normal(size=(2, 4, 3))
    expected = [radius_oracle(p, c) for p, c in zip(points, centers)]
    np.testing.assert_allclose(covering_radius(points, centers), expected, rtol=1e-12)
    assert covering_radius(points, points).numpy().tolist() == [0.0, 0.0]


def test_a_covering_radius_has_no_gradient():
    points, centers = tf.constant([[0.0, 0.0], [3.0, 4.0]]), tf.constant([[0.0, 1.0]])
    with tf.GradientTape(persistent=True) as tape:
        tape.watch([points, centers])
        radius = covering_radius(points, centers)
    assert tape.gradient(radius, [points, centers]) == [None, None]


def test_near_duplicates_are_told_apart():
    """Distances of 1e-4 between unit vectors, which inner products in float32 do not see."""
    points = np.array([[1.0, 0.0], [1.0, 1e-4], [1.0, 3e-4]], np.float32)
    assert greedy_k_center(points, 3).numpy().tolist() == [0, 2, 1]
    np.testing.assert_allclose(nearest_squared_distances(points, points[:1]), [0.0, 1e-8, 9e-8], rtol=1e-4)


def test_functions_xla_batches_and_unknown_sizes_agree():
    rng = np.random.default_rng(5)
    points = rng.normal(size=(3, 20, 4)).astype(np.float32)
    initial = rng.normal(size=(3, 2, 4)).astype(np.float32)
    expected = [greedy_oracle(p, 6, i) for p, i in zip(points, initial)]

    def pick(points, initial):
        return greedy_k_center(points, 6, initial)

    unknown = [tf.TensorSpec([None, None, 4]), tf.TensorSpec([None, None, 4])]
    for function in (
        pick,
        tf.function(pick),
        tf.function(pick, input_signature=unknown),
        tf.function(pick, jit_compile=True),
    ):
        np.testing.assert_array_equal(function(tf.constant(points), tf.constant(initial)), expected)


@pytest.mark.parametrize("num_centers", [0, 5])
def test_an_impossible_number_of_centers_is_named(num_centers):
    with pytest.raises(InvalidInput, match="num_centers.*1 to 4"):
        greedy_k_center(np.zeros((4, 2), np.float32), num_centers)


@pytest.mark.parametrize("spoiler", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("compiled", [False, True])
def test_points_that_are_not_finite_come_last_and_none_is_picked_twice(spoiler, compiled):
    points = np.array([[spoiler, 0.0], [0.0, 0.0], [0.0, 0.0], [4.0, 0.0], [1.0, spoiler], [3.0, 0.0]], np.float32)
    pick = tf.function(lambda: greedy_k_center(points, 6), jit_compile=compiled)
    assert pick().numpy().tolist() == [1, 3, 5, 2, 0, 4]
    assert greedy_k_center(points, 2, initial=[[spoiler, 0.0]]).numpy().tolist() == [1, 3]
    assert greedy_k_center(np.full((3, 2), spoiler, np.float32), 3).numpy().tolist() == [0, 1, 2]
