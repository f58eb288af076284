import numpy as np
import pytest
from scipy.spatial.distance import cdist

from common.errors import InvalidInput
from common.index import DuplicatePairs, EmbeddingIndex, find_near_duplicates
from common.index.similarity import unit_rows


@pytest.mark.parametrize(("metric", "threshold"), [("cosine", 0.8), ("inner_product", 0.3), ("euclidean", -0.9)])
def test_finds_all_pairs(metric, threshold):
    rng = np.random.default_rng(0)
    centers = rng.normal(size=(12, 6))
    # one group has 60 rows, far more than are looked at first
    embeddings = unit_rows(centers[np.r_[np.arange(60) % 12, np.zeros(48, int)]] + 0.2 * rng.normal(size=(108, 6)))
    embeddings[40] = embeddings[41]
    pairs = find_near_duplicates(embeddings, threshold, metric=metric)
    values = -cdist(embeddings, embeddings) if metric == "euclidean" else embeddings @ embeddings.T
    expected = {(i, j): values[i, j] for i, j in np.argwhere(np.triu(values >= threshold, 1))}
    assert len(expected) > 500
    assert dict(zip(zip(pairs.first.tolist(), pairs.second.tolist()), pairs.similarities)) == pytest.approx(expected)
    assert (np.diff(pairs.similarities) <= 0).all()


def test_a_threshold_that_all_reach_gives_all_pairs_or_an_error():
    embeddings = unit_rows(np.random.default_rng(0).normal(size=(30, 4)))
    for most in (1_000_000, 30 * 29 // 2):
        assert len(find_near_duplicates(embeddings, -1, max_pairs=most).first) == 30 * 29 / 2
    for most in (30 * 29 // 2 - 1, 3):
        with pytest.raises(InvalidInput, match=f"threshold.*more than {most} pairs"):
            find_near_duplicates(embeddings, -1, max_pairs=most)


@pytest.mark.parametrize(
    ("metric", "threshold"),
    [("cosine", 1.01), ("cosine", -1.01), ("cosine", np.nan), ("inner_product", np.inf), ("euclidean", 0.1)],
)
def test_a_threshold_that_no_similarity_can_have_is_refused(metric, threshold):
    with pytest.raises(InvalidInput, match=f"Invalid threshold: received {threshold}"):
        find_near_duplicates(np.eye(3), threshold, metric=metric)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("rounding", [0, 1e-7])
def test_equal_rows_are_pairs_at_a_threshold_of_one(dtype, rounding):
    """Also where the products with many other rows are larger than with the equal ones, by rounding."""
    rng = np.random.default_rng(0)
    distinct = unit_rows(rng.normal(size=(50, 64)))
    distinct[30:] = unit_rows(distinct[30] + 1e-3 * rng.normal(size=(20, 64)))
    rows = np.repeat(distinct, 2, axis=0) + rounding * rng.normal(size=(100, 64))
    index = EmbeddingIndex.build(rows, range(100), dtype=dtype)
    pairs = index.near_duplicates(1.0)
    assert list(zip(pairs.first.tolist(), pairs.second.tolist())) == [(row, row + 1) for row in range(0, 100, 2)]
    assert (pairs.similarities == 1).all()


def test_the_similarity_of_a_pair_is_a_threshold_that_it_reaches():
    index = EmbeddingIndex.build(np.random.default_rng(0).normal(size=(40, 33)), range(40))
    first, second = np.triu_indices(40, 1)
    for left, right in ((first, second), (second, first)):
        for pair, similarity in enumerate(index.similarities(left, right)[:50]):
            pairs = index.near_duplicates(similarity)
            assert (first[pair], second[pair]) in set(zip(pairs.first.tolist(), pairs.second.tolist()))


@pytest.mark.parametrize("count", [0, 1, 2])
def test_few_rows(count):
    index = EmbeddingIndex.build(np.ones((count, 3), np.float32), range(count))
    pairs = index.near_duplicates(0.5)
    assert pairs.first.tolist() == [0] * (count // 2)
    assert pairs.groups() == ([[0, 1]] if count == 2 else [])


def test_groups_are_held_together_by_chains():
    pairs = DuplicatePairs(np.array([4, 1, 2, 8]), np.array([9, 2, 7, 10]), np.array([0.9, 0.8, 0.7, 0.6]))
    assert pairs.groups() == [[1, 2, 7], [4, 9], [8, 10]]
