import json
import sys

import numpy as np
import pytest

from common.errors import InvalidInput
from photo_search.index import EmbeddingIndex
from photo_search.index.approximate import best_of, recall_of, without_own_row
from tests.support.samples import sampled

NAMES = [str(row) for row in range(3000)]


def faiss_or_skip():
    return pytest.importorskip("faiss", reason="faiss is not installed (pip install faiss-cpu)")


def clustered(count=1500, dim=16, seed=0):
    rng = np.random.default_rng(seed)
    centers = np.random.default_rng(9).normal(size=(150, dim))
    return (centers[rng.integers(0, 150, count)] + 0.4 * rng.normal(size=(count, dim))).astype(np.float32)


@sampled("kind, metric", ["hnsw", "ivf_pq"], ["cosine", "euclidean"])
def test_the_stated_recall_is_that_of_new_queries(kind, metric, tmp_path):
    faiss_or_skip()
    index = EmbeddingIndex.build(clustered(), NAMES[:1500], metric=metric)
    index.save(tmp_path / "index")
    built = index.build_approximate(kind, target_recall=0.9, num_queries=200)
    assert built.recall_at_10 >= 0.9
    loaded = EmbeddingIndex.load(tmp_path / "index")
    assert loaded.approximate == {**built.as_record(), "file": loaded.approximate["file"]}
    queries = clustered(200, seed=1)
    found, exact = loaded.search(queries, 10, approximate=True), loaded.search(queries, 10)
    assert recall_of(found.rows, exact.rows) == pytest.approx(built.recall_at_10, abs=0.07)
    assert (np.diff(found.similarities, axis=1) <= 0).all()
    is_same = found.rows == exact.rows
    np.testing.assert_array_equal(found.similarities[is_same], exact.similarities[is_same])
    if kind == "ivf_pq":  # what one list of a few tens of rows does not have is searched exactly
        record = json.loads((tmp_path / "index" / "index.json").read_text())
        record["approximate"]["effort"] = 1
        (tmp_path / "index" / "index.json").write_text(json.dumps(record))
        short = EmbeddingIndex.load(tmp_path / "index")
        found = short.search(queries[:3], 1100, approximate=True)
        assert (found.rows == short.search(queries[:3], 1100).rows).all()


def test_rows_added_later_are_found_exactly(tmp_path):
    faiss_or_skip()
    index = EmbeddingIndex.build(clustered(), NAMES[:1500])
    index.save(tmp_path / "index")
    index.build_approximate("hnsw", num_queries=50)
    index.add(clustered(40, seed=1), NAMES[1500:1540])
    for each in (index, EmbeddingIndex.load(tmp_path / "index")):
        found = each.search(clustered(40, seed=1), 1, approximate=True)
        assert found.rows[:, 0].tolist() == list(range(1500, 1540))
        assert each.approximate["rows"] == 1500
    index.build_approximate("hnsw", num_queries=50)
    assert index.approximate["rows"] == 1540
    assert len(list((tmp_path / "index").glob("*.faiss"))) == 1


def test_neighbors_of_rows_and_duplicates_by_it():
    faiss_or_skip()
    embeddings = clustered(1000)
    embeddings[500:510] = embeddings[:10]
    index = EmbeddingIndex.build(embeddings, NAMES[:1000])
    index.build_approximate("hnsw", num_queries=50)
    assert index.neighbors_of(np.arange(10), 1, approximate=True).rows[:, 0].tolist() == list(range(500, 510))
    pairs = index.near_duplicates(0.9999, approximate=True)
    assert sorted(pairs.first.tolist()) == list(range(10))
    assert (pairs.second == pairs.first + 500).all()


def test_it_is_copied_with_the_index_and_refused_when_damaged(tmp_path):
    faiss_or_skip()
    index = EmbeddingIndex.build(clustered(300), NAMES[:300])
    index.build_approximate("hnsw", num_queries=50)
    index.save(tmp_path / "index")
    loaded = EmbeddingIndex.load(tmp_path / "index")
    assert loaded.search(clustered(1), 3, approximate=True).rows.shape == (1, 3)
    (path,) = (tmp_path / "index").glob("*.faiss")
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(InvalidInput, match="approximate-.*cannot be read.*again"):
        EmbeddingIndex.load(tmp_path / "index").search(clustered(1), 3, approximate=True)


@pytest.mark.parametrize(
    ("arguments", "phrase"),
    [(("tree",), "kind.*hnsw, ivf_pq"), (("ivf_pq",), "rows.*300.*1000 or more for ivf_pq")],
)
def test_wrong_wishes_are_named(arguments, phrase):
    index = EmbeddingIndex.build(clustered(300), NAMES[:300])
    with pytest.raises(InvalidInput, match=phrase):
        index.build_approximate(*arguments)


def test_without_faiss_it_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "faiss", None)
    with pytest.raises(InvalidInput, match="needs faiss.*pip install faiss-cpu.*exactly"):
        EmbeddingIndex.build(clustered(300), NAMES[:300]).build_approximate()


def test_parts_by_hand():
    assert recall_of(np.array([[1, 2], [3, 4]]), np.array([[2, 9], [4, 3]])) == 0.75
    assert without_own_row(np.array([[5, 1, 2], [1, 2, 3]]), np.array([1, 7])).tolist() == [[5, 2], [1, 2]]
    gallery = np.float32([[1, 0], [0.6, 0.8], [0, 1], [1, 0]])
    rows = best_of(np.float32([[1, 0]]), gallery, np.array([[2, 3, -1, 0]]), 4, "cosine")
    assert rows.tolist() == [[0, 3, 2, -1]]
