import os
import re
import socket

import pytest

from common.data.regular_files import contents_of, read_regular_file, regular_status
from common.errors import InvalidInput


def test_files_and_links_to_files_are_read(tmp_path):
    (tmp_path / "a").write_bytes(b"contents")
    (tmp_path / "b").symlink_to("a")
    for name in ("a", "b"):
        assert read_regular_file(str(tmp_path / name)) == contents_of(str(tmp_path / name)) == b"contents"
        assert regular_status(str(tmp_path / name)).st_size == 8


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


def test_a_file_that_may_not_be_read_is_named(tmp_path, monkeypatch):
    def refuses(*arguments):
        raise PermissionError(13, "Permission denied")

    (tmp_path / "a").write_bytes(b"contents")
    monkeypatch.setattr("builtins.open", refuses)
    with pytest.raises(InvalidInput, match="a', expected a file that can be read .Permission denied"):
        read_regular_file(str(tmp_path / "a"))
