import numpy as np
import pytest

from common.retrieval import NeighborSearch
from common.retrieval.search import blocked_search
from common.retrieval.search.blocked_search import Thresholds, _kth_largest, _passing
from common.retrieval.search.coarse_bounds import sums_are_float32


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


@pytest.mark.parametrize("is_coarse", [False, True])
@pytest.mark.parametrize("block_size", [16, 64])
def test_what_rounding_cannot_tell_apart_is_not_dismissed(block_size, is_coarse, monkeypatch):
    monkeypatch.setattr(blocked_search, "is_fast", lambda: is_coarse and sums_are_float32())
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
