import os
import pickle
import struct

import numpy as np
import pytest

from common.data.plain_pickle import read_plain_pickle
from common.errors import InvalidInput

CONTENT = {
    "data": np.arange(12, dtype=np.uint8).reshape(3, 4),
    "labels": [1, 2, 3],
    "name": "a text",
    "inner": {"share": 0.5, "flags": [True]},
}


class Evil:
    def __init__(self, function, *arguments):
        self.call = (function, arguments)

    def __reduce__(self):
        return self.call


def write(path, content, protocol=2):
    path.write_bytes(pickle.dumps(content, protocol=protocol))
    return str(path)


@pytest.mark.parametrize("protocol", [0, 1, 2, 3, 4])
def test_plain_values_are_read(tmp_path, protocol):
    content = read_plain_pickle(write(tmp_path / "file", CONTENT, protocol))
    np.testing.assert_array_equal(content.pop("data"), CONTENT["data"])
    assert content == {name: value for name, value in CONTENT.items() if name != "data"}


def test_byte_strings_become_text(tmp_path):
    assert read_plain_pickle(write(tmp_path / "file", {b"names": [b"caf\xe9"]}, 3)) == {"names": ["café"]}


@pytest.mark.parametrize("protocol", [0, 2, 4])
@pytest.mark.parametrize("function", [os.system, eval, os.mkdir, np.load, struct.pack])
def test_nothing_in_a_file_is_run(tmp_path, monkeypatch, function, protocol):
    monkeypatch.chdir(tmp_path)
    path = write(
        tmp_path / "file", {"labels": Evil(function, "touch evil" if function is os.system else "evil")}, protocol
    )
    with pytest.raises(InvalidInput, match="file.*which is not read because it could run code.*binary version"):
        read_plain_pickle(path)
    assert os.listdir(tmp_path) == ["file"]


@pytest.mark.parametrize(
    "array",
    [
        np.array([{"an": "object"}], dtype=object),
        np.arange(3.0),
        np.arange(3),
        np.asfortranarray(np.ones((3, 4), np.uint8)),
        np.array(["text"]),
    ],
)
def test_other_arrays_than_bytes_are_refused(tmp_path, array):
    with pytest.raises(InvalidInput, match=r"an array (of|that)|multiarray|could run code"):
        read_plain_pickle(write(tmp_path / "file", {"data": array}))


@pytest.mark.parametrize("content", [[1, 2], 5, None, {"a": None}, {"a": {1, 2}}, {"a": (1, 2)}])
def test_other_types_are_refused(tmp_path, content):
    with pytest.raises(InvalidInput, match="plain values only"):
        read_plain_pickle(write(tmp_path / "file", content))


@pytest.mark.parametrize("share", [0.0, 0.3, 0.95])
def test_truncated_files_are_named(tmp_path, share):
    path = write(tmp_path / "file", CONTENT)
    with open(path, "r+b") as file:
        file.truncate(int(os.path.getsize(path) * share))
    with pytest.raises(InvalidInput, match=f"{path}.*complete file"):
        read_plain_pickle(path)


def test_an_array_whose_contents_do_not_fit_its_shape_is_refused(tmp_path):
    raw = pickle.dumps({"data": np.zeros((3, 4), np.uint8)}, protocol=2)
    assert raw.count(b"K\x03K\x04\x86") == 1
    (tmp_path / "file").write_bytes(raw.replace(b"K\x03K\x04\x86", b"K\x63K\x04\x86"))
    with pytest.raises(InvalidInput, match="reshape"):
        read_plain_pickle(str(tmp_path / "file"))


def test_a_missing_file_and_one_that_is_too_large_are_refused(tmp_path, monkeypatch):
    with pytest.raises(InvalidInput, match="nowhere.*FileNotFoundError"):
        read_plain_pickle(str(tmp_path / "nowhere"))
    with open(tmp_path / "large", "wb") as file:
        file.truncate(300 << 20)
    with pytest.raises(InvalidInput, match="more than 268,435,456 bytes"):
        read_plain_pickle(str(tmp_path / "large"))
