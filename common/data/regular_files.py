"""Reading of regular files; a pipe or device would block without end."""

from __future__ import annotations

import os
import stat

from common.errors import InvalidInput, invalid

_KINDS = (
    (stat.S_ISFIFO, "a named pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
    (stat.S_ISDIR, "a folder"),
)


def regular_status(path: str | os.PathLike) -> os.stat_result:
    """Return a file's status; links are followed.

    Raises:
        InvalidInput: there is no such file, or it is something else; it names it.
    """
    status = _status(path)
    if isinstance(status, str):
        raise unusable_image(path, f"a file that can be read ({status})")
    return status


def read_regular_file(path: str | os.PathLike) -> bytes:
    """Return the contents of a file.

    Raises:
        InvalidInput: it is no file, or cannot be read; it names it.
    """
    contents = contents_of(path)
    if isinstance(contents, str):
        raise unusable_image(path, f"a file that can be read ({contents})")
    return contents


def contents_of(path: str | os.PathLike) -> bytes | str:
    """Return a file's contents, or a phrase for why they cannot be read."""
    status = _status(path)
    if isinstance(status, str):
        return status
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        return error.strerror or str(error)


def _status(path: str | os.PathLike) -> os.stat_result | str:
    try:
        status = os.stat(path)
    except OSError as error:
        return error.strerror or str(error)
    except ValueError as error:  # a NUL byte
        return str(error)
    if stat.S_ISREG(status.st_mode):
        return status
    kind = next((name for is_kind, name in _KINDS if is_kind(status.st_mode)), "something else")
    return f"this is {kind}"


def unusable_image(name: str | os.PathLike, expected: str) -> InvalidInput:
    """Return the error about an image file."""
    fix = "Fetch or extract the file again, or take it out of the data set."
    return invalid("image file", received=name, expected=expected, fix=fix)
