import time

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from common.errors import InvalidInput
from photo_search.index import EmbeddingIndex, find_near_duplicates, near_duplicates
from photo_search.index.similarity import unit_rows


def strongest_connection(values, threshold):
    """The pairs that connect two groups, most similar first: Kruskal's rule on all pairs, written out."""
    group, kept = np.arange(len(values)), []
    pairs = [tuple(pair) for pair in np.argwhere(np.triu(values >= threshold, 1)).tolist()]
    for left, right in sorted(pairs, key=lambda pair: (-values[pair], pair)):
        if group[left] != group[right]:
            group[group == group[right]] = group[left]
            kept.append((left, right))
    return {frozenset(np.flatnonzero(group == each).tolist()) for each in group if sum(group == each) > 1}, kept


@pytest.mark.parametrize("at_once", [2_000_000, 50])
@pytest.mark.parametrize(("metric", "threshold"), [("cosine", 0.8), ("inner_product", 0.6), ("euclidean", -0.9)])
def test_the_most_similar_pairs_hold_all_groups_together(metric, threshold, at_once, monkeypatch):
    monkeypatch.setattr(near_duplicates, "_PAIRS_AT_ONCE", at_once)
    rng = np.random.default_rng(0)
    centers = 4 * rng.normal(size=(12, 6))
    # one group has 60 rows, far more than are looked at first
    embeddings = centers[np.r_[np.arange(60) % 12, np.zeros(48, int)]] + 0.2 * rng.normal(size=(108, 6))
    embeddings = unit_rows(embeddings) * (0.9 if metric == "inner_product" else 1)
    embeddings[40] = embeddings[41]
    pairs = find_near_duplicates(embeddings, threshold, metric=metric)
    values = -cdist(embeddings, embeddings) if metric == "euclidean" else embeddings @ embeddings.T
    groups, expected = strongest_connection(values, threshold)
    assert 3 < len(groups) < 13
    assert {frozenset(group) for group in pairs.groups()} == groups
    assert pairs.similarities == pytest.approx([values[pair] for pair in expected])
    assert (np.diff(pairs.similarities) <= 0).all()
    np.fill_diagonal(values, -np.inf)
    for row, (similarity, other) in pairs.nearest().items():
        assert similarity == pytest.approx(values[row].max()) == pytest.approx(values[row, other])


def test_many_equal_rows_are_one_group_and_cost_little():
    rng = np.random.default_rng(0)
    same, others = rng.normal(size=(2, 32)), rng.normal(size=(50, 32))
    rows = np.r_[np.repeat(same, [6_000, 3], 0), others].astype("float32")
    index = EmbeddingIndex.build(rows, range(len(rows)))
    began = time.process_time()
    for threshold in (1.0, 0.9):
        pairs = index.near_duplicates(threshold)
        assert [len(group) for group in pairs.groups()] == [6_000, 3]
        assert set(pairs.first.tolist()) == {0, 6_000}
    assert len(index.near_duplicates(-1).groups()[0]) == len(rows)
    assert time.process_time() - began < 10


def test_short_equal_rows_are_pairs_where_their_product_reaches_the_threshold():
    index = EmbeddingIndex.build(np.float32([[0.5, 0], [0.5, 0], [0, 2], [0, 2]]), range(4), metric="inner_product")
    assert index.near_duplicates(0.3).groups() == [[2, 3]]
    assert index.near_duplicates(0.2).groups() == [[0, 1], [2, 3]]


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
            assert any({first[pair], second[pair]} <= set(group) for group in pairs.groups())


@pytest.mark.parametrize("count", [0, 1, 2])
def test_few_rows(count):
    index = EmbeddingIndex.build(np.ones((count, 3), np.float32), range(count))
    pairs = index.near_duplicates(0.5)
    assert pairs.first.tolist() == [0] * (count // 2)
    assert pairs.groups() == ([[0, 1]] if count == 2 else [])
