"""Named arrays in `.npz` files with a format version, atomic and never pickled."""

from __future__ import annotations

import os
import pathlib
import zipfile
from typing import BinaryIO

import numpy as np

from common.errors import InvalidInput, invalid
from common.files.atomic import write_atomically

FORMAT_VERSION = 1  # of results and of files of arrays
OTHER_VERSION = "Use the version that wrote it, or move the run's folder away to run it again."
_FORMAT_ENTRY = "format_version"  # in files of arrays; one without it has version 1
_LARGEST_UNPACKED, _LARGEST_RATIO = 100_000_000, 20  # bytes, and bytes of a byte of the archive


class DamagedFile(InvalidInput):
    """A file that was written completely and is now damaged."""


def write_arrays(
    path: str | os.PathLike, arrays: dict[str, np.ndarray], *, keep_as: str | os.PathLike | None = None
) -> None:
    """Write named arrays as an uncompressed `.npz` with a version, atomically.

    Objects are never pickled.

    Args:
        path: the file.
        arrays: by name.
        keep_as: as in `write_atomically`.
    """
    content = {**arrays, _FORMAT_ENTRY: np.array(FORMAT_VERSION)}

    def write(file: BinaryIO) -> None:
        # NumPy's stub takes each of the arrays for `allow_pickle`, too.
        np.savez(file, **content)  # type: ignore[arg-type]

    write_atomically(path, write, keep_as=keep_as)


def read_arrays(path: str | os.PathLike, *, cure: str | None = None) -> dict[str, np.ndarray]:
    """Read a file that `write_arrays` wrote.

    The archive's checksums reveal every changed byte of an array.

    Args:
        path: the file.
        cure: the remedy if it is damaged, a sentence; by default to delete the folder, and so to run it again.

    Raises:
        DamagedFile: the file is not whole; it is named.
        InvalidInput: another version of the code wrote it, or it is too large for the memory.
    """
    try:
        check_unpacked_size(path)
        with np.load(path, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
    except (FileNotFoundError, PermissionError):
        raise
    except Exception as error:
        if isinstance(error, MemoryError) and _is_whole(path):
            raise InvalidInput(f"{path} is too large for this machine's memory ({error}).") from error
        cure = cure or f"Delete {pathlib.Path(path).parent} and repeat the command that made it."
        raise DamagedFile(f"{path} cannot be read ({error}): it is damaged. {cure}") from error
    objection = format_objection(arrays.pop(_FORMAT_ENTRY, FORMAT_VERSION))
    if objection:
        raise InvalidInput(f"{path} {objection}. {OTHER_VERSION}")
    return arrays


def check_unpacked_size(path: str | os.PathLike) -> None:
    """Refuse a zip archive that would fill the memory; other files pass.

    Raises:
        InvalidInput: more than 100 MB, and more than twenty times the archive.
    """
    if not zipfile.is_zipfile(path):
        return
    with zipfile.ZipFile(path) as archive:
        unpacked = sum(entry.file_size for entry in archive.infolist())
    size = os.path.getsize(path)
    if unpacked > max(_LARGEST_UNPACKED, _LARGEST_RATIO * size):
        raise invalid(
            "archive",
            received=f"{os.fspath(path)}, whose {size:,} bytes unpack to {unpacked:,}",
            expected=f"at most {_LARGEST_RATIO} times as many",
            fix="It was made to fill the memory, or holds equal numbers only: write it without compression.",
        )


def _is_whole(path: str | os.PathLike) -> bool:
    """Check an archive's checksums, without allocating its arrays, whatever their stated sizes."""
    with zipfile.ZipFile(path) as archive:
        return archive.testzip() is None


def format_objection(version: object) -> str | None:
    """Return an objection to the stated format of a file, or `None`.

    Args:
        version: an integer, or an array `[]` of one, stated by a file of arrays or a result; may be anything.
    """
    version = np.asarray(version)
    if version.dtype.kind in "iu" and version.shape == () and version == FORMAT_VERSION:
        return None
    return f"has format {version.tolist()}, this version of the code reads {FORMAT_VERSION}"
