import numpy as np
import pytest

from common.retrieval import NeighborSearch
from common.retrieval.search.rank_of_item import rank_items
from common.retrieval.search.similarity_bounds import SIMILARITIES


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


def test_a_large_collapsed_gallery_costs_nothing():
    search = NeighborSearch(np.ones((20_000, 2), np.float32))
    rows, items = np.array([0, 19_999, 7]), np.array([19_999, 0, 9])
    np.testing.assert_array_equal(rank_items(search, rows, items), [19_999, 1, 9])


def test_more_nearer_rows_than_a_byte_counts():
    search = NeighborSearch(np.zeros((2, 1), np.float32), np.arange(700, dtype=np.float32)[:, None])
    np.testing.assert_array_equal(rank_items(search, np.array([0, 1]), np.array([650, 260])), [651, 261])
