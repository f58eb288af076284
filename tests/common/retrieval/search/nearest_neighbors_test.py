import numpy as np
import pytest

from common.errors import InvalidInput
from common.retrieval import NeighborSearch, find_nearest_neighbors
from common.retrieval.search.similarity_bounds import SIMILARITIES

CONSTANTS = "common.retrieval.search.nearest_neighbors."


def oracle(queries, gallery, similarity, num_neighbors):
    """A full sort by (similarity, index)."""
    left, right = queries.astype(np.float64)[:, None], (queries if gallery is None else gallery).astype(np.float64)
    distance = ((left - right) ** 2).sum(axis=2) if similarity == "euclidean" else -(left * right).sum(axis=2)
    if gallery is None:
        np.fill_diagonal(distance, np.inf)
    return np.argsort(distance, axis=1, kind="stable")[:, :num_neighbors]


def clustered(num_items, dim, num_centers, seed, dtype=np.float32):
    rng = np.random.default_rng(seed)
    centers = rng.standard_normal((num_centers, dim))
    return (centers[rng.integers(0, num_centers, num_items)] + 0.5 * rng.standard_normal((num_items, dim))).astype(
        dtype
    )


@pytest.fixture(params=["rows", "tiles", "several passes"])
def path(request, monkeypatch):
    """Few items go by rows; these make the other paths take them, too."""
    if request.param != "rows":
        monkeypatch.setattr(CONSTANTS + "_ROW_SEARCH_FRACTION", 2.0)
        monkeypatch.setattr("common.retrieval.search.candidates._PENDING_PER_QUERY", 4)
    if request.param == "several passes":
        monkeypatch.setattr(CONSTANTS + "_PENDING_BYTES", 4_000)
    return request.param


@pytest.mark.parametrize("similarity", SIMILARITIES)
@pytest.mark.parametrize("with_gallery", [False, True])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_neighbours_equal_the_oracle(path, similarity, with_gallery, dtype):
    queries = clustered(150, 8, 12, seed=0, dtype=dtype)
    gallery = clustered(220, 8, 12, seed=1, dtype=dtype) if with_gallery else None
    search = find_nearest_neighbors(queries, gallery, num_neighbors=7, similarity=similarity)
    np.testing.assert_array_equal(search, oracle(queries, gallery, similarity, 7))


@pytest.mark.parametrize("similarity", SIMILARITIES)
@pytest.mark.parametrize("with_gallery", [False, True])
def test_ties_and_duplicates_go_by_index(path, similarity, with_gallery):
    rng = np.random.default_rng(2)
    queries = rng.integers(-1, 2, (120, 4)).astype(np.float32)
    gallery = rng.integers(-1, 2, (90, 4)).astype(np.float32) if with_gallery else None
    for num_neighbors in (1, 5, 80):
        found = find_nearest_neighbors(queries, gallery, num_neighbors=num_neighbors, similarity=similarity)
        np.testing.assert_array_equal(found, oracle(queries, gallery, similarity, num_neighbors))


@pytest.mark.parametrize("scene", ["nearly collapsed", "far away", "outlier", "differences below float32"])
@pytest.mark.parametrize("similarity", SIMILARITIES)
def test_hard_scales_keep_the_exact_order(path, scene, similarity):
    embeddings = clustered(100, 6, 10, seed=3, dtype=np.float64)
    embeddings = {
        "nearly collapsed": lambda: np.float32(1 + 1e-6 * embeddings),
        "far away": lambda: np.float32(1e4 + embeddings),
        "outlier": lambda: np.float32(embeddings * np.where(np.arange(100) == 7, 1e6, 1)[:, np.newaxis]),
        "differences below float32": lambda: np.sign(embeddings) + 1e-10 * embeddings,
    }[scene]()
    found = find_nearest_neighbors(embeddings, num_neighbors=9, similarity=similarity)
    np.testing.assert_array_equal(found, oracle(embeddings, None, similarity, 9))


@pytest.mark.parametrize("with_gallery", [False, True])
def test_blocks_threads_and_classes_change_nothing(path, with_gallery):
    rng = np.random.default_rng(4)
    queries = np.r_[clustered(60, 5, 9, seed=4), rng.integers(-1, 2, (20, 5)).astype(np.float32)]
    gallery = rng.permutation(queries)[:50] if with_gallery else None
    num_neighbors = rng.integers(0, 12, len(queries))
    results = []
    for block_size, num_threads, num_classes in [(1, 1, 1), (7, 3, 5), (64, 2, 20), (4096, 1, 3)]:
        classes = rng.integers(0, num_classes, (2, 200))
        options = {"query_classes": classes[0], "gallery_classes": classes[1]}
        search = NeighborSearch(queries, gallery, block_size=block_size, num_threads=num_threads, **options)
        found = {}
        search.visit(
            num_neighbors,
            lambda rows, items, found=found: found.update(
                {row: [i for i in line if i >= 0] for row, line in zip(rows.tolist(), items.tolist())}
            ),
        )
        assert {row: len(items) for row, items in found.items()} == {
            row: number for row, number in enumerate(num_neighbors.tolist()) if number
        }
        results.append(found)
    assert all(result == results[0] for result in results)


def test_many_items_meet_thresholds_and_cuts():
    embeddings = clustered(3000, 16, 300, seed=5)
    found = find_nearest_neighbors(embeddings, num_neighbors=10)
    rows = np.arange(0, 3000, 37)
    distance = ((embeddings[rows, np.newaxis].astype(np.float64) - embeddings) ** 2).sum(axis=2)
    distance[np.arange(len(rows)), rows] = np.inf
    np.testing.assert_array_equal(found[rows], np.argsort(distance, axis=1, kind="stable")[:, :10])


def test_collapsed_embeddings_find_the_first_items_at_once():
    found = find_nearest_neighbors(np.ones((20_000, 3), np.float32), num_neighbors=3)
    np.testing.assert_array_equal(found[:4], [[1, 2, 3], [0, 2, 3], [0, 1, 3], [0, 1, 2]])
    assert (found[4:] == [0, 1, 2]).all()


def test_equal_hashes_of_different_rows_do_not_merge_them(monkeypatch):
    class SameWeights:
        def uniform(self, low, high, size):
            return np.ones(size)

    monkeypatch.setattr("common.retrieval.search.distinct_rows.np.random.default_rng", lambda seed: SameWeights())
    found = find_nearest_neighbors(np.float32([[1, 2], [2, 1], [3, 0], [2, 1], [-0.0, 1], [0.0, 1]]), num_neighbors=2)
    assert found.tolist() == [[1, 3], [3, 0], [1, 3], [1, 0], [5, 0], [4, 0]]


@pytest.mark.parametrize(
    ("gallery", "num_neighbors", "message"),
    [
        (None, 4, "num_neighbors.*at most 3"),
        (np.zeros((6, 2), np.float32), 7, "num_neighbors.*at most 6"),
        (np.eye(4), 1, "same dim"),
    ],
)
def test_what_cannot_be_searched_is_an_error(gallery, num_neighbors, message):
    with pytest.raises(InvalidInput, match=message):
        find_nearest_neighbors(np.eye(4, 2, dtype=np.float32), gallery, num_neighbors=num_neighbors)
