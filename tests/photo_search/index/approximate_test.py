import numpy as np
import pytest

from common.errors import InvalidInput
from photo_search.index import EmbeddingIndex
from photo_search.index.approximate import best_of, recall_of, without_own_row


@pytest.mark.parametrize("is_saved", [False, True])
def test_only_a_database_has_a_graph(is_saved, tmp_path):
    index = EmbeddingIndex.build(np.eye(3, dtype=np.float32), ["a", "b", "c"])
    if is_saved:
        index.save(tmp_path)
    with pytest.raises(InvalidInput, match="outside of a database.*exactly.*postgresql://"):
        index.build_approximate()
    assert index.approximate is None


def test_parts_by_hand():
    assert recall_of(np.array([[1, 2], [3, 4]]), np.array([[2, 9], [4, 3]])) == 0.75
    assert without_own_row(np.array([[5, 1, 2], [1, 2, 3]]), np.array([1, 7])).tolist() == [[5, 2], [1, 2]]
    gallery = np.float32([[1, 0], [0.6, 0.8], [0, 1], [1, 0]])
    rows = best_of(np.float32([[1, 0]]), gallery, np.array([[2, 3, -1, 0]]), 4, "cosine")
    assert rows.tolist() == [[0, 3, 2, -1]]
