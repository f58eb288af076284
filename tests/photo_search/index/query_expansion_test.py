import numpy as np
import pytest

from common.errors import InvalidInput
from photo_search.index import EmbeddingIndex, QueryExpansion, expand_queries
from photo_search.index.similarity import unit_rows


@pytest.mark.parametrize("alpha", [0.0, 1.0, 3.0])
def test_equals_the_formula(alpha):
    rng = np.random.default_rng(0)
    gallery, queries = unit_rows(rng.normal(size=(50, 5))), unit_rows(rng.normal(size=(4, 5)))
    index = EmbeddingIndex.build(gallery, range(50))
    cosines = queries @ gallery.T
    rows = np.argsort(-cosines)[:, :7]
    weights = np.maximum(np.take_along_axis(cosines, rows, axis=1), 0) ** alpha
    expanded = unit_rows(queries + np.einsum("qk,qkd->qd", weights, gallery[rows]))
    np.testing.assert_allclose(expand_queries(queries, gallery[rows], alpha), expanded, atol=1e-12)
    found = index.search(queries, 9, expansion=QueryExpansion(7, alpha))
    assert found.rows.tolist() == index.search(expanded, 9).rows.tolist()


@pytest.mark.parametrize("alpha", [0.0, 3.0])
def test_neighbors_on_the_other_side_have_no_weight(alpha):
    query, neighbors = np.float32([[1, 0]]), np.float32([[[-1, 0], [0, 1]]])
    np.testing.assert_array_equal(expand_queries(query, neighbors, alpha), query)
    with pytest.raises(InvalidInput, match="alpha"):
        expand_queries(query, neighbors, -1)
