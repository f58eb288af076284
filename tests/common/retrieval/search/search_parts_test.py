import os
import threading

import numpy as np
import pytest

from common.retrieval import NeighborSearch, evaluate_retrieval, find_nearest_neighbors
from common.retrieval.search import blocked_search, buffer_sizes, rank_of_item, relevant_ranking
from common.retrieval.search.blocked_search import Thresholds, _kth_largest, _passing, available_threads
from common.retrieval.search.candidates import CandidateBlock, Candidates, Decision, Slack
from common.retrieval.search.distinct_rows import find_distinct_rows
from common.retrieval.search.rank_of_item import rank_items
from common.retrieval.search.similarity_bounds import SIMILARITIES


@pytest.mark.parametrize("num_rows", [1, 3, 50, 257])
def test_group_maxima_bound_the_kth_largest_from_below(num_rows):
    rng = np.random.default_rng(num_rows)
    tile = rng.standard_normal((num_rows, 30)).astype(np.float32)
    limits = rng.integers(0, 8, 30)
    bound = _kth_largest(tile, limits)
    for column, limit in enumerate(limits):
        if limit == 0:
            assert bound[column] == np.inf
        elif limit <= num_rows:
            assert bound[column] <= np.sort(tile[:, column])[-limit]
        else:
            assert bound[column] == -np.inf
    tile = rng.standard_normal((1024, 200)).astype(np.float32)
    assert (np.sort(tile, axis=0)[-24] <= _kth_largest(tile, np.full(200, 8))).mean() > 0.99  # nearly the largest ones


@pytest.mark.parametrize("rows_in_cache", [1, 7, 1000])
def test_entries_pass_by_their_column_or_by_their_row(rows_in_cache, monkeypatch):
    monkeypatch.setattr(blocked_search, "_BYTES_IN_CACHE", rows_in_cache * 50 * 8 + 1)
    rng = np.random.default_rng(0)
    tile, by_column, by_row = rng.random((40, 50)), rng.random(50) + 0.4, rng.random(40) + 0.4
    expected = np.flatnonzero((tile >= by_column) | (tile >= by_row[:, np.newaxis]))

    def flat(*thresholds):
        row, column, entries = _passing(tile, Thresholds(*thresholds))
        np.testing.assert_array_equal(entries, tile[row, column])
        return row.astype(int) * 50 + column

    monkeypatch.setattr(blocked_search, "_SPARSE", 0.0)
    np.testing.assert_array_equal(flat(by_column, by_row), expected)
    # One comparison: none is missed, all reach the lowest threshold.
    monkeypatch.setattr(blocked_search, "_SPARSE", 1.0)
    found = flat(by_column, by_row)
    assert set(expected) < set(found)
    assert (tile.ravel()[found] >= min(by_column.min(), by_row.min())).all()
    np.testing.assert_array_equal(flat(by_column, None), np.flatnonzero(tile >= by_column))


@pytest.mark.parametrize("block_size", [16, 64])
def test_what_rounding_cannot_tell_apart_is_not_dismissed(block_size, monkeypatch):
    monkeypatch.setattr("common.retrieval.search.nearest_neighbors._ROW_SEARCH_FRACTION", 2.0)
    embeddings = (1e-4 * np.random.default_rng(0).standard_normal((200, 4))).astype(np.float32)
    embeddings[0] = 1e3  # beside it the float32 product knows nothing of the others' distances
    found = np.empty((200, 5), int)

    def keep(rows, neighbors):
        found[rows] = neighbors

    NeighborSearch(embeddings, block_size=block_size, num_threads=1).visit(np.full(200, 5), keep)
    distance = ((embeddings[:, None].astype(np.float64) - embeddings) ** 2).sum(axis=2)
    np.fill_diagonal(distance, np.inf)
    np.testing.assert_array_equal(found, np.argsort(distance, axis=1, kind="stable")[:, :5])


def embeddings_with_ties(size):
    rng = np.random.default_rng(0)
    drawn = rng.integers(-2, 3, (size, 4)).astype(np.float32)
    return drawn, rng.integers(0, 25, size)


@pytest.mark.parametrize("with_gallery", [False, True])
def test_sixty_four_cores_give_the_results_of_one_in_bounded_memory(with_gallery, monkeypatch):
    """With budgets so small that they are felt: what is allocated is counted."""
    with monkeypatch.context() as patch:
        patch.delattr(os, "sched_getaffinity", raising=False)
        patch.setattr(os, "cpu_count", lambda: 64)
        assert available_threads() == 64
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(64)), raising=False)
    assert available_threads() == 64
    queries, labels = embeddings_with_ties(700)
    parts = (queries, labels, *embeddings_with_ties(600)) if with_gallery else (queries, labels)
    options = {"average_precision": True, "tie_bounds": True}
    expected = evaluate_retrieval(*parts, num_threads=1, **options)
    neighbors = find_nearest_neighbors(queries, num_neighbors=9, num_threads=1)
    for name, value in {"TILE_BYTES": 2**20, "DENSE_BYTES": 2**20}.items():
        monkeypatch.setattr(buffer_sizes, name, value)
    sizes, lock, upper_bounds = [], threading.Lock(), blocked_search.upper_bounds

    def measured(*factors):
        found = upper_bounds(*factors)
        with lock:
            sizes.append(found.nbytes * (2 if found.dtype == np.float32 else 1))  # two tiles, or one block of rows
        return found

    for module in (blocked_search, rank_of_item, relevant_ranking):
        monkeypatch.setattr(module, "upper_bounds", measured)
    found = evaluate_retrieval(*parts, **options)
    np.testing.assert_array_equal(find_nearest_neighbors(queries, num_neighbors=9), neighbors)
    assert max(sizes) * 64 <= 2**20
    assert found.as_dict() == expected.as_dict()
    for field in ("per_query_map_at_r", "per_query_precision_at_1", "query_rows"):
        np.testing.assert_array_equal(getattr(found, field), getattr(expected, field))


