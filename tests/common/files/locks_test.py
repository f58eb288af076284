import errno
import fcntl
import os

import pytest

from common.errors import InvalidInput
from common.files import lock_file
from common.records import RunDirectory
from photo_search.index import EmbeddingIndex


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
