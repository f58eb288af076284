"""Record of a projection problem."""

from __future__ import annotations

import dataclasses

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
