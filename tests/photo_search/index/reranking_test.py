import numpy as np
import pytest

from common.errors import InvalidInput
from photo_search.index import EmbeddingIndex, Reranking, k_reciprocal_distances
from photo_search.index.similarity import unit_rows


def by_sets(queries, gallery, k1, k2, weight):
    """The paper's definitions with Python sets and dictionaries."""
    items = np.concatenate([queries, gallery]).astype(np.float64)
    everything = range(len(items))
    distance = [[float(((items[i] - items[j]) ** 2).sum()) for j in everything] for i in everything]
    ranking = [sorted(everything, key=lambda j, i=i: (j != i, distance[i][j], j)) for i in everything]

    def near(item, k):
        return set(ranking[item][: k + 1])

    def reciprocal(item, k):
        return {other for other in near(item, k) if item in near(other, k)}

    encodings = []
    for item in everything:
        first = reciprocal(item, k1)
        expanded = set(first)
        for other in first:
            second = reciprocal(other, round(k1 / 2))
            if len(first & second) >= 2 / 3 * len(second):
                expanded |= second
        weights = {other: np.exp(-distance[item][other]) for other in expanded}
        total = sum(weights.values())
        encodings.append({other: value / total for other, value in weights.items()})
    averaged = []
    for item in everything:
        mean = dict.fromkeys(everything, 0.0)
        for other in ranking[item][:k2]:
            for place, value in encodings[other].items():
                mean[place] += value / min(k2, len(items))
        averaged.append(mean)
    found = np.empty((len(queries), len(gallery)))
    for q in range(len(queries)):
        for g in range(len(gallery)):
            left, right = averaged[q], averaged[len(queries) + g]
            smaller = sum(min(left[i], right[i]) for i in everything)
            larger = sum(max(left[i], right[i]) for i in everything)
            found[q, g] = (1 - weight) * (1 - smaller / larger) + weight * distance[q][len(queries) + g]
    return found


def clustered(count, seed, noise=0.5):
    rng = np.random.default_rng(seed)
    centers = np.random.default_rng(7).normal(size=(6, 8))
    return unit_rows(centers[np.arange(count) % 6] + noise * rng.normal(size=(count, 8)))


@pytest.mark.parametrize(
    ("k1", "k2", "weight"), [(8, 3, 0.3), (5, 1, 0.0), (7, 2, 0.0), (1, 2, 0.5), (100, 6, 0.3), (4, 4, 1.0)]
)
def test_equals_the_definitions(k1, k2, weight):
    queries, gallery = clustered(5, 0), clustered(42, 1)
    gallery[17] = gallery[11]
    found = k_reciprocal_distances(queries, gallery, k1=k1, k2=k2, original_weight=weight)
    np.testing.assert_allclose(found, by_sets(queries, gallery, k1, k2, weight), atol=1e-9)


def test_the_index_reranks_what_it_has_found():
    gallery, queries = clustered(80, 1).astype(np.float32), clustered(3, 0).astype(np.float32)
    index = EmbeddingIndex.build(gallery, range(80))
    candidates = index.search(queries, 30).rows
    found = index.search(queries, 12, reranking=Reranking(30, k1=6, k2=2, original_weight=0.1)).rows
    for query, rows, best in zip(queries, candidates, found):
        distances = by_sets(query[np.newaxis], gallery[rows], 6, 2, 0.1)[0]
        assert best.tolist() == rows[np.argsort(distances, kind="stable")][:12].tolist()


def test_bad_settings_are_named():
    items = clustered(5, 0)
    for options, phrase in (({"k1": 0}, "k1"), ({"k2": 0}, "k2"), ({"original_weight": 1.1}, "original_weight")):
        with pytest.raises(InvalidInput, match=phrase):
            k_reciprocal_distances(items, items, **options)
    with pytest.raises(InvalidInput, match="20001 items.*at most 20000"):
        k_reciprocal_distances(items[:1], np.ones((20_000, 8)))
