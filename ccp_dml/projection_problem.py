"""Record of a projection problem, and its initial snapshot: embeddings and representatives."""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from common.files import write_arrays

if TYPE_CHECKING:
    from ccp_dml.class_representatives import Representatives

CONVERGED, WENT_BACK, STOPPED = "converged", "went back", "alternation stopped"


@dataclasses.dataclass
class ProjectionProblem:
    """The record of one projection problem.

    Attributes:
        index: which problem, from 0.
        start_step, end_step: update steps made before the problem and at its last evaluation.
        covering_radius_before: mean over classes of the covering radius of the converged proxies that the problem
            replaces, over this problem's pools; None without such proxies.
        covering_radius_after: the same of the proxies that this problem began with.
        best: the best value of the metric in this problem; None before its first evaluation.
        best_before: the value at θ*, near which it began; None if not evaluated.
        outcome: `converged`: θ* of the next one is its best; `went back`: the next one begins from the same θ*, see
            `ProjectionRules.goes_back`; `alternation stopped`: the same, and there is no next one. None: it is the
            present one, or training ended in it.
        notes: conditions of the method that were not met, in sentences; see `projection_conditions`.
    """

    index: int
    start_step: int
    end_step: int
    covering_radius_before: float | None
    covering_radius_after: float
    best: float | None = None
    best_before: float | None = None
    outcome: str | None = None
    notes: list[str] = dataclasses.field(default_factory=list)

    @property
    def steps(self) -> int:
        """The number of update steps in this problem."""
        return self.end_step - self.start_step

    def as_dict(self) -> dict:
        """Return all attributes and `steps` as JSON values."""
        return {**dataclasses.asdict(self), "steps": self.steps}


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
