"""Where tests find real images: the folder that DML_TEST_DATA names, or `../shared/data` beside the repository."""

from __future__ import annotations

import os
import pathlib

VARIABLE = "DML_TEST_DATA"
_BESIDE = pathlib.Path(__file__).resolve().parents[3] / "shared" / "data"


def folder_of_real_data(variables=os.environ, beside: pathlib.Path = _BESIDE) -> pathlib.Path | None:
    """The folder, whether it exists or not where the variable is set; None where neither is there.

    Args:
        variables: of the environment.
        beside: what is taken where the variable is not set or empty, if it is a folder.
    """
    if variables.get(VARIABLE):
        return pathlib.Path(variables[VARIABLE])
    return beside if beside.is_dir() else None


def why_missing(name: str, folder: pathlib.Path | None) -> str:
    """The reason that a test gives when it skips."""
    if folder is None:
        return f"no real images: {VARIABLE} names no folder with {name}"
    return f"no real images at {folder / name} ({VARIABLE})"
