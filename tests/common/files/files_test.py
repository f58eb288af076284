import errno
import fcntl
import os
import pathlib
import re
import threading
import zipfile

import numpy as np
import pytest

from common.errors import InvalidInput
from common.files import (
    Array,
    Maybe,
    Number,
    check_output_file,
    check_output_folder,
    check_unpacked_size,
    checked,
    lock_file,
    read_arrays,
    read_json,
    target_of,
    write_arrays,
    write_atomically,
    write_json,
    write_text,
)
from common.records import RunDirectory
from photo_search.index import EmbeddingIndex
from tests.common.files.huge_array import state_huge_array


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_a_failed_write_leaves_the_old_file_and_no_temporary_one(tmp_path, error):
    path = tmp_path / "value.json"
    write_json(path, {"a": 1})

    def fail(file):
        file.write(b"half")
        raise error

    with pytest.raises(type(error)) as raised:
        write_atomically(path, fail)
    assert getattr(raised.value, "filename", str(path)) == str(path)
    assert read_json(path) == {"a": 1}
    assert [entry.name for entry in tmp_path.iterdir()] == ["value.json"]


@pytest.mark.parametrize(("umask", "mode"), [(0o022, 0o644), (0o002, 0o664), (0o077, 0o600)])
def test_who_may_read_a_file_is_what_the_umask_says(tmp_path, umask, mode):
    before = os.umask(umask)
    try:
        write_json(tmp_path / "value.json", {"a": 1})
    finally:
        os.umask(before)
    assert (tmp_path / "value.json").stat().st_mode & 0o777 == mode


def test_a_link_leads_to_its_target_and_a_file_keeps_its_mode(tmp_path):
    (tmp_path / "folder").mkdir()
    target, link = tmp_path / "folder" / "value.json", tmp_path / "latest.json"
    link.symlink_to(target)
    write_text(link, "new")  # of a link that leads to nothing yet
    target.chmod(0o600)
    write_text(link, "newer")
    assert link.is_symlink()
    assert (target.read_text(), target.stat().st_mode & 0o777) == ("newer", 0o600)
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["latest.json", "value.json"]


def test_a_pipe_is_written_into_and_never_replaced(tmp_path):
    pipe, read = tmp_path / "pipe", []
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: read.append(pipe.read_text()), daemon=True)
    reader.start()
    write_text(pipe, "text")
    reader.join(10)
    assert read == ["text"]
    assert pipe.is_fifo()
    with pytest.raises(InvalidInput, match="output: received .*pipe', expected a file"):
        target_of(pipe)
    check_output_file("--csv", str(pipe))


def test_a_full_device_is_named():
    with pytest.raises(OSError, match="No space") as raised:
        write_text("/dev/full", "text")
    assert raised.value.filename == "/dev/full"


def test_a_file_that_cannot_be_made_is_named_as_the_user_knows_it(tmp_path, monkeypatch):
    def fail(source, target):
        raise OSError(30, "Read-only file system", source)

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="Read-only") as raised:
        write_text(tmp_path / "x.html", "text")
    assert raised.value.filename == str(tmp_path / "x.html")


def test_what_cannot_become_a_file_or_a_folder_is_refused(tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "folder")
    for name in ("folder", "link"):
        with pytest.raises(InvalidInput, match=f"output: received .*{name}', expected a file"):
            write_text(tmp_path / name, "text")
        with pytest.raises(InvalidInput, match=f"--csv: received .*{name}', expected a file, and this is a folder"):
            check_output_file("--csv", str(tmp_path / name))
        check_output_folder("--output", str(tmp_path / name))
    with pytest.raises(InvalidInput, match="--csv: .*expected a file in a folder that exists"):
        check_output_file("--csv", str(tmp_path / "nowhere" / "x.csv"))
    write_text(tmp_path / "file", "text")
    with pytest.raises(InvalidInput, match="--output: .*expected a folder, and this is a file"):
        check_output_folder("--output", str(tmp_path / "file"))
    for path in ("file", "new"):
        check_output_file("--csv", str(tmp_path / path))
    check_output_folder("--output", str(tmp_path / "new"))


def test_the_standard_output_keeps_what_stands_there(tmp_path, capfd):
    stdout = tmp_path / "stdout"  # as /dev/stdout, which this test must not touch
    stdout.symlink_to("/proc/self/fd/1")
    print("before")
    write_text(stdout, "{}\n")
    print("after")
    assert capfd.readouterr().out == "before\n{}\nafter\n"
    assert pathlib.Path(stdout).is_symlink()


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


def test_nan_is_refused(tmp_path):
    with pytest.raises(ValueError, match="JSON compliant"):
        write_json(tmp_path / "value.json", {"a": float("nan")})


@pytest.mark.parametrize("text", ["[" * 10**5, "9" * 5000, '{"status": "finished"}]', "NaN"])
def test_odd_json_is_damaged_and_no_error(tmp_path, text):
    (tmp_path / "result.json").write_text(text)
    assert read_json(tmp_path / "result.json") is None


