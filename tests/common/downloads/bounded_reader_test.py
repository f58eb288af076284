import io

import pytest

from common.downloads import bounded_reader
from common.downloads.bounded_reader import BoundedReader
from common.errors import InvalidInput


@pytest.fixture
def reader(monkeypatch):
    monkeypatch.setattr(bounded_reader, "_LARGEST_READ", 8)
    return BoundedReader(io.BytesIO(bytes(range(100))), 10, "small.tar")


def test_reading_ends_at_the_bound_and_one_read_further(reader):
    assert [len(reader.read(6)) for _ in range(3)] == [6, 6, 6]
    assert reader.tell() == 18
    with pytest.raises(InvalidInput, match="archive small.tar: received '24 or more bytes', expected at most 10 bytes"):
        reader.read(6)


@pytest.mark.parametrize("size", [9, -1])
def test_one_read_is_small(reader, size):
    with pytest.raises(InvalidInput, match=f"a header of {size} bytes"):
        reader.read(size)


def test_nothing_beyond_the_bound_is_sought(reader):
    assert reader.seek(18) == 18
    with pytest.raises(InvalidInput, match="19 or more bytes"):
        reader.seek(19)
    assert reader.seek(-5, io.SEEK_END) == 95
