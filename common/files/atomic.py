"""Files that a reader sees whole: written beside their place, flushed, and renamed."""

from __future__ import annotations

import contextlib
import os
import pathlib
import secrets
from collections.abc import Callable
from typing import BinaryIO


def write_atomically(
    path: str | os.PathLike, write: Callable[[BinaryIO], object], *, keep_as: str | os.PathLike | None = None
) -> None:
    """Calls `write(binary_file)` on a temporary file beside `path`, flushes it to disk and renames it over `path`.

    A reader, or a run that is killed at any moment, sees the old file or the new one, never a part of one. Who may
    read it is what the process' umask says, as for any new file: pages are served and caches are shared.

    Args:
        path: the file.
        write: writes the content.
        keep_as: the old file takes this name, once the new one is complete.
    """
    path = pathlib.Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}.tmp")
    try:
        with temporary.open("xb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        if keep_as is not None and path.exists():
            os.replace(path, keep_as)
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        raise
    _sync_folder(path.parent)


def _sync_folder(path: pathlib.Path) -> None:
    """Makes renames in a folder survive a power cut, where the file system can."""
    with contextlib.suppress(OSError):
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def write_text(path: str | os.PathLike, text: str) -> None:
    """Writes a text in UTF-8, atomically."""
    write_atomically(path, lambda file: file.write(text.encode()))
