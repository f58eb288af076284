import numpy as np
import pytest

from common.retrieval.search.distinct_rows import find_distinct_rows


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("rows_at_once", [3, 10**6])
def test_groups_like_those_of_a_dictionary_of_tuples(dtype, rows_at_once, monkeypatch):
    """In the order of their first rows; zero and negative zero are equal."""
    monkeypatch.setattr("common.retrieval.search.similarity_bounds._ROWS_AT_ONCE", rows_at_once)
    embeddings = np.random.default_rng(0).integers(-1, 2, (300, 4)).astype(dtype)
    embeddings[::2] *= dtype(-1)  # which makes negative zeros
    expected = {}
    for row, embedding in enumerate(embeddings.tolist()):
        expected.setdefault(tuple(embedding), []).append(row)
    found = find_distinct_rows(embeddings)
    groups = [found.members[start:stop].tolist() for start, stop in zip(found.starts[:-1], found.starts[1:])]
    assert groups == list(expected.values())
    assert found.first.tolist() == [rows[0] for rows in groups]
    assert found.has_duplicates
    assert not find_distinct_rows(np.eye(5, dtype=dtype)).has_duplicates
