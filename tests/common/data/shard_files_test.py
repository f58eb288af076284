import io
import zlib

import numpy as np
import pytest

from common.data.shard_files import RECORD, read_records, write_shard

IMAGES = [(b"a" * 16, b"first"), (b"b" * 13 + b"\0b\0", b"second one"), (b"\0" * 16, b"3")]


@pytest.fixture
def shard(tmp_path):
    path = tmp_path / "shard.bin"
    with open(path, "wb") as file:
        write_shard(file, IMAGES)
    return path


def test_contents_come_first_and_the_table_says_where(shard):
    records = read_records(shard)
    assert records.dtype == RECORD
    assert records["length"].tolist() == [5, 10, 1]
    assert records["checksum"].tolist() == [zlib.crc32(contents) for _, contents in IMAGES]
    np.testing.assert_array_equal(records["key"], np.array([key for key, _ in IMAGES], "S16"))
    assert shard.read_bytes().startswith(b"firstsecond one3")


def test_a_shard_cut_off_anywhere_is_damaged(shard):
    contents = shard.read_bytes()
    for length in range(len(contents)):
        shard.write_bytes(contents[:length])
        assert isinstance(read_records(shard), str)


def test_a_changed_byte_of_the_table_is_seen(shard):
    contents = bytearray(shard.read_bytes())
    for place in range(16, len(contents)):
        contents[place] ^= 1
        shard.write_bytes(contents)
        assert isinstance(read_records(shard), str), place
        contents[place] ^= 1


def test_lost_and_added_images_are_seen(shard):
    contents = shard.read_bytes()
    for other in (contents[5:], b"more" + contents):
        shard.write_bytes(other)
        assert read_records(shard) == "its size is not that of its images"
    shard.write_bytes(contents[-20:])
    assert read_records(shard) == "its beginning is missing"


def test_a_shard_without_images_is_whole(tmp_path):
    file = io.BytesIO()
    write_shard(file, [])
    (tmp_path / "empty.bin").write_bytes(file.getvalue())
    assert len(read_records(tmp_path / "empty.bin")) == 0
