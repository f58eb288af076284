import numpy as np
import pytest

from common.retrieval import find_nearest_neighbors
from photo_search.index import EmbeddingIndex, search
from photo_search.index.search import nearest_units
from photo_search.index.similarity import unit_rows


@pytest.mark.parametrize("metric", ["cosine", "inner_product", "euclidean"])
def test_several_photos_find_classes_by_the_mean_of_their_nearest_rows(metric, monkeypatch):
    monkeypatch.setattr(search, "_FEWEST_ROWS_AT_ONCE", 7)
    rng = np.random.default_rng(0)
    labels = ["", *rng.choice(["owl", "jay", "kea", ""], 39)]
    index = EmbeddingIndex.build(rng.normal(size=(40, 5)), range(40), labels, metric=metric)
    queries, among = rng.normal(size=(3, 5)), np.arange(0, 40, 2)
    for rows, found in (
        (range(40), index.search_together(queries, 6)),
        (among.tolist(), index.search_together(queries, 6, among=among)),
    ):
        each = index.search(queries, 40)
        similarity = [dict(zip(*line)) for line in zip(each.rows.tolist(), each.similarities.tolist())]
        members = {}
        for row in rows:
            members.setdefault(labels[row] or row, []).append(row)
        score = {name: np.mean([max(line[row] for row in own) for line in similarity]) for name, own in members.items()}
        names = sorted(score, key=score.get, reverse=True)[:6]
        best = [max(members[name], key=lambda row: max(line[row] for line in similarity)) for name in names]
        assert found.rows.tolist() == [best]
        np.testing.assert_allclose(found.similarities[0], [score[name] for name in names], rtol=1e-6)


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
