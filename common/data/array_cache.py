"""Arrays that take long to build, cached in a file."""

from __future__ import annotations

import logging
import os
import zipfile
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from common.data.image_jobs import cannot_write_cache
from common.files import write_atomically

_UNREADABLE = (OSError, ValueError, EOFError, KeyError, zipfile.BadZipFile, zlib.error, NotImplementedError)
_log = logging.getLogger(__name__)


def cached_arrays(
    cache_dir: str | os.PathLike, name: str, keys: Sequence[str], build: Callable[[], dict[str, np.ndarray]]
) -> dict[str, np.ndarray]:
    """Return the arrays in `<cache_dir>/<name>.npz`; build a missing or damaged file.

    The file appears at once: a killed process leaves no partial file, and concurrent builds do not interfere.

    Args:
        cache_dir: directory of the cache; made when missing.
        name: file name without its ending; includes all that the arrays depend on, such as a version.
        keys: names of the arrays that the file must have.
        build: makes the arrays, by name.

    Raises:
        InvalidInput: the directory cannot be written (or its disk is full).
    """
    path = Path(cache_dir) / f"{name}.npz"
    if path.is_file():
        try:
            with np.load(path, allow_pickle=False) as file:
                return {key: file[key] for key in keys}
        except _UNREADABLE as error:
            _log.warning("%s is damaged and is rebuilt (%s: %s)", path, type(error).__name__, error)
    arrays = build()
    try:
        # NumPy's stub takes each of the arrays for `allow_pickle`, too.
        write_atomically(path, lambda file: np.savez_compressed(file, **arrays))  # type: ignore[arg-type]
    except OSError as error:
        raise cannot_write_cache(error) from error
    return arrays
