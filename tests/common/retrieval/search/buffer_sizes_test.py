import os
import threading

import numpy as np
import pytest

from common.retrieval import evaluate_retrieval, find_nearest_neighbors
from common.retrieval.search import blocked_search, buffer_sizes, rank_of_item, relevant_ranking
from common.retrieval.search.blocked_search import available_threads
from common.retrieval.search.buffer_sizes import DENSE_BYTES, TILE_BYTES, DenseRows, dense_rows, tile_size

CORES = (1, 2, 16, 17, 64, 128, 256, 1024)


@pytest.mark.parametrize("num_tiles", [2 * cores for cores in CORES])
def test_all_tiles_at_work_take_no_more_than_their_budget(num_tiles):
    size = tile_size(1536, num_tiles)
    assert 1 <= size <= 1536
    assert 4 * size**2 * num_tiles <= TILE_BYTES
    assert size == 1536 or num_tiles > 32
    if num_tiles > 64:  # the largest that does
        assert 4 * (size + 1) ** 2 * num_tiles > TILE_BYTES
    assert tile_size(100, 2048) == 100
    assert tile_size(1536, 10**12) == 1


@pytest.mark.parametrize("num_threads", CORES)
@pytest.mark.parametrize("num_columns", [1, 60_502, 10**7])
def test_all_dense_rows_take_no_more_than_their_budget(num_columns, num_threads):
    rows, working = dense_rows(num_columns, num_threads, 2**22)
    assert 1 <= working <= num_threads
    assert 1 <= rows <= 256
    assert rows * num_columns <= max(2**22, num_columns)
    assert 8 * rows * num_columns * working <= DENSE_BYTES
    assert dense_rows(10**9, 64, 2**22) == DenseRows(1, 1)


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
