import errno
import functools
import io
import os
import re
import socket

import numpy as np
import pytest

from common.data.array_cache import cached_arrays
from common.data.image_jobs import run_image_jobs
from common.data.regular_files import contents_of, read_regular_file, regular_status
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


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("pipe", "a named pipe"),
        ("socket", "a socket"),
        ("folder", "a folder"),
        ("/dev/zero", "a device"),
        ("nothing", "No such file"),
        ("a\0b", "null"),
    ],
)
def test_what_is_no_file_is_named_at_once(tmp_path, monkeypatch, path, reason):
    monkeypatch.chdir(tmp_path)  # the name of a socket must be short
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind("socket")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    for read in (read_regular_file, regular_status):
        with pytest.raises(
            InvalidInput, match=f"{re.escape(repr(path)[1:])}, expected a file that can be read .*{reason}"
        ):
            read(str(tmp_path / path))
    assert reason in contents_of(str(tmp_path / path))


def test_every_job_is_done_once_and_all_that_fail_are_named():
    done = []

    def job(number):
        if number < 7:
            raise InvalidInput(f"image {number}.")
        done.append(number)

    run_image_jobs([functools.partial(done.append, number) for number in range(20)], "counting", 20)
    assert sorted(done) == list(range(20))
    done.clear()
    with pytest.raises(InvalidInput, match="image 0. image 1. image 2. image 3. image 4. And 2 more images."):
        run_image_jobs([functools.partial(job, number) for number in range(12)], "failing", 12)
    assert sorted(done) == [7, 8, 9, 10, 11]
    run_image_jobs([], "nothing", 0)
