"""A stream with a bound, for archives that unpack to more than allowed."""

from __future__ import annotations

import io

from common.errors import InvalidInput, invalid

_LARGEST_READ = 64 << 20  # far more than a header; contents are read in blocks


class BoundedReader:
    """The stream methods that `tarfile` needs, for a compressed stream of unknown length.

    `tarfile` reads extended headers into memory whole, at any stated length, and skips contents by seeking.

    Args:
        stream: the stream to read.
        num_bytes: the last position that may be reached.
        name: of the archive, for the error.

    Raises:
        InvalidInput: from `read` and `seek`, beyond the bound.
    """

    def __init__(self, stream: io.BufferedIOBase, num_bytes: int, name: str) -> None:
        self._stream, self._num_bytes, self.name = stream, num_bytes, name

    def read(self, size: int = -1) -> bytes:
        """Read the next `size` bytes."""
        if not 0 <= size <= _LARGEST_READ:
            raise self._too_much(f"a header of {size:,} bytes")
        self._check_position(self._stream.tell() + size)
        return self._stream.read(size)

    def seek(self, position: int, whence: int = 0) -> int:
        """Move to a position from the start."""
        if whence == 0:
            self._check_position(position)
        return self._stream.seek(position, whence)

    def tell(self) -> int:
        """Return the present position."""
        return self._stream.tell()

    def _check_position(self, position: int) -> None:
        if position > self._num_bytes + _LARGEST_READ:
            raise self._too_much(f"{position:,} or more bytes")

    def _too_much(self, received: str) -> InvalidInput:
        return invalid(
            f"archive {self.name}",
            received=received,
            expected=f"at most {self._num_bytes:,} bytes when unpacked",
            fix="It is not the published archive, or it was made to do harm. Nothing was extracted.",
        )
