"""The shard format: contents of many images, then their table, then a footer.

A shard is one file, so it appears at once, and its table belongs to it:

- the images' contents, without gaps;
- one record of `RECORD` for each, in the same order;
- the name of the format, the number of images, and the CRC-32 of the records.

A file that was cut off has lost its end, and is recognised by that.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Sequence
from typing import BinaryIO

import numpy as np

RECORD = np.dtype([("key", "S16"), ("length", "<u4"), ("checksum", "<u4")])  # checksum: CRC-32 of the contents
_END = struct.Struct("<8sQL")
_FORMAT = b"imgshrd1"


def write_shard(file: BinaryIO, images: Sequence[tuple[bytes, bytes]]) -> None:
    """Write a shard.

    Args:
        file: empty, open for writing.
        images: a key of up to 16 bytes and the contents of each.
    """
    for _, contents in images:
        file.write(contents)
    records = np.array([(key, len(contents), zlib.crc32(contents)) for key, contents in images], RECORD).tobytes()
    file.write(records)
    file.write(_END.pack(_FORMAT, len(images), zlib.crc32(records)))


def read_records(path: str | os.PathLike) -> np.ndarray | str:
    """Read a shard's table, `[images]` of `RECORD`, or describe the file's damage.

    Raises:
        OSError: the file cannot be read.
    """
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        file.seek(max(0, size - _END.size))
        end = file.read()
        if len(end) != _END.size or not end.startswith(_FORMAT):
            return "its end is missing"
        _, count, checksum = _END.unpack(end)
        start = size - _END.size - count * RECORD.itemsize
        if start < 0:
            return "its beginning is missing"
        file.seek(start)
        stored = file.read(count * RECORD.itemsize)
    if zlib.crc32(stored) != checksum:
        return "its table does not fit its checksum"
    records = np.frombuffer(stored, RECORD)
    return records if records["length"].sum(dtype=np.int64) == start else "its size is not that of its images"
