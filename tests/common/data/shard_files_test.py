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


def test_a_shard_cut_off_anywhere_or_changed_is_damaged(shard):
    contents = shard.read_bytes()
    changed = [contents[:length] for length in range(len(contents))]
    changed += [
        contents[:place] + bytes([contents[place] ^ 1]) + contents[place + 1 :] for place in range(16, len(contents))
    ]
    for other in changed:
        shard.write_bytes(other)
        assert isinstance(read_records(shard), str)
    for other in (contents[5:], b"more" + contents):
        shard.write_bytes(other)
        assert read_records(shard) == "its size is not that of its images"
    shard.write_bytes(contents[-20:])
    assert read_records(shard) == "its beginning is missing"
    with open(shard, "wb") as file:
        write_shard(file, [])
    assert len(read_records(shard)) == 0
