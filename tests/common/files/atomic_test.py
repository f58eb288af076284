import os
import pathlib
import threading

import pytest

from common.errors import InvalidInput
from common.files import (
    check_output_file,
    check_output_folder,
    read_json,
    target_of,
    write_atomically,
    write_json,
    write_text,
)


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
