"""Optuna, an optional dependency, imported when a search begins."""

from __future__ import annotations

import functools
from types import ModuleType
from typing import Any

from common.errors import InvalidInput, invalid


@functools.cache
def optuna() -> ModuleType:
    """Return the library with its logging silenced."""
    try:
        import optuna as library
    except ImportError as error:
        raise InvalidInput(
            "A search needs Optuna, which is not installed: pip install -r requirements-tune.txt "
            "(or pip install 'deep-metric-learning[tune]')."
        ) from error
    library.logging.set_verbosity(library.logging.ERROR)
    return library


def open_storage(address: str) -> Any:
    """Open the storage at an address, such as `sqlite:///tune.db` or `postgresql://host/name`."""
    library = optuna()
    from sqlalchemy.exc import SQLAlchemyError

    try:
        return library.storages.RDBStorage(address)
    except (SQLAlchemyError, ImportError, ValueError) as error:
        said = str(error).strip().splitlines()[0]
        raise invalid(
            "--storage",
            received=f"{address!r} ({said})",
            expected="the address of a database, such as sqlite:///tune.db",
        ) from error