SHARE, COUNT = Number(float, 0, 1), Number(int, 0)
PAIR = {"first": Array("f", ("rows", 2), -1, 1), "second": Maybe(Array("iu", ("rows",), 0, 5))}


@pytest.mark.parametrize(
    ("value", "description"),
    [
        *((value, SHARE) for value in (0, 1, 0.5, 1 + 1e-12)),
        *((value, int) for value in (-3, 10**20)),
        ({"a": 1, "b": "x", "other": []}, {"a": int, "b": re.compile("x+"), "c": Maybe(str)}),
        ({"a": 1, "note": "x"}, {str: float, "note": Maybe(str)}),
        ({"a": None}, {"a": Maybe([int])}),
        ([[1, True]], [(COUNT, bool)]),
        ({"first": np.zeros((3, 2)), "second": np.arange(3)}, PAIR),
        ({"first": np.zeros((0, 2), np.float16)}, PAIR),
        (np.array(["x", "y"]), Array("U", ("rows",))),
    ],
)
def test_what_is_described_is_given_back(value, description):
    assert checked(value, description, "x.json") is value


@pytest.mark.parametrize(
    ("value", "description", "message"),
    [
        *((value, SHARE, f"x.json: received {value}, expected a number from 0 to 1") for value in (-0.1, 1.1, True)),
        *((value, float, f"x.json: received {value}, expected a number") for value in (float("nan"), float("inf"))),
        (10**400, float, "x.json: received 10{59}..., expected a number"),
        *((value, COUNT, f"x.json: received {value}, expected an integer from 0") for value in (-1, 1.0, False)),
        ("x" * 100, int, "x.json: received 'x{59}..., expected an integer"),
        ({"a": {"b": [1, "2"]}}, {"a": {"b": [int]}}, "x.json, a b 1: received '2', expected an integer"),
        ({}, {"a": {"b": int}}, "x.json, a: received nothing, expected an object"),
        ({"a": None}, {"a": Maybe(int, is_null_allowed=False)}, "x.json, a: received None, expected an integer"),
        ({"a": "x"}, {str: float, "note": str}, "x.json, a: received 'x', expected a number"),
        ([1], [(int, int)], "x.json, 0: received 1, expected a list of 2"),
        ([[1]], [(int, int)], r"x.json, 0: received \[1\], expected a list of 2"),
        ("c", {"a", "b"}, "x.json: received 'c', expected one of a, b"),
        ("xy", re.compile("x+"), r"x.json: received 'xy', expected a text like x\+"),
        (np.arange(2), Array("f", (2,)), r"x.json: received int64 \[2\] from 0 to 1, expected floating-point \[2\]"),
        ({"first": np.zeros((3, 1))}, PAIR, r"first: .*, expected floating-point \[rows = 3, 2\] from -1"),
        ({"first": np.array([[0, np.nan]])}, PAIR, "first: received .* from nan to nan"),
        ({"first": np.array([[0, 1.1]])}, PAIR, "first: received .* from 0.0 to 1.1"),
        (
            {"first": np.zeros((3, 2)), "second": np.arange(4)},
            PAIR,
            r"second: .*, expected integer \[rows = 3\] from 0 to",
        ),
        ({"first": np.zeros((3, 2)), "second": np.arange(4, 7)}, PAIR, "second: received int64 .* from 4 to 6"),
        ({"first": [[0, 0]]}, PAIR, r"first: received \[\[0, 0\]\], expected floating-point"),
    ],
)
def test_the_first_part_that_differs_is_named(value, description, message):
    with pytest.raises(InvalidInput, match=f"Invalid .*{message}.*[.] Make it again[.]$"):
        checked(value, description, "x.json", fix="Make it again.")


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.EOPNOTSUPP])
def test_a_file_system_without_locks_is_named(tmp_path, monkeypatch, number):
    from experiments.rows.store import locked

    def refuse(file, kind):
        raise OSError(number, os.strerror(number))

    run = RunDirectory(tmp_path / "run", {})
    monkeypatch.setattr(fcntl, "flock", refuse)
    for writer in (
        lambda: EmbeddingIndex.build([[1.0]], ["a"]).save(tmp_path / "index"),
        lambda: run.locked().__enter__(),
        lambda: locked(tmp_path / "study").__enter__(),
    ):
        with pytest.raises(InvalidInput) as raised:
            writer()
        said = str(raised.value)
        assert str(tmp_path) in said
        assert f"flock says: {os.strerror(number)}" in said
        assert "another process" not in said


def test_a_lock_ends_with_its_file(tmp_path):
    with open(tmp_path / "lock", "w") as first, open(tmp_path / "lock", "w") as second:
        lock_file(first, wait=False)
        with pytest.raises(BlockingIOError):
            lock_file(second, wait=False)
        first.close()
        lock_file(second, wait=False)
