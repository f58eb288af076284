"""CCP as a method of a run."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal

import numpy as np

import ccp_dml
from ccp_dml.projection_problem import CONVERGED, snapshot_recorder
from common import losses, references
from common.errors import InvalidInput, check_given, invalid
from common.parameters import Count, CountOrZero, NotNegative
from common.training import method
from common.training.method import Attached, Final, LossInputs, MakeLoss, Passes, Prepared, Run, Work, whole_median

_PATIENCES_PER_PROBLEM = 3  # recorded problems with a patience of three validations last about nine


@dataclasses.dataclass(frozen=True, kw_only=True)
class Method(method.Method):
    """Chance-constrained proxies: alternating projections around a pair loss.

    Args:
        proxies_per_class: proxies per class.
        pool_size: images per class among which the next proxies are chosen.
        weight: weight of the proximal term (lambda).
        first_weight: that weight in the first problem.
        patience: validations without improvement that end a problem.
        in_batch_weight: weight of the ordinary in-batch loss beside the proxies'.
        start: update steps with the in-batch loss alone before the first problem.
        start_patience: the first problem begins, from the in-batch loss's best weights, after this number of
            validations without improvement, and not before `ccp_start`; 0: at `ccp_start`.
        goes_back: after a problem that ends below the one before, the next begins from that one's best again.
        max_failures: no problem begins after this number in a row that went back; 0: no limit.
        continue_from: a problem begins from the `best` or the `last` weights.
        first_centers: first proxies seeded by a `sample` per class or by the `origin`, or left `random`.
        reads_late: each validation is read one validation late.
        keeps_problems: keep the test embeddings of each problem's beginning.
        max_problems: most problems; 1 keeps the first proxies (default: no limit).
        problem_steps: a problem ends after this number of update steps, whatever the validation; for training on all
            classes.
    """

    relative_cost = 105 / 97  # thesis chapter 3: milliseconds a batch with and without

    proxies_per_class: Count
    pool_size: Count
    weight: NotNegative
    first_weight: NotNegative
    patience: Count
    in_batch_weight: NotNegative
    start: CountOrZero
    start_patience: CountOrZero | None = None
    goes_back: bool = False
    max_failures: CountOrZero | None = None
    continue_from: Literal["best", "last"]
    first_centers: Literal["sample", "origin", "random"]
    reads_late: bool
    keeps_problems: bool = False
    max_problems: Count | None = None
    problem_steps: Count | None = None

    def __post_init__(self) -> None:
        if self.max_failures and not self.goes_back:
            raise InvalidInput(
                f"--ccp_max_failures={self.max_failures} counts problems that went back, and without --ccp_goes_back "
                "none does: give --ccp_goes_back, too, or --ccp_max_failures=0."
            )

    def conflicts(self, config: Any) -> Iterator[InvalidInput]:  # noqa: ANN401
        """Yield losses, samplers and schedules that CCP does not go with."""
        yield from conflicts_of_loss(config.loss)
        if config.sampler_part.by_embeddings:
            fix = "CCP goes back to earlier weights in the middle of what its batches were chosen for."
            yield invalid(
                "--sampler", received=config.sampler, expected="one of labels alone with --method=ccp", fix=fix
            )
        if "heads" in config.loss.split("+"):
            yield InvalidInput(
                f"--method=ccp does not go with {config.loss}: one head has the proxies. Remove one of the two."
            )
        if config.feature_schedule == "in_turn":
            yield InvalidInput(
                "--method=ccp with --feature_schedule=in_turn would count each problem's validations over steps of "
                "another task. Give --feature_schedule=joint."
            )

    def check(self, run: Prepared) -> None:
        """Refuse settings with impossible pools or rules, without needing a model."""
        self._pools(_embeds_nothing, run)
        self.rules(run.metric)

    def wrap(self, make: MakeLoss, inputs: LossInputs) -> MakeLoss:
        """Compare with proxies of the classes."""
        waits = self.rules(inputs.metric).waits

        def around(dim: int, seed: int) -> losses.MetricLoss:
            loss, proxies = make(dim, seed), references.ProxyBank(inputs.num_classes, self.proxies_per_class, dim)
            return ccp_dml.ChanceConstrainedLoss(
                loss, proxies, in_batch_weight=self.in_batch_weight, warm_up_in_batch=waits
            )

        return around

    def attach(self, run: Run) -> Attached:
        """Return the proximal term, and the alternation with its record of problems."""
        model = run.model
        term = ccp_dml.ProximalTerm([*model.backbone.trainable_variables, *model.head.trainable_variables], self.weight)
        found = losses.loss_of_kind(model.metric_loss, ccp_dml.ChanceConstrainedLoss)
        size = model.feature_sizes[0] if model.feature_sizes else None  # the proxies are of the first feature
        pools = self._pools(lambda inputs: model.embed(inputs)[:, :size], run)
        recorder = snapshot_recorder(run.folder, run.embed_test) if self.keeps_problems else None
        projections = ccp_dml.AlternatingProjections(
            check_given("ChanceConstrainedLoss", found),
            term,
            pools,
            self.rules(run.metric),
            recorder,
            run.validated_before,
        )
        return Attached(
            [term], [projections], figures=lambda _: {"problems": [each.as_dict() for each in projections.problems]}
        )

    def passes(self, work: Work) -> Passes:
        """Return the images of the pools."""
        problem = _PATIENCES_PER_PROBLEM * self.patience * work.steps_per_evaluation
        return Passes(-(-(work.steps - self.start) // problem) * work.classes * self.pool_size)

    def final(self, rows: Sequence[Mapping[str, Any]], period: int) -> Final:
        """Return the start, number of problems and their steps: medians of the runs.

        Only steps that led to the selected weights count: not those after a problem's best, nor a problem that went
        back.
        """
        starts, lengths = zip(*(self._useful(row, period) for row in rows))
        if not any(lengths):
            raise invalid("--run", received="CCP whose problems led to no selected weights", expected="one that helped")
        start, steps = whole_median(starts, period), whole_median([np.mean(each) for each in lengths if each], period)
        count = max(1, math.ceil(np.median([len(each) for each in lengths])))
        chosen = (
            f"{start:,} of the in-batch loss and {count} problems of {steps:,}, medians of the steps that led to the "
            "weights that validation chose there"
        )
        fixed: dict[str, Any] = {
            "start_patience": None,
            "goes_back": False,
            "max_failures": None,
            "continue_from": "last",
        }
        fixed |= {"start": start, "problem_steps": steps, "max_problems": count}
        return Final(start + count * steps, chosen, fixed)

    def _useful(self, row: Mapping[str, Any], period: int) -> tuple[int, list[int]]:
        """Return a run's best step before the first problem, and each problem's useful steps."""
        problems, selected = row["extras"]["problems"], row["best_step"]
        if not problems:
            return selected, []
        begun = problems[0]["start_step"]
        waited = begun and self.start_patience
        start = max(period, begun - (self.start_patience or 0) * period) if waited else begun
        unused = self.patience * period if self.continue_from == "best" else 0
        lengths = []
        for problem in problems:
            if selected <= problem["start_step"]:
                break
            if selected <= problem["end_step"]:
                lengths.append(selected - problem["start_step"])
            elif problem.get("outcome") in (CONVERGED, None):  # the earliest runs have no outcomes
                lengths.append(max(period, problem["steps"] - unused))
        return start, lengths

    def rules(self, metric: str) -> ccp_dml.ProjectionRules:
        """Return the rules that begin and end problems by a validation metric."""
        return ccp_dml.ProjectionRules(
            metric=metric,
            patience=self.patience,
            continue_from=self.continue_from,
            first_centers=self.first_centers,
            start_step=self.start,
            start_patience=self.start_patience or None,
            first_rate=self.first_weight,
            evaluates_one_late=self.reads_late,
            max_problems=self.max_problems,
            goes_back=self.goes_back,
            max_failures=self.max_failures or None,
            problem_steps=self.problem_steps,
        )

    def _pools(self, embed: Callable[[Iterable], np.ndarray], run: Prepared) -> ccp_dml.ClassPools:
        of_run = run.training, run.augmentation
        return ccp_dml.ClassPools(embed, *of_run, self.pool_size, self.proxies_per_class, run.seed)


def conflicts_of_loss(name: str) -> Iterator[InvalidInput]:
    """Yield the words of a loss's name that CCP does not go with."""
    base, *words = name.split("+")
    if "pads" in words:
        yield InvalidInput(
            f"Invalid --loss with --method=ccp: received {base}+pads, whose policy adapts which negatives of a batch "
            "are drawn. Expected a loss without a miner: CCP compares with proxies, draws nothing, and goes back to "
            "earlier weights, so to an earlier distribution. Remove one of the two."
        )
    if "s2sd" in words:
        expected = "a loss without s2sd: CCP's proxies are those of one embedding"
        yield invalid("--loss with --method=ccp", received=f"{base}+s2sd", expected=expected)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Anchors(method.Method):
    """Anchors of pair losses that see a pair from one side.

    Args:
        anchors: these are the samples (`embeddings`) or the proxies (`references`).
    """

    anchors: Literal["embeddings", "references"]


def _embeds_nothing(inputs: Iterable) -> np.ndarray:
    raise NotImplementedError("These pools are made to check their settings: there is no network to embed with.")