def sorted_rank(search, queries, gallery, row, item, similarity):
    difference = queries[row].astype(np.float64) - gallery.astype(np.float64)
    product = gallery.astype(np.float64) @ queries[row].astype(np.float64)
    distance = (difference**2).sum(axis=1) if similarity == "euclidean" else -product
    order = [
        other for other in np.lexsort((np.arange(len(gallery)), distance)) if not (search.without_self and other == row)
    ]
    return order.index(item) + 1


@pytest.mark.parametrize("similarity", SIMILARITIES)
@pytest.mark.parametrize("with_gallery", [False, True])
@pytest.mark.parametrize("kind", ["continuous", "integers", "collapsed", "outlier"])
def test_ranks_equal_those_of_a_full_sort(similarity, with_gallery, kind):
    rng = np.random.default_rng(0)

    def draw(num_items):
        if kind == "continuous":
            return rng.standard_normal((num_items, 5)).astype(np.float32)
        if kind == "outlier":
            return (
                rng.integers(-9, 9, (num_items, 3)) * np.where(np.arange(num_items) == 5, 2**20, 1)[:, None]
            ).astype(np.float32)
        return rng.integers(-1, 2 if kind == "integers" else 0, (num_items, 3)).astype(np.float32)

    queries = draw(60)
    gallery = draw(80) if with_gallery else queries
    block_size = 7 if with_gallery == (similarity == "euclidean") else 1000
    search = NeighborSearch(queries, gallery if with_gallery else None, similarity=similarity, block_size=block_size)
    rows = rng.integers(0, 60, 100)
    items = rng.integers(0, len(gallery), 100)
    kept = np.ones(100, bool) if with_gallery else rows != items
    rows, items = rows[kept], items[kept]
    expected = [sorted_rank(search, queries, gallery, row, item, similarity) for row, item in zip(rows, items)]
    np.testing.assert_array_equal(rank_items(search, rows, items), expected)


def test_more_nearer_rows_than_a_byte_counts():
    search = NeighborSearch(np.zeros((2, 1), np.float32), np.arange(700, dtype=np.float32)[:, None])
    np.testing.assert_array_equal(rank_items(search, np.array([0, 1]), np.array([650, 260])), [651, 261])


TRUTH = np.array([[0.5, 0.1, 0.5, 0.9, 0.30001, 0.3]])  # similarities of one query


def decision_of(truth, limits, slack, asked=None):
    def exact(query, item):
        if asked is not None:
            asked.extend(item.tolist())
        return truth[query, item]

    zeros = np.zeros(truth.shape[1])
    widths = Slack(np.zeros(len(truth)), np.full(len(truth), slack / 2), zeros, zeros)
    return Decision(np.array(limits), widths, exact, tie_order=np.arange(truth.shape[1]))


def test_only_overlapping_bounds_are_asked_for_exact_values():
    asked, order = [], np.argsort(-TRUTH[0], kind="stable")
    candidates = Candidates(np.zeros(6, int), order, TRUTH[0][order], np.zeros(6, bool))
    decision_of(TRUTH, [4], slack=1e-3, asked=asked).best(candidates)
    assert sorted(asked) == [0, 2, 4, 5]  # 3 is alone at the top, 1 cannot be among the four best


def test_a_query_that_has_fewer_than_it_wants_still_takes_all(monkeypatch):
    monkeypatch.setattr("common.retrieval.search.candidates._PENDING_PER_QUERY", 1)
    truth = np.stack([np.linspace(0, 1, 40), np.linspace(1, 0, 40)]).astype(np.float32)
    block = CandidateBlock(decision_of(truth, [2, 3], slack=0.0), item_bits=8, num_tiles=2)
    query, item = np.r_[np.zeros(40, int), 1], np.r_[np.arange(40), 0]
    block.add(query, item, truth[query, item])
    assert block.threshold[0] > 0.9
    assert block.threshold[1] == -np.inf
    block.add(np.ones(2, int), np.array([1, 2]), truth[1, 1:3])
    best = block.finish()
    np.testing.assert_array_equal(best.item[best.query == 1], [0, 1, 2])


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("rows_at_once", [3, 10**6])
def test_groups_like_those_of_a_dictionary_of_tuples(dtype, rows_at_once, monkeypatch):
    """In the order of their first rows; zero and negative zero are equal."""
    monkeypatch.setattr("common.retrieval.search.similarity_bounds._ROWS_AT_ONCE", rows_at_once)
    embeddings = np.random.default_rng(0).integers(-1, 2, (300, 4)).astype(dtype)
    embeddings[::2] *= dtype(-1)  # which makes negative zeros
    expected = {}
    for row, embedding in enumerate(embeddings.tolist()):
        expected.setdefault(tuple(embedding), []).append(row)
    found = find_distinct_rows(embeddings)
    groups = [found.members[start:stop].tolist() for start, stop in zip(found.starts[:-1], found.starts[1:])]
    assert groups == list(expected.values())
    assert found.first.tolist() == [rows[0] for rows in groups]
    assert found.has_duplicates
    assert not find_distinct_rows(np.eye(5, dtype=dtype)).has_duplicates
