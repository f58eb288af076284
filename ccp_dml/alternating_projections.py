"""A sequence of projection problems: their ends and their starting points."""

from __future__ import annotations

import dataclasses
import math
import sys
from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np
from tqdm import tqdm

from ccp_dml.class_representatives import Representatives, choose_representatives, covering_radii
from ccp_dml.projection_conditions import alternation_stopped, come_apart, fell_behind, pushed_share, started_early
from ccp_dml.projection_problem import CONVERGED, STOPPED, WENT_BACK, ProjectionProblem
from ccp_dml.projection_rules import ProjectionRules
from ccp_dml.proximal_term import ProximalTerm
from common.errors import invalid
from common.records import ResumableCallback
from common.training.callbacks import logged_metric


class HasRepresentatives(Protocol):
    """The interface that `AlternatingProjections` needs; `ChanceConstrainedLoss` and `SampleBasedLoss` have it."""

    representatives_per_class: int
    has_begun: bool  # whether a first problem has

    def representatives(self) -> np.ndarray:
        """Return the present representatives, normalised, `[classes, representatives, dim]`."""

    def start_problem(self, problem: int, chosen: Representatives) -> None:
        """Begin a problem from the chosen members of its pools."""


class AlternatingProjections(ResumableCallback):
    """Ends a projection problem when validation stops improving, then begins the next.

    A problem ends when the metric has not improved for `patience` evaluations. The weights and proxies of its best
    evaluation are restored. The target θ* of the proximal term becomes these weights, which also embed the pools of the
    next problem. Greedy k-center chooses the next proxies, repelled by the converged ones. The optimiser keeps its
    slots.

    The first problem begins with training and takes the weights that it finds as θ*. With `ProjectionRules.start_step`
    or `start_patience` it begins later, after the in-batch loss alone. With `ProjectionRules.goes_back`, θ* is that of
    the best problem so far.

    One line on stderr, and a note in the problem's record, reports each condition that is not met: the first problem
    begins before the in-batch loss has converged or falls more than a point behind it, or proxies and samples come
    apart (`projection_conditions`).

    Put it after the callback that writes the metric to the logs. Training ends by other means (`BestWeights`, the
    number of epochs); no problem begins at that point. A run resumed from a checkpoint with this callback's state
    continues bit for bit in the middle of a problem.

    Reference: thesis Algorithms 1 and 2 and section 3.2.4 (patience 3); erratum: the sign of the proximal term.

    Args:
        loss: holds the representatives of the classes; `ChanceConstrainedLoss`.
        proximal_term: its target and rate are set here.
        embed_pools: from the index of a problem to embeddings `[classes, pool, dim]` by the present weights, a pure
            function of both; `ClassPools`.
        rules: see `ProjectionRules`.
        on_problem_start: called as `on_problem_start(index, converged, chosen)` when a problem begins, with the model
            as the problem finds it, the converged representatives of the problem before, `[classes, representatives,
            dim]` (None at first), and the `Representatives` that it begins with; for records and pictures.
        in_batch_values: `rules.metric` at each evaluation of an earlier training that ended in the present weights, of
            the in-batch loss alone. The first problem is compared with the best of them.

    Attributes:
        problems: the `ProjectionProblem` records so far, the present one last.

    Examples:
        >>> pools = ClassPools(model.embed, examples, augmentation, pool_size=12, num_representatives=8, seed=0)
        >>> projections = AlternatingProjections(model.metric_loss, proximal_term, pools)
        >>> fit(model, ..., gradient_transforms=[proximal_term], extra_callbacks=[projections])
        >>> [problem.as_dict() for problem in projections.problems]
    """

    def __init__(
        self,
        loss: HasRepresentatives,
        proximal_term: ProximalTerm,
        embed_pools: Callable[[int], np.ndarray],
        rules: ProjectionRules | None = None,
        on_problem_start: Callable[[int, np.ndarray | None, Representatives], None] | None = None,
        in_batch_values: Sequence[float] = (),
    ) -> None:
        super().__init__()
        self.loss, self.proximal_term, self.embed_pools = loss, proximal_term, embed_pools
        self.rules, self.on_problem_start = rules or ProjectionRules(), on_problem_start
        if self.rules.waits and not getattr(loss, "warm_up_in_batch", False):
            name = "start_step" if self.rules.start_step else "start_patience"
            expected = "none, or a loss with warm_up_in_batch=True that has something to compare with before"
            raise invalid(name, received=getattr(self.rules, name), expected=expected)
        self.problems: list[ProjectionProblem] = []
        self._in_batch = list(in_batch_values)  # the metric before the first problem
        self._best, self._waited, self._evaluations, self._late_value = -math.inf, 0, 0, 0.0
        self._best_weights: list[np.ndarray] = []
        self._target_weights: list[np.ndarray] = []  # all weights where those of θ* were taken
        self._steps, self._steps_of_epoch = 0, 0
        self._has_come_apart = False  # said once

    @property
    def holds_selection(self) -> bool:
        """True while the first problem waits for the in-batch loss to converge."""
        return self.rules.start_patience is not None and not self.problems

    def on_train_begin(self, logs: dict | None = None) -> None:
        if not self.problems:
            self.proximal_term.set_targets()  # of the right shapes for a checkpoint, whenever the problem begins
            self._set_rate()
            if not self.rules.waits:
                self._keep_target_weights()
                self._begin_problem(previous=None, best_before=max(self._in_batch, default=None))

    def on_epoch_begin(self, epoch: int, logs: dict | None = None) -> None:
        self._steps_of_epoch = 0

    def on_train_batch_end(self, batch: int, logs: dict | None = None) -> None:
        self._steps_of_epoch = batch + 1

    def on_epoch_end(self, epoch: int, logs: dict | None = None) -> None:
        self._steps += self._steps_of_epoch
        if not self.problems:
            self._train_in_batch(epoch, logs)
        elif self.problems[-1].outcome != STOPPED:
            self._train_on_proxies(epoch, logs)

    def state(self) -> dict:
        """Return the records and the progress of the present problem."""
        return {
            "problems": [dataclasses.asdict(problem) for problem in self.problems],
            "best": None if math.isinf(self._best) else self._best,
            "waited": self._waited,
            "evaluations": self._evaluations,
            "num_best_weights": len(self._best_weights),
            "in_batch": self._in_batch,
            "late_value": self._late_value,
            "steps": self._steps,
            "has_come_apart": self._has_come_apart,
        }

    def arrays(self) -> list[np.ndarray]:
        """Return θ*, the present problem's best weights, then all weights at θ*."""
        return [*self.proximal_term.targets(), *self._best_weights, *self._target_weights]

    def restore(self, state: dict, arrays: list[np.ndarray]) -> None:
        """Resume from a `state` and its `arrays`."""
        self.problems = [ProjectionProblem(**problem) for problem in state["problems"]]
        self.loss.has_begun = bool(self.problems)
        self._best = -math.inf if state["best"] is None else state["best"]
        self._waited, self._late_value, self._steps = state["waited"], state["late_value"], state["steps"]
        num_targets = len(self.proximal_term.variables)
        self._has_come_apart = state.get("has_come_apart", False)
        # The first checkpoints, of rules by which no problem goes back, had nothing of these three.
        self._evaluations, self._in_batch = state.get("evaluations", 0), list(state.get("in_batch", []))
        end_of_best = num_targets + state.get("num_best_weights", len(arrays) - num_targets)
        self.proximal_term.set_targets(arrays[:num_targets])
        self._best_weights, self._target_weights = list(arrays[num_targets:end_of_best]), list(arrays[end_of_best:])
        self._set_rate()

    def _read(self, logs: dict | None) -> float:
        value = logged_metric(logs, self.rules.metric, self)
        if self.rules.evaluates_one_late:
            value, self._late_value = self._late_value, value
        return value

    def _train_in_batch(self, epoch: int, logs: dict | None) -> None:
        """Process an evaluation of the in-batch loss; start problem 0 if due."""
        value = logged_metric(logs, self.rules.metric, self)
        self._in_batch.append(value)
        self._watch(value, keeps_weights=self.rules.start_patience is not None)
        has_converged = self._waited >= (self.rules.start_patience or 0)
        if self._steps < self.rules.start_step or not has_converged or not self._is_running(epoch):
            return
        if self.rules.start_patience is not None:
            value = self._best
            self.model.set_weights(self._best_weights)
        self.proximal_term.set_targets()
        self._keep_target_weights()
        self._begin_problem(previous=None, best_before=value)

    def _train_on_proxies(self, epoch: int, logs: dict | None) -> None:
        """Process one evaluation of the present problem; start the next if converged."""
        value = self._read(logs)
        problem = self.problems[-1]
        problem.end_step = self._steps
        self._evaluations += 1
        if self._watch(value, keeps_weights=self.rules.problem_steps is None):
            problem.best = value
        is_over = self._waited >= self.rules.patience
        if self.rules.problem_steps is not None:
            is_over = problem.steps >= self.rules.problem_steps
        elif problem.index == 0 and self._evaluations == self.rules.patience and self._in_batch:
            self._note(fell_behind(self.rules.metric, value, self._evaluations, max(self._in_batch)))
        may_end = len(self.problems) != self.rules.max_problems and self._is_running(epoch)
        if may_end and is_over:
            self._follow(problem)

    def _watch(self, value: float, keeps_weights: bool = True) -> bool:
        """Return whether a value is the best so far.

        If so, keep its weights; if not, count one more evaluation without improvement.
        """
        is_best = value > self._best + self.rules.min_delta
        if not is_best:
            self._waited += 1
            return False
        self._best, self._waited = value, 0
        if keeps_weights:
            self._best_weights = [np.array(weight) for weight in self.model.get_weights()]
        return True

    def _is_running(self, epoch: int) -> bool:
        """Return whether training goes on after an epoch, which only `fit` can say."""
        epochs = (self.params or {}).get("epochs", math.inf)
        return not getattr(self.model, "stop_training", False) and epoch + 1 < epochs

    def _follow(self, problem: ProjectionProblem) -> None:
        """Begin the next problem from the better of best weights and θ*."""
        if not self.rules.goes_back or problem.best_before is None or self._best >= problem.best_before:
            problem.outcome = CONVERGED
            best = self._best
            self._begin_problem(self._end_problem(), best_before=best)
            return
        problem.outcome = WENT_BACK
        has_proxies = any(earlier.outcome == CONVERGED for earlier in self.problems)  # θ* is not the in-batch loss'
        num_failures = self._num_failures()
        is_last = num_failures == self.rules.max_failures
        if is_last:
            problem.outcome = STOPPED
            self._note(alternation_stopped(self.rules.metric, num_failures, self._best, problem.best_before))
        if has_proxies or not is_last:
            self.model.set_weights(self._target_weights)
        if not is_last:
            self._begin_problem(self.loss.representatives() if has_proxies else None, problem.best_before)

    def _num_failures(self) -> int:
        """Count the problems in a row, up to the last, that went back."""
        outcomes = [problem.outcome for problem in reversed(self.problems)]
        return next((count for count, outcome in enumerate(outcomes) if outcome != WENT_BACK), len(outcomes))

    def _end_problem(self) -> np.ndarray:
        """Set θ* to the best weights and return the best proxies.

        Leaves the model with the next problem's first weights.
        """
        last_weights = self.model.get_weights()
        self.model.set_weights(self._best_weights or last_weights)
        self.proximal_term.set_targets()
        self._keep_target_weights()
        converged = self.loss.representatives()
        if self.rules.continue_from == "last":
            self.model.set_weights(last_weights)
        return converged

    def _keep_target_weights(self) -> None:
        if self.rules.goes_back:
            self._target_weights = [np.array(weight) for weight in self.model.get_weights()]

    def _begin_problem(self, previous: np.ndarray | None, best_before: float | None) -> None:
        index = len(self.problems)
        pools = np.asarray(self.embed_pools(index))
        if pools.ndim != 3:
            raise invalid("embedded pools", received=pools.shape, expected="the shape [classes, pool, dim]")
        repelling = previous
        if previous is None and self.rules.first_centers == "origin":
            repelling = np.zeros_like(pools[:, :1])
        chosen = choose_representatives(pools, self.loss.representatives_per_class, repelling)
        if previous is None and self.rules.first_centers == "random":
            chosen = chosen._replace(embeddings=self.loss.representatives())
        self.loss.start_problem(index, chosen)
        before = None if previous is None else float(covering_radii(pools, previous).mean())
        after = float(covering_radii(pools, chosen.embeddings).mean())
        problem = ProjectionProblem(index, self._steps, self._steps, before, after, best_before=best_before)
        self.problems.append(problem)
        self._best, self._waited, self._evaluations, self._best_weights = -math.inf, 0, 0, []
        self._set_rate()
        if index == 0 and self.rules.start_patience is None and self.rules.problem_steps is None:
            self._note(started_early(self.rules.metric, self._in_batch))
        if previous is not None and not self._has_come_apart:
            sentence = come_apart(before, after, pushed_share(self.loss, pools, previous))
            self._has_come_apart = sentence is not None
            self._note(sentence)
        if self.on_problem_start is not None:
            self.on_problem_start(index, previous, chosen)

    def _note(self, sentence: str | None) -> None:
        """Report an unmet condition on stderr and in the present problem's record."""
        if sentence is not None:
            self.problems[-1].notes.append(sentence)
            tqdm.write(f"warning: {sentence}", file=sys.stderr)

    def _set_rate(self) -> None:
        rate = self.proximal_term.rate if self.problems else 0.0
        if len(self.problems) == 1 and self.rules.first_rate is not None:
            rate = self.rules.first_rate
        self.proximal_term.current_rate.assign(rate)
