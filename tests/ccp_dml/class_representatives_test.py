"""The choice of the next proxies: Algorithm 2 by plain loops, in chunks, and its errors."""

import numpy as np
import pytest

from ccp_dml import choose_representatives, class_representatives, covering_radii
from common.errors import InvalidInput


def algorithm_2(pool, num_picks, previous):
    """Algorithm 2 for one class."""
    picked = []
    for _ in range(num_picks):
        centers = [*previous, *(pool[index] for index in picked)]
        distances = [min((np.linalg.norm(point - center) for center in centers), default=np.inf) for point in pool]
        candidates = [index for index in range(len(pool)) if index not in picked]
        picked.append(max(candidates, key=lambda index: distances[index]))
    return picked


@pytest.mark.parametrize("num_previous", [None, 1, 3])
@pytest.mark.parametrize("classes_at_once", [3, 4, 1024])
def test_equals_algorithm_2(monkeypatch, num_previous, classes_at_once):
    monkeypatch.setattr(class_representatives, "CLASSES_AT_ONCE", classes_at_once)
    rng = np.random.default_rng(0)
    pools = rng.normal(size=(10, 7, 3)).astype(np.float32)
    previous = None if num_previous is None else rng.normal(size=(10, num_previous, 3)).astype(np.float32)
    chosen = choose_representatives(pools, 3, previous)
    for row in range(10):
        expected = algorithm_2(pools[row], 3, [] if previous is None else previous[row])
        assert chosen.positions[row].tolist() == expected
        np.testing.assert_array_equal(chosen.embeddings[row], pools[row][expected])


def test_covering_radius_by_hand(monkeypatch):
    monkeypatch.setattr(class_representatives, "CLASSES_AT_ONCE", 1)
    pools = np.array([[[0.0, 0.0], [3.0, 4.0]], [[1.0, 0.0], [2.0, 0.0]]], np.float32)
    centers = np.array([[[0.0, 1.0], [9.0, 9.0]], [[2.0, 0.0], [2.0, 0.0]]], np.float32)
    np.testing.assert_allclose(covering_radii(pools, centers), [np.sqrt(18), 1.0], rtol=1e-6)


def test_more_picks_than_the_pool_has():
    with pytest.raises(InvalidInput, match="pool size: received 2, expected at least .* 3"):
        choose_representatives(np.zeros((1, 2, 4)), 3)


@pytest.mark.parametrize("shape", [(2, 1, 4), (1, 1, 3)])
def test_previous_proxies_of_another_shape(shape):
    with pytest.raises(InvalidInput, match="previous proxies"):
        choose_representatives(np.zeros((1, 2, 4)), 1, np.zeros(shape))


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_embeddings_that_are_not_finite_are_named(value):
    pools = np.ones((3, 2, 4))
    pools[1, 0, 2] = value
    with pytest.raises(InvalidInput, match="pools: received '1 embeddings that are not finite, the first of class 1"):
        choose_representatives(pools, 1)
    with pytest.raises(InvalidInput, match="previous proxies: received '1 embeddings that are not finite"):
        choose_representatives(np.ones((3, 2, 4)), 1, previous=pools)
