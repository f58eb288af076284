"""One projection problem after the other: when a problem ends, and with what the next one begins."""

from __future__ import annotations

import dataclasses
import math
from typing import Callable, Protocol

import numpy as np

from ccp_dml.class_representatives import Representatives, choose_representatives, covering_radii
from ccp_dml.projection_rules import ProjectionRules
from ccp_dml.proximal_term import ProximalTerm
from common.ops.checks import invalid
from common.training.callbacks import ResumableCallback, logged_metric


@dataclasses.dataclass
class ProjectionProblem:
    """The record of one projection problem.

    Attributes:
        index: which problem, from 0.
        start_step, end_step: update steps made before the problem and at its last evaluation.
        best: the best value of the metric in this problem; None before its first evaluation.
        covering_radius_before: mean over classes of the covering radius of the converged proxies of the problem before,
            over this problem's pools; None in the first problem.
        covering_radius_after: the same of the proxies that this problem began with.
    """

    index: int
    start_step: int
    end_step: int
    covering_radius_before: float | None
    covering_radius_after: float
    best: float | None = None

    @property
    def steps(self) -> int:
        """Update steps made in this problem."""
        return self.end_step - self.start_step

    def as_dict(self) -> dict:
        """JSON values of all attributes and `steps`."""
        return {**dataclasses.asdict(self), "steps": self.steps}


class RepresentedClasses(Protocol):
    """What `AlternatingProjections` asks of a loss; `ChanceConstrainedLoss` and `SampleBasedLoss` answer."""

    representatives_per_class: int

    def representatives(self) -> np.ndarray:
        """Present representatives, normalised, `[classes, representatives, dim]`."""

    def adopt(self, problem: int, chosen: Representatives) -> None:
        """Begins a problem from the chosen members of its pools."""


