"""Start and end of projection problems: the rules of thesis and published code."""

from __future__ import annotations

import dataclasses
from typing import Any

from common.errors import check_choice, check_non_negative, check_positive, invalid

CONTINUE_FROM = ("best", "last")
FIRST_CENTERS = ("sample", "origin", "random")


@dataclasses.dataclass(frozen=True)
class ProjectionRules:
    """Settings that the thesis leaves open or its published code changes.

    The defaults are the thesis recipe.

    Attributes:
        metric: the log entry to maximise.
        patience: evaluations without improvement after which a problem ends, > 0.
        min_delta: the smallest change that counts as an improvement, >= 0.
        continue_from: the next problem begins from the weights of the problem's `best` evaluation, which also embed
            its pools, or from the `last` weights; θ* and the proxies that repel are the best ones in both cases.
        first_centers: the first proxies are chosen beginning with a random `sample` of each class, or with the sample
            that is farthest from the `origin`; or they stay the `random` ones of the loss, a control.
        start_step: the first problem begins at the first evaluation after this many update steps, with the weights of
            that moment as θ*. Until then the in-batch loss trains alone, and λ is 0. The thesis uses 0, since its
            networks are pre-trained; embeddings of an untrained network make useless proxies.
        start_patience: the first problem begins when the in-batch loss has converged: when the metric has not improved
            for this many evaluations, and not before `start_step`. It begins from the weights of the best evaluation,
            which are θ*, and a run selects from no earlier evaluation. None: at `start_step`.
        first_rate: λ of the first problem; None: as in all others.
        evaluates_one_late: each evaluation sees the metric of the one before it (0 at first).
        max_problems: the most problems; None: as many as training has time for. With 1, the proxies are
            never replaced (thesis figure 3.7a, "Loss-Proxy").
        goes_back: a problem that ends with a lower metric than the one of θ* leaves weights, proxies and θ* as they
            were there, and the next one begins again from them. θ* is then that of the best problem so far, or of the
            in-batch loss before the first one if evaluated. The thesis and its code continue from a
            worse problem as from a better one, which at their learning rate of 1e-5 does little harm.
        problem_steps: each problem ends at the first evaluation after this many update steps, and the next one begins
            from its last weights, whatever the metric; for training without validation classes. None: by the metric.
        max_failures: no problem begins after this many in a row that went back. Training continues with the proxies of
            θ*, or of the last problem if none beat the in-batch loss. None: no limit.

    Raises:
        InvalidInput: a value is out of its range, `max_failures` without `goes_back`, or `goes_back` with
            `problem_steps`.
    """

    metric: str = "MAP@R"
    patience: int = 3
    min_delta: float = 1e-5
    continue_from: str = "best"
    first_centers: str = "sample"
    start_step: int = 0
    first_rate: float | None = None
    evaluates_one_late: bool = False
    max_problems: int | None = None
    start_patience: int | None = None
    goes_back: bool = False
    max_failures: int | None = None
    problem_steps: int | None = None

    def __post_init__(self) -> None:
        check_positive("projection_patience", self.patience)
        check_non_negative("min_delta", self.min_delta)
        check_non_negative("start_step", self.start_step)
        check_choice("continue_from", self.continue_from, CONTINUE_FROM)
        check_choice("first_centers", self.first_centers, FIRST_CENTERS)
        if self.first_rate is not None:
            check_non_negative("first_rate", self.first_rate)
        for name in ("max_problems", "start_patience", "max_failures", "problem_steps"):
            if getattr(self, name) is not None:
                check_positive(name, getattr(self, name))
        if self.max_failures is not None and not self.goes_back:
            raise invalid("max_failures", received=self.max_failures, expected="None, or goes_back=True beside it")
        if self.goes_back and self.problem_steps is not None:
            raise invalid("problem_steps", received=self.problem_steps, expected="None with goes_back=True")

    @property
    def waits(self) -> bool:
        """True if the in-batch loss begins alone."""
        return self.start_step > 0 or self.start_patience is not None

    @classmethod
    def published_code(cls, **changes: Any) -> ProjectionRules:
        """Return the rules of the published code, with `changes` to single ones."""
        switches = {"continue_from": "last", "first_centers": "origin", "first_rate": 0.0, "evaluates_one_late": True}
        return cls(**{**switches, **changes})
