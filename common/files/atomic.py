"""Files that readers see whole: written beside their place, flushed, renamed."""

from __future__ import annotations

import contextlib
import hashlib
import os
import pathlib
import secrets
import stat
import sys
from collections.abc import Callable, Iterator
from typing import BinaryIO

from common.errors import invalid

_BLOCK = 1 << 20  # bytes read at once


def write_atomically(
    path: str | os.PathLike, write: Callable[[BinaryIO], object], *, keep_as: str | os.PathLike | None = None
) -> None:
    """Write a file by flushing and renaming a temporary one beside it.

    A reader, or a run that is killed at any moment, sees the old file or the new one, never a part. A new file has the
    permissions of the process' umask, since pages are served and caches are shared. An existing file keeps its mode and
    owner; a link is followed to its target. A device, a pipe and the standard output are written directly.

    Args:
        path: the file.
        write: writes the content into the binary file that it receives.
        keep_as: the name that the old file takes once the new one is complete.
    """
    stream = _opened_stream(path)
    if stream is not None:
        with errors_name(path), stream:
            write(stream)
        return
    target = target_of(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(8)}.tmp")
    try:
        with errors_name(path, instead_of=temporary):
            with temporary.open("xb") as file:
                _take_over(target, temporary)
                write(file)
                file.flush()
                os.fsync(file.fileno())
            if keep_as is not None and target.exists():
                os.replace(target, keep_as)
            os.replace(temporary, target)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        raise
    sync_folder(target.parent)


@contextlib.contextmanager
def errors_name(path: str | os.PathLike, instead_of: str | os.PathLike = "") -> Iterator[None]:
    """Name `path` in file errors without a file name, such as a full disk's.

    Errors that name `instead_of` name it, too.
    """
    try:
        yield
    except OSError as error:
        if error.filename is None or str(error.filename) == os.fspath(instead_of):
            error.filename = os.fspath(path)
        raise


def remove_temporary_files(folder: pathlib.Path, *, kept: str | None = None) -> None:
    """Remove files of processes that were killed while writing.

    The caller holds the folder's lock.

    Args:
        kept: a file that is also written without the lock.
    """
    for leftover in folder.glob(".*.tmp"):
        if kept is None or not leftover.name.startswith(f".{kept}"):
            leftover.unlink(missing_ok=True)


def target_of(path: str | os.PathLike) -> pathlib.Path:
    """Return the final target of a path's links.

    Raises:
        InvalidInput: it is a folder, or a device, a pipe or a socket, which a renamed file would destroy.
    """
    target = pathlib.Path(os.path.realpath(path))
    if target.exists() and not target.is_file():
        raise invalid("output", received=os.fspath(path), expected="a file, or a place where nothing is yet")
    return target


def check_output_file(name: str, path: str) -> None:
    """Raise `InvalidInput` unless a file can be written to `path`, without writing it.

    Args:
        name: of the flag.
    """
    place = pathlib.Path(os.path.realpath(path))
    if place.is_dir():
        raise invalid(name, received=path, expected="a file, and this is a folder")
    if place.exists() and not place.is_file():  # a device or a pipe
        return
    if not place.parent.is_dir():
        raise invalid(name, received=path, expected="a file in a folder that exists")
    if not os.access(place.parent, os.W_OK):
        raise invalid(name, received=path, expected="a file in a folder that can be written to")


def check_output_folder(name: str, path: str) -> None:
    """Raise `InvalidInput` if `path`, given by the flag `name`, is a file."""
    if os.path.lexists(path) and not os.path.isdir(path):
        raise invalid(name, received=path, expected="a folder, and this is a file")


def replace_file(complete: str | os.PathLike, path: str | os.PathLike) -> None:
    """Rename a complete file over `path`, whose mode and owner it takes.

    Args:
        complete: the new file.
        path: the old one, or a free name, from `target_of`.
    """
    _take_over(path, complete)
    os.replace(complete, path)


def _take_over(path: str | os.PathLike, temporary: str | os.PathLike) -> None:
    """Give a temporary file the mode and owner of another, if permitted."""
    with contextlib.suppress(OSError):
        found = os.stat(path)
        with contextlib.suppress(PermissionError):
            os.chown(temporary, found.st_uid, found.st_gid)
        os.chmod(temporary, found.st_mode & 0o777)


def _opened_stream(path: str | os.PathLike) -> BinaryIO | None:
    """Open a device, a pipe or a standard stream; return None otherwise.

    The standard output may be a file, too; later output must not overwrite this content.
    """
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return None
    for number, stream in ((1, sys.stdout), (2, sys.stderr)):
        with contextlib.suppress(OSError):  # closed
            if os.path.samestat(found, os.fstat(number)):
                stream.flush()
                return open(os.dup(number), "wb")
    return None if stat.S_ISREG(found.st_mode) or stat.S_ISDIR(found.st_mode) else open(path, "wb")


def sync_folder(path: pathlib.Path) -> None:
    """Flush renames in a folder to the disk, if possible."""
    with contextlib.suppress(OSError):
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def write_text(path: str | os.PathLike, text: str) -> None:
    """Write a text in UTF-8, atomically."""
    write_atomically(path, lambda file: file.write(text.encode("utf-8", "surrogateescape")))


def default_cache_dir() -> str:
    """Return the user's folder of caches, if `--cache_dir` gives no other."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(base, "deep_metric_learning")


def mark_used(folder: str | os.PathLike) -> None:
    """Set a cache folder's time to now, so that `experiments.clean` keeps it longest."""
    with contextlib.suppress(OSError):
        os.utime(folder)


def file_digest(path: str, algorithm: str = "sha256") -> str:
    """Return the hexadecimal digest of a file's contents."""
    digest = hashlib.new(algorithm, usedforsecurity=False)
    with open(path, "rb") as file:
        while block := file.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()
