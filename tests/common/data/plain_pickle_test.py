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


ARRAYS = r"an array (of|that)|multiarray|could run code"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"data": np.array([{"an": "object"}], dtype=object)}, ARRAYS),
        ({"data": np.arange(3.0)}, ARRAYS),
        ({"data": np.arange(3)}, ARRAYS),
        ({"data": np.asfortranarray(np.ones((3, 4), np.uint8))}, ARRAYS),
        ({"data": np.array(["text"])}, ARRAYS),
        *((other, "plain values only") for other in ([1, 2], 5, None, {"a": None}, {"a": {1, 2}}, {"a": (1, 2)})),
    ],
)
def test_other_values_than_plain_ones_and_arrays_of_bytes_are_refused(tmp_path, content, message):
    with pytest.raises(InvalidInput, match=message):
        read_plain_pickle(write(tmp_path / "file", content))


def test_damaged_missing_and_huge_files_are_named(tmp_path):
    path = tmp_path / "file"
    whole = pickle.dumps(CONTENT, protocol=2)
    for share in (0.0, 0.3, 0.95):
        path.write_bytes(whole[: int(len(whole) * share)])
        with pytest.raises(InvalidInput, match=f"{path}.*complete file"):
            read_plain_pickle(str(path))
    shape = b"K\x03K\x04\x86"
    assert whole.count(shape) == 1
    path.write_bytes(whole.replace(shape, b"K\x63K\x04\x86"))
    with pytest.raises(InvalidInput, match="reshape"):
        read_plain_pickle(str(path))
    os.truncate(path, 300 << 20)
    with pytest.raises(InvalidInput, match="more than 268,435,456 bytes"):
        read_plain_pickle(str(path))
    with pytest.raises(InvalidInput, match="nowhere.*FileNotFoundError"):
        read_plain_pickle(str(tmp_path / "nowhere"))
