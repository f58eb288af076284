import numpy as np
import pytest

from common.errors import InvalidInput
from common.retrieval.search.similarity_bounds import SIMILARITIES, SimilarityBounds


def embeddings_of(kind, rng, num_items, dim):
    embeddings = rng.standard_normal((num_items, dim))
    return {
        "unit": lambda: embeddings / np.linalg.norm(embeddings, axis=1, keepdims=True),
        "nearly collapsed": lambda: 1 + 1e-6 * embeddings,
        "far from the origin": lambda: 1e4 + embeddings,
        "one outlier": lambda: embeddings * np.where(np.arange(num_items) == 1, 1e6, 1)[:, np.newaxis],
        "tiny": lambda: 1e-30 * embeddings,
    }[kind]().astype(np.float32)


@pytest.mark.parametrize("similarity", SIMILARITIES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kind", ["unit", "nearly collapsed", "far from the origin", "one outlier", "tiny"])
def test_the_product_bounds_the_similarity_on_both_sides(similarity, dtype, kind):
    rng = np.random.default_rng(1)
    queries, gallery = embeddings_of(kind, rng, 20, 64), embeddings_of(kind, rng, 30, 64)
    bounds = SimilarityBounds(queries, gallery, similarity)
    left = bounds.factors(queries, np.arange(20), dtype)
    right = bounds.factors(gallery, np.arange(30), dtype)
    upper = (left.as_rows @ right.as_columns.T).astype(np.longdouble)
    slack = 2 * (np.outer(left.radius, right.radius) + left.margin[:, np.newaxis] + right.margin)
    wide_queries, wide_gallery = queries.astype(np.longdouble), gallery.astype(np.longdouble)
    if similarity == "euclidean":
        truth = -((wide_queries[:, np.newaxis] - wide_gallery) ** 2).sum(axis=2) / 2 / np.longdouble(bounds.scale) ** 2
    else:
        mean = bounds.mean.astype(np.longdouble)
        truth = (wide_queries @ wide_gallery.T - mean @ mean) / np.longdouble(bounds.scale) ** 2
        # Rows are compared, not pairs of rows: a constant for each query and its offset drop out of the order.
    assert (upper >= truth).all()
    assert (upper - slack <= truth).all()


@pytest.mark.parametrize("similarity", SIMILARITIES)
@pytest.mark.parametrize("dim", [3, 128, 1000])
def test_exact_values_do_not_depend_on_the_other_pairs(similarity, dim, monkeypatch):
    embeddings = np.random.default_rng(3).standard_normal((40, dim)).astype(np.float32)
    bounds = SimilarityBounds(embeddings, embeddings, similarity)
    left, right = np.repeat(np.arange(40), 40), np.tile(np.arange(40), 40)
    together = bounds.exact(left, right)
    monkeypatch.setattr("common.retrieval.search.similarity_bounds._PAIRS_AT_ONCE", 1)
    np.testing.assert_array_equal(bounds.exact(left, right), together)
    np.testing.assert_array_equal(together.reshape(40, 40), together.reshape(40, 40).T)


@pytest.mark.parametrize("factor", [1e200, 1e-200, 1e-310])
def test_squares_that_float64_cannot_hold_keep_their_order(factor):
    embeddings = np.array([[1.0], [2.0], [4.0]]) * factor
    values = SimilarityBounds(embeddings, embeddings, "euclidean").exact(np.array([0, 0]), np.array([1, 2]))
    assert values[1] / values[0] == pytest.approx(9)


@pytest.mark.parametrize(
    ("embeddings", "similarity", "message"),
    [
        *(
            (np.where(np.arange(40).reshape(20, 2) // 2 % 4 == 1, bad, 0.0), "euclidean", "row 1.*finite")
            for bad in (np.nan, np.inf, -np.inf)
        ),
        *(
            (wrong, "euclidean", r"non-empty float16, float32 or float64 array \[items, dim\]")
            for wrong in (np.zeros((2, 2), int), np.zeros(3), np.zeros((0, 4)), np.zeros((2, 2, 2)))
        ),
        (np.eye(2), "cosine", "euclidean, inner_product"),
    ],
)
def test_what_cannot_be_compared_is_named(embeddings, similarity, message, monkeypatch):
    monkeypatch.setattr("common.retrieval.search.similarity_bounds._ROWS_AT_ONCE", 8)
    with pytest.raises(InvalidInput, match=message):
        SimilarityBounds(np.zeros((2, 2), np.float32), embeddings, similarity)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_rounding_of_a_long_vectors_offset_is_allowed_for(dtype):
    gallery = np.random.default_rng(4).standard_normal((200, 64))
    query = gallery.mean(axis=0, keepdims=True)  # of length nothing: the offsets alone decide
    bounds = SimilarityBounds(query, gallery, "euclidean")
    left = bounds.factors(query, np.arange(1), dtype)
    right = bounds.factors(gallery, np.arange(200), dtype)
    upper = (left.as_rows @ right.as_columns.T).astype(np.longdouble)[0]
    truth = -((query - gallery).astype(np.longdouble) ** 2).sum(axis=1) / 2 / np.longdouble(bounds.scale) ** 2
    assert (upper >= truth).all()
    assert (upper - 2 * (left.radius * right.radius + left.margin + right.margin) <= truth).all()
