"""Locks of files between processes, released when their process ends."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import IO

import filelock

from common.errors import InvalidInput, invalid


def lock_file(file: IO, *, wait: bool = True) -> None:
    """Lock an open file until it is closed.

    Args:
        file: open for writing, as NFS needs it.
        wait: until other processes have released theirs.

    Raises:
        BlockingIOError: another process holds the lock and `wait` is false.
        InvalidInput: the file system has no locks.
    """
    try:
        is_locked = filelock.lock_descriptor(file.fileno(), blocking=wait)
    except OSError as error:
        expected = f"a place whose file system can lock files (flock says: {error.strerror})"
        fix = "Name a folder on a local disk, or have this one mounted with locks."
        raise invalid("place to write to", received=file.name, expected=expected, fix=fix) from error
    if not is_locked:
        raise BlockingIOError(f"{file.name} is locked by another process")


def is_locked(path: str | os.PathLike) -> bool:
    """Check whether a process holds a lock, without waiting or making the file."""
    try:
        with open(path, "r+" if os.access(path, os.W_OK) else "r") as file:  # NFS locks files open for writing only
            lock_file(file, wait=False)
    except BlockingIOError:
        return True
    except FileNotFoundError:
        return False
    return False


@contextlib.contextmanager
def hold_lock(path: str | os.PathLike, *, refusal: InvalidInput | None = None) -> Iterator[None]:
    """Lock a file, created if missing, during a `with` block.

    Args:
        path: the lock file.
        refusal: raised if another process holds the lock; None: wait.
    """
    with open(path, "a") as file:
        try:
            lock_file(file, wait=refusal is None)
        except BlockingIOError as error:
            raise refusal or error from None
        yield
