import re

import numpy as np
import pytest

from common.errors import InvalidInput
from common.files import DamagedFile, write_arrays
from common.training.test_embeddings import read_test_embeddings

WHOLE = {
    "queries": np.eye(3, 4, dtype=np.float32),
    "query_labels": np.arange(3),
    "query_families": np.zeros(3, int),
    "gallery": np.ones((2, 4)),
    "gallery_labels": np.arange(2),
}
CURE = "Repeat the command that trained this run: it rebuilds the file from the weights"


@pytest.mark.parametrize("names", [("queries", "query_labels"), tuple(WHOLE)])
def test_what_was_written_is_read(tmp_path, names):
    arrays = {name: WHOLE[name] for name in names}
    write_arrays(tmp_path / "test_embeddings.npz", arrays)
    found = read_test_embeddings(tmp_path)
    assert found.keys() == arrays.keys()
    for name, array in arrays.items():
        np.testing.assert_array_equal(found[name], array)


@pytest.mark.parametrize(
    "changes",
    [
        {"queries": None},
        {"gallery_labels": None},
        {"query_labels": np.arange(4)},
        {"queries": np.array(["a", "b", "c"])},
        {"queries": np.ones(3)},
        {"queries": np.full((3, 4), np.nan)},
        {"query_families": np.arange(2)},
        {"gallery": np.full((2, 4), np.inf)},
    ],
)
def test_arrays_that_do_not_fit_are_told_with_the_cure(tmp_path, changes):
    arrays = {name: array for name, array in {**WHOLE, **changes}.items() if array is not None}
    write_arrays(tmp_path / "test_embeddings.npz", arrays)
    kind = "gallery" if "gallery" in next(iter(changes)) else "queries"
    of_families = "query_families" in changes
    held = r"integer query_families \[items\]" if of_families else rf"finite {kind} \[items, dim\] and integer .*"
    message = rf"test_embeddings\.npz does not hold {held}: it is damaged\. {CURE}"
    with pytest.raises(DamagedFile, match=message):
        read_test_embeddings(tmp_path)


def test_a_missing_and_a_damaged_file_are_told_with_the_cure(tmp_path):
    with pytest.raises(
        DamagedFile, match=rf"test_embeddings\.npz is missing\. {CURE}.*delete {re.escape(str(tmp_path))}"
    ):
        read_test_embeddings(tmp_path)
    (tmp_path / "test_embeddings.npz").write_bytes(b"PK\x03\x04 cut off")
    with pytest.raises(DamagedFile, match=rf"test_embeddings\.npz cannot be read .*it is damaged\. {CURE}"):
        read_test_embeddings(tmp_path)


def test_another_format_is_refused_and_not_called_damaged(tmp_path):
    np.savez(tmp_path / "test_embeddings.npz", **WHOLE, format_version="two")
    with pytest.raises(InvalidInput, match="has format two, this version of the code reads 1") as raised:
        read_test_embeddings(tmp_path)
    assert not isinstance(raised.value, DamagedFile)
