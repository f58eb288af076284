import numpy as np
import pytest

from common.errors import InvalidInput
from common.index import DuplicatePairs, EmbeddingIndex, find_near_duplicates
from common.index.similarity import unit_rows


def by_loops(embeddings, threshold, metric):
    rows = embeddings.astype(np.float64)
    found = {}
    for i in range(len(rows)):
        for j in range(i + 1, len(rows)):
            value = -np.linalg.norm(rows[i] - rows[j]) if metric == "euclidean" else rows[i] @ rows[j]
            if value >= threshold:
                found[i, j] = value
    return found


@pytest.mark.parametrize(("metric", "threshold"), [("cosine", 0.8), ("inner_product", 0.3), ("euclidean", -0.9)])
def test_finds_all_pairs_that_loops_find(metric, threshold):
    rng = np.random.default_rng(0)
    centers = rng.normal(size=(12, 6))
    # one group has 60 rows, far more than are looked at first
    embeddings = unit_rows(centers[np.r_[np.arange(60) % 12, np.zeros(48, int)]] + 0.2 * rng.normal(size=(108, 6)))
    embeddings[40] = embeddings[41]
    pairs = find_near_duplicates(embeddings, threshold, metric=metric)
    expected = by_loops(embeddings, threshold, metric)
    assert len(expected) > 500
    assert dict(zip(zip(pairs.first.tolist(), pairs.second.tolist()), pairs.similarities)) == pytest.approx(expected)
    assert (np.diff(pairs.similarities) <= 0).all()


def test_a_threshold_that_all_reach_gives_all_pairs_or_an_error():
    embeddings = np.random.default_rng(0).normal(size=(30, 4))
    assert len(find_near_duplicates(embeddings, -np.inf).first) == 30 * 29 / 2
    for most in (30 * 29 // 2 - 1, 3):
        with pytest.raises(InvalidInput, match=f"threshold.*more than {most} pairs"):
            find_near_duplicates(embeddings, -np.inf, max_pairs=most)
    with pytest.raises(InvalidInput, match="threshold.*nan"):
        find_near_duplicates(embeddings, np.nan)


@pytest.mark.parametrize("count", [0, 1, 2])
def test_few_rows(count):
    index = EmbeddingIndex.build(np.ones((count, 3), np.float32), range(count))
    pairs = index.near_duplicates(0.5)
    assert pairs.first.tolist() == [0] * (count // 2)
    assert pairs.groups() == ([[0, 1]] if count == 2 else [])


def test_groups_are_held_together_by_chains():
    pairs = DuplicatePairs(np.array([4, 1, 2, 8]), np.array([9, 2, 7, 10]), np.array([0.9, 0.8, 0.7, 0.6]))
    assert pairs.groups() == [[1, 2, 7], [4, 9], [8, 10]]
