"""Locks of files between processes, released when their process ends."""

from __future__ import annotations

import fcntl
from typing import IO

from common.errors import invalid


def lock_file(file: IO, *, wait: bool = True, shared: bool = False) -> None:
    """Lock an open file until it is closed.

    Args:
        file: open for writing, as NFS needs it for a lock that is not shared.
        wait: until other processes have released theirs.
        shared: other processes may hold a shared lock, too.

    Raises:
        BlockingIOError: another process holds the lock and `wait` is false.
        InvalidInput: the file system has no locks.
    """
    kind = (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | (0 if wait else fcntl.LOCK_NB)
    try:
        fcntl.flock(file, kind)
    except BlockingIOError:
        raise
    except OSError as error:
        expected = f"a place whose file system can lock files (flock says: {error.strerror})"
        fix = "Name a folder on a local disk, or have this one mounted with locks."
        raise invalid("place to write to", received=file.name, expected=expected, fix=fix) from error
