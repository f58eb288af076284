"""Safe reader of the pickles in CIFAR's Python archives; it runs no code."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable

import numpy as np

from common.errors import InvalidInput, invalid

_MOST_BYTES = 256 << 20  # the largest file of the archives has 155 MB
_BYTES_DTYPES = ("u1", "uint8", "|u1")


def read_plain_pickle(path: str) -> dict:
    """Read a pickled dictionary of numbers, texts, lists, dictionaries and byte arrays.

    Its keys are text. A pickle is a program; this interpreter knows no function of Python or NumPy. The three names
    that an array is stored with refer to stand-ins defined here, which accept unsigned bytes only. Any other name is an
    error.

    Args:
        path: of the file, at most 256 MiB.

    Returns:
        The dictionary, with uint8 arrays for arrays and text for byte strings.

    Raises:
        InvalidInput: the file is missing, damaged, or holds anything else.
    """
    try:
        if os.path.getsize(path) > _MOST_BYTES:
            raise pickle.UnpicklingError(f"more than {_MOST_BYTES:,} bytes")
        with open(path, "rb") as file:
            content = _plain(_PlainUnpickler(file, encoding="bytes").load())
    except Exception as error:  # noqa: BLE001 (a damaged pickle raises anything)
        raise _refused(path, f"{type(error).__name__}: {error}") from error
    if not isinstance(content, dict):
        raise _refused(path, f"it holds a {type(content).__name__}")
    return content


class _StoredType:
    """Stand-in for `numpy.dtype(...)`: unsigned bytes, or an error."""

    def __init__(self, name: str | bytes, *arguments: object) -> None:
        if _text(name) not in _BYTES_DTYPES:
            raise pickle.UnpicklingError(f"an array of {name!r}, not of unsigned bytes")

    def __setstate__(self, state: tuple) -> None:
        pass  # byte order and alignment, which bytes do not have


class _StoredArray:
    """Stand-in for an array, which is stored as an empty one and a state."""

    array = None

    def __init__(self, *arguments: object) -> None:
        pass  # the class, shape (0,) and type of the empty array

    def __setstate__(self, state: tuple) -> None:
        _, shape, stored_type, is_fortran, contents = state
        if not isinstance(stored_type, _StoredType) or is_fortran or not isinstance(contents, bytes):
            raise pickle.UnpicklingError("an array that is not one of bytes in C order")
        self.array = np.frombuffer(contents, np.uint8).reshape([int(size) for size in shape])


class _PlainUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Callable:
        if name == "_reconstruct" and module in ("numpy.core.multiarray", "numpy._core.multiarray"):
            return _StoredArray
        if module == "numpy" and name in ("ndarray", "dtype"):
            return _StoredArray if name == "ndarray" else _StoredType
        if (module, name) in (("_codecs", "encode"), ("codecs", "encode")):
            return _encode_bytes  # how newer Pythons store byte strings in old protocols
        raise pickle.UnpicklingError(f"{module}.{name}, which is not read because it could run code")


def _encode_bytes(text: str | bytes, encoding: str | bytes) -> bytes:
    if _text(encoding) not in ("latin1", "latin-1"):
        raise pickle.UnpicklingError(f"a text in the encoding {encoding!r}")
    return _text(text).encode("latin1")


def _text(value: object) -> str:
    return value.decode("latin1") if isinstance(value, bytes) else str(value)


def _plain(value: object) -> np.ndarray | dict | list | str | float:
    """Replace stand-ins by arrays, and byte strings by text."""
    if isinstance(value, _StoredArray):
        if value.array is None:
            raise pickle.UnpicklingError("an array without contents")
        return value.array
    if isinstance(value, dict):
        return {_text(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_plain(inner) for inner in value]
    if isinstance(value, bytes):
        return _text(value)
    if isinstance(value, (str, int, float)):
        return value
    raise pickle.UnpicklingError(f"a {type(value).__name__}")


def _refused(path: str, reason: str) -> InvalidInput:
    return invalid(
        "file of CIFAR",
        received=path,
        expected=f"a complete file of the Python version that holds plain values only ({reason})",
        fix="Use the binary version of the data set, which holds bytes only, or extract the archive again.",
    )
