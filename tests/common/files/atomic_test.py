"""A file is the old one or the new one, whatever happens while it is written."""

import os

import pytest

from common.files import read_json, write_atomically, write_json


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
