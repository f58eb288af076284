import numpy as np
import pytest

from common.retrieval import find_nearest_neighbors
from photo_search.index import search
from photo_search.index.search import nearest_units
from photo_search.index.similarity import unit_rows


def units(count, dim=16, seed=0):
    return unit_rows(np.random.default_rng(seed).normal(size=(count, dim)))


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("kind", ["spread", "collapsed", "equal", "best last"])
def test_finds_what_the_search_for_many_finds(kind, dtype, monkeypatch):
    monkeypatch.setattr(search, "_ENTRIES_AT_ONCE", 1)
    monkeypatch.setattr(search, "_FEWEST_ROWS_AT_ONCE", 50)  # nine blocks
    queries, gallery = units(5, seed=1), units(430)
    if kind == "collapsed":  # closer together than float32 products tell apart
        gallery = unit_rows(units(1) + 1e-7 * units(430))
    elif kind == "equal":
        gallery = gallery[np.arange(430) % 3]
    elif kind == "best last":
        gallery = gallery[np.argsort(gallery @ queries[0])]
    gallery = gallery.astype(dtype)
    for k in (1, 7, 60):
        expected = find_nearest_neighbors(queries, gallery, num_neighbors=k, similarity="inner_product")
        assert nearest_units(queries, gallery, k).tolist() == expected.tolist()
