import os
import pathlib
import threading

import pytest

from common.errors import InvalidInput
from common.files import read_json, target_of, write_atomically, write_json, write_text


def test_a_failed_write_leaves_the_old_file_and_no_temporary_one(tmp_path):
    path = tmp_path / "value.json"
    write_json(path, {"a": 1})

    def fail(file):
        file.write(b"half")
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space"):
        write_atomically(path, fail)
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


def test_the_standard_output_keeps_what_stands_there(tmp_path, capfd):
    stdout = tmp_path / "stdout"  # as /dev/stdout, which this test must not touch
    stdout.symlink_to("/proc/self/fd/1")
    print("before")
    write_text(stdout, "{}\n")
    print("after")
    assert capfd.readouterr().out == "before\n{}\nafter\n"
    assert pathlib.Path(stdout).is_symlink()
