import errno
import io

import numpy as np
import pytest

from common.data.array_cache import cached_arrays
from common.errors import InvalidInput


class _Builder:
    def __init__(self):
        self.num_calls = 0

    def __call__(self):
        self.num_calls += 1
        return {"values": np.arange(5000), "names": np.asarray(["a", "b"])}


def _read(cache_dir, build, name="things_v1"):
    return cached_arrays(cache_dir, name, ("values", "names"), build)


def test_arrays_are_built_once_for_each_name(tmp_path):
    build = _Builder()
    for _ in range(3):
        arrays = _read(tmp_path / "new" / "cache", build)
        assert arrays["values"].sum() == 5000 * 4999 // 2
        assert arrays["names"].tolist() == ["a", "b"]
    assert build.num_calls == 1
    _read(tmp_path / "new" / "cache", build, name="things_v2")
    assert build.num_calls == 2
    assert sorted(path.name for path in (tmp_path / "new" / "cache").iterdir()) == ["things_v1.npz", "things_v2.npz"]


def _flip_a_byte(content):
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 255]) + content[middle + 1 :]


def _others(**arrays):
    file = io.BytesIO()
    np.savez(file, **arrays)
    return lambda content: file.getvalue()


@pytest.mark.parametrize(
    "damage",
    [
        *(lambda content: b"", lambda content: b"no archive", lambda content: content[: len(content) // 2]),
        *(_flip_a_byte, _others(values=np.zeros(2)), _others(values=np.asarray([{}]), names=np.zeros(1))),
    ],
    ids=["empty", "foreign", "truncated", "one byte wrong", "an array is missing", "objects"],
)
def test_a_damaged_file_is_made_again(tmp_path, damage, caplog):
    build = _Builder()
    _read(tmp_path, build)
    path = tmp_path / "things_v1.npz"
    path.write_bytes(damage(path.read_bytes()))
    assert _read(tmp_path, build)["values"].tolist() == list(range(5000))
    assert "things_v1.npz is damaged and is rebuilt" in caplog.text
    _read(tmp_path, build)
    assert build.num_calls == 2


def test_a_full_disk_leaves_nothing_behind(tmp_path, monkeypatch):
    def fill_disk(file, **arrays):
        file.write(b"some of it")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(np, "savez_compressed", fill_disk)
    with pytest.raises(InvalidInput, match="No space left on device.*name another folder"):
        _read(tmp_path, _Builder())
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(
        InvalidInput, match=r"--cache_dir: received '.*file.*', expected a folder with room that can be written"
    ):
        _read(tmp_path / "file", _Builder())
