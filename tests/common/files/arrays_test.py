import zipfile

import numpy as np
import pytest

from common.errors import InvalidInput
from common.files import check_unpacked_size, read_arrays, write_arrays
from tests.common.files.huge_array import state_huge_array


def test_arrays_round_trip_without_pickle(tmp_path):
    arrays = {"x": np.arange(6.0).reshape(2, 3), "text": np.array("héllo")}
    write_arrays(tmp_path / "a.npz", arrays)
    loaded = read_arrays(tmp_path / "a.npz")
    assert loaded.keys() == arrays.keys()
    np.testing.assert_array_equal(loaded["x"], arrays["x"])
    assert str(loaded["text"]) == "héllo"


def test_an_archive_that_would_fill_the_memory_is_refused(tmp_path):
    path = tmp_path / "a.npz"
    np.savez_compressed(path, a=np.arange(1000.0), b=np.zeros(2_000_000))  # legal: at most 100 MB
    assert read_arrays(path)["b"].shape == (2_000_000,)
    check_unpacked_size(tmp_path / "missing.npz")
    with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("c.npy", bytes(90_000_000))
    with pytest.raises(InvalidInput, match=r"bytes unpack to 106,0.*at most 20 times as many"):
        check_unpacked_size(path)
    with pytest.raises(InvalidInput, match="unpack to"):
        read_arrays(path)


@pytest.mark.parametrize("version", [0, 2, "one", 1.0, [1, 1], [], -1, 10**9])
def test_whatever_a_file_states_as_its_format_is_told(tmp_path, version):
    np.savez(tmp_path / "a.npz", a=np.ones(2), format_version=np.array(version))
    with pytest.raises(InvalidInput, match=r"a\.npz has format .*, this version of the code reads 1\. Use the version"):
        read_arrays(tmp_path / "a.npz")


def test_a_whole_file_that_needs_more_than_the_memory_is_one_message(tmp_path):
    path = tmp_path / "a.npz"
    path.write_bytes(b"PK\x03\x04 not an archive")
    with pytest.raises(InvalidInput, match=r"a\.npz cannot be read"):
        read_arrays(path)
    write_arrays(path, {"a": np.zeros(100000)})
    with zipfile.ZipFile(path) as archive:
        (tmp_path / "a.npy").write_bytes(archive.read("a.npy"))
    state_huge_array(tmp_path / "a.npy")
    with zipfile.ZipFile(path, "w") as archive:
        archive.write(tmp_path / "a.npy", "a.npy")
    with pytest.raises(InvalidInput, match=r"a\.npz is too large for this machine's memory \(Unable to allocate 36\.4"):
        read_arrays(path)