class AlternatingProjections(ResumableCallback):
    """Ends a projection problem when validation stops improving, and begins the next one from new proxies.

    When the metric has not improved for `patience` evaluations: weights and proxies become those of the problem's best
    evaluation, the target θ* of the proximal term becomes these weights, the pools of the next problem are embedded
    with them, and greedy k-center chooses the next proxies, repelled by the converged ones. The optimiser keeps its
    slots. The first problem begins when training does, with the weights that it finds there as θ*.

    It must stand after whatever puts the metric into the logs. Training ends by other means (`BestWeights`, the number
    of epochs); no problem is begun at that point. A training that is resumed from a checkpoint with this callback's
    state goes on bit for bit in the middle of a problem.

    Reference: thesis Algorithms 1 and 2 and section 3.2.4 (patience 3); erratum: the sign of the proximal term.

    Args:
        loss: gives and takes the representatives of the classes; `ChanceConstrainedLoss`.
        proximal_term: its target and rate are set here.
        embed_pools: from the index of a problem to embeddings `[classes, pool, dim]` by the present weights, a pure
            function of both; `ClassPools`.
        rules: see `ProjectionRules`.
        observe: called as `observe(index, converged, chosen)` when a problem begins, with the model as the problem
            finds it, the converged representatives of the problem before `[classes, representatives, dim]` (None at
            first) and the `Representatives` that it begins with; for records and pictures.

    Attributes:
        problems: the `ProjectionProblem` records so far, the present one last.

    Example:
        >>> pools = ClassPools(model.embed, examples, augmentation, pool_size=12, num_representatives=8, seed=0)
        >>> projections = AlternatingProjections(model.metric_loss, proximal_term, pools)
        >>> fit(model, ..., gradient_transforms=[proximal_term], extra_callbacks=[projections])
        >>> [problem.as_dict() for problem in projections.problems]
    """

    def __init__(
        self,
        loss: RepresentedClasses,
        proximal_term: ProximalTerm,
        embed_pools: Callable[[int], np.ndarray],
        rules: ProjectionRules | None = None,
        observe: Callable[[int, np.ndarray | None, Representatives], None] | None = None,
    ):
        super().__init__()
        self.loss, self.proximal_term, self.embed_pools = loss, proximal_term, embed_pools
        self.rules, self.observe = rules or ProjectionRules(), observe
        if self.rules.start_step and not getattr(loss, "starts_in_batch", False):
            expected = "0, or a loss with starts_in_batch=True that has something to compare with before"
            raise invalid("start_step", received=self.rules.start_step, expected=expected)
        self.problems: list[ProjectionProblem] = []
        self._best, self._waited, self._late_value = -math.inf, 0, 0.0
        self._best_weights: list[np.ndarray] = []
        self._steps, self._steps_of_epoch = 0, 0

    def on_train_begin(self, logs=None):
        if not self.problems:
            self.proximal_term.set_targets()  # of the right shapes for a checkpoint, whenever the problem begins
            self._set_rate()
            self._begin_first_problem()

    def on_epoch_begin(self, epoch, logs=None):
        self._steps_of_epoch = 0

    def on_train_batch_end(self, batch, logs=None):
        self._steps_of_epoch = batch + 1

    def on_epoch_end(self, epoch, logs=None):
        self._steps += self._steps_of_epoch
        if not self.problems:
            self._begin_first_problem()
            return
        value = self._read(logs)
        problem = self.problems[-1]
        problem.end_step = self._steps
        if value > self._best + self.rules.min_delta:
            self._best, self._waited, problem.best = value, 0, value
            self._best_weights = [np.array(weight) for weight in self.model.get_weights()]
        else:
            self._waited += 1
        if self._waited >= self.rules.patience and self._goes_on(epoch):
            self._begin_problem(previous=self._end_problem())

    def state(self) -> dict:
        """The records, and what has been seen of the present problem."""
        return {
            "problems": [dataclasses.asdict(problem) for problem in self.problems],
            "best": None if math.isinf(self._best) else self._best,
            "waited": self._waited,
            "late_value": self._late_value,
            "steps": self._steps,
        }

    def arrays(self) -> list[np.ndarray]:
        """θ*, then the best weights of the present problem."""
        return [*self.proximal_term.targets(), *self._best_weights]

    def restore(self, state: dict, arrays: list[np.ndarray]) -> None:
        """Goes on where `state` and `arrays` were taken."""
        self.problems = [ProjectionProblem(**problem) for problem in state["problems"]]
        self._best = -math.inf if state["best"] is None else state["best"]
        self._waited, self._late_value, self._steps = state["waited"], state["late_value"], state["steps"]
        num_targets = len(self.proximal_term.variables)
        self.proximal_term.set_targets(arrays[:num_targets])
        self._best_weights = list(arrays[num_targets:])
        self._set_rate()

    def _read(self, logs: dict | None) -> float:
        value = logged_metric(logs, self.rules.metric, self)
        if self.rules.reads_late:
            value, self._late_value = self._late_value, value
        return value

    def _begin_first_problem(self) -> None:
        if self._steps >= self.rules.start_step:
            self.proximal_term.set_targets()
            self._begin_problem(previous=None)

    def _goes_on(self, epoch: int) -> bool:
        if len(self.problems) == self.rules.max_problems:
            return False
        return not self.model.stop_training and epoch + 1 < self.params["epochs"]

    def _end_problem(self) -> np.ndarray:
        """θ* := the best weights; returns the best proxies. Leaves the model where the next problem begins."""
        last_weights = self.model.get_weights()
        self.model.set_weights(self._best_weights or last_weights)
        self.proximal_term.set_targets()
        converged = self.loss.representatives()
        if self.rules.continue_from == "last":
            self.model.set_weights(last_weights)
        return converged

    def _begin_problem(self, previous: np.ndarray | None) -> None:
        index = len(self.problems)
        pools = np.asarray(self.embed_pools(index))
        if pools.ndim != 3:
            raise invalid("embedded pools", received=pools.shape, expected="the shape [classes, pool, dim]")
        repelling = previous
        if previous is None and self.rules.first_centers == "origin":
            repelling = np.zeros_like(pools[:, :1])
        chosen = choose_representatives(pools, self.loss.representatives_per_class, repelling)
        self.loss.adopt(index, chosen)
        before = None if previous is None else float(covering_radii(pools, previous).mean())
        after = float(covering_radii(pools, chosen.embeddings).mean())
        self.problems.append(ProjectionProblem(index, self._steps, self._steps, before, after))
        self._best, self._waited, self._best_weights = -math.inf, 0, []
        self._set_rate()
        if self.observe is not None:
            self.observe(index, previous, chosen)

    def _set_rate(self) -> None:
        rate = self.proximal_term.rate if self.problems else 0.0
        if len(self.problems) == 1 and self.rules.first_rate is not None:
            rate = self.rules.first_rate
        self.proximal_term.current_rate.assign(rate)
