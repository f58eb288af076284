"""Equal rows are found, bit for bit, and nothing else."""

import numpy as np
import pytest

from common.retrieval.search import distinct_rows
from common.retrieval.search.distinct_rows import find_distinct_rows


def groups(found):
    return [found.members[start:stop].tolist() for start, stop in zip(found.starts[:-1], found.starts[1:])]


def test_distinct_rows_stay_as_they_are():
    found = find_distinct_rows(np.eye(5, dtype=np.float32))
    assert not found.has_duplicates
    np.testing.assert_array_equal(found.first, np.arange(5))
    np.testing.assert_array_equal(found.sizes, np.ones(5))


def test_groups_follow_their_first_row_and_list_rows_in_order():
    found = find_distinct_rows(np.float32([[1, 2], [3, 4], [1, 2], [0, 0], [3, 4], [1, 2]]))
    assert found.has_duplicates
    assert groups(found) == [[0, 2, 5], [1, 4], [3]]
    np.testing.assert_array_equal(found.first, [0, 1, 3])


def test_zero_and_negative_zero_are_equal():
    assert groups(find_distinct_rows(np.float32([[0.0, 1.0], [-0.0, 1.0]]))) == [[0, 1]]


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("rows_at_once", [3, 10**6])
def test_many_equal_rows_like_a_dictionary_of_tuples(dtype, rows_at_once, monkeypatch):
    monkeypatch.setattr("common.retrieval.search.similarity_bounds._ROWS_AT_ONCE", rows_at_once)
    embeddings = np.random.default_rng(0).integers(-1, 2, (300, 4)).astype(dtype)
    expected = {}
    for row, embedding in enumerate(embeddings.tolist()):
        expected.setdefault(tuple(embedding), []).append(row)
    assert groups(find_distinct_rows(embeddings)) == list(expected.values())


def test_equal_hashes_of_different_rows_do_not_merge_them(monkeypatch):
    class SameWeights:
        def uniform(self, low, high, size):
            return np.ones(size)

    monkeypatch.setattr(distinct_rows.np.random, "default_rng", lambda seed: SameWeights())
    found = find_distinct_rows(np.float32([[1, 2], [2, 1], [3, 0], [2, 1]]))
    assert groups(found) == [[0], [1, 3], [2]]
