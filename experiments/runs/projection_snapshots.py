"""Snapshots of a run at the start of each projection problem: embeddings and representatives."""

from __future__ import annotations

import pathlib
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from common.files import write_arrays

if TYPE_CHECKING:
    from ccp_dml import Representatives


def snapshot_path(run: pathlib.Path, index: int) -> pathlib.Path:
    """Return the path of a projection problem's initial snapshot."""
    return run / f"problem{index}.npz"


def snapshot_recorder(
    run: pathlib.Path, embed_queries: Callable[[], np.ndarray]
) -> Callable[[int, np.ndarray | None, Representatives], None]:
    """Make an `on_problem_start` that saves embeddings, converged and next representatives."""

    def on_problem_start(index: int, converged: np.ndarray | None, chosen: Representatives) -> None:
        arrays = {"queries": embed_queries(), "chosen": chosen.embeddings}
        if converged is not None:
            arrays["converged"] = converged
        write_arrays(snapshot_path(run, index), arrays)

    return on_problem_start
