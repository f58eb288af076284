"""Records that a run keeps at the start of each projection problem."""

from __future__ import annotations

import pathlib
from collections.abc import Callable

import numpy as np

from ccp_dml import Representatives
from common.training import write_arrays


def problem_path(run: pathlib.Path, index: int) -> pathlib.Path:
    """Where a run keeps what was there when a problem began."""
    return run / f"problem{index}.npz"


def problem_recorder(
    run: pathlib.Path, embed_queries: Callable[[], np.ndarray]
) -> Callable[[int, np.ndarray | None, Representatives], None]:
    """An `observe` for `AlternatingProjections`: embeddings of the test set, converged and next representatives.

    Args:
        run: the run's folder.
        embed_queries: the test set by the present weights, `[queries, dim]`.
    """

    def observe(index: int, converged: np.ndarray | None, chosen: Representatives) -> None:
        arrays = {"queries": embed_queries(), "chosen": chosen.embeddings}
        if converged is not None:
            arrays["converged"] = converged
        write_arrays(problem_path(run, index), arrays)

    return observe
