"""PADS as a method of a run."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import typing
from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Any, Literal

import numpy as np

import milbich_dml
from common import data, losses
from common.errors import InvalidInput, check_given, invalid
from common.files import write_arrays
from common.parameters import Count, NumberRange, Positive
from common.training import method
from common.training.method import Attached, LossInputs, MakeLoss, Passes, Run, Work
from milbich_dml.distance_bins import LARGEST, SMALLEST, bin_edges, has_center_in

ALL_BINS = "all"
ESTIMATORS = ("ppo_a2c", "ppo_ema", "reinforce", "reinforce_ema", "reinforce_a2c")
RANDOM = "random"  # a control without learning, instead of an estimator
FIXED = "fixed"  # instead of an estimator: nothing is decided
LINEAR, NON_LINEAR = CURRICULA = ("linear", "non_linear")  # a schedule instead of an estimator
SAMPLING = "sampling.npz"  # the record, in a run's folder
_SEEN = {"recall": ("R@1", "R@2", "R@4", "R@8"), "nmi": ("NMI",), "distances": ("pi_intra", "pi_inter")}
_STATES = tuple("+".join(names) for count in (3, 2, 1) for names in itertools.combinations(_SEEN, count))
_REWARDS = {"recall+nmi": ("R@1", "NMI"), "recall": ("R@1",), "nmi": ("NMI",)}


def is_interval(start: str) -> bool:
    """Return whether a `start` names two distances, with bins outside."""
    return start.count(",") == 1


@dataclasses.dataclass(frozen=True, kw_only=True)
class Pads(method.Method):
    """Policy-adapted sampling: a policy adapts the distances of negatives (PADS).

    Reference: Milbich's dissertation, chapter 5.

    Args:
        bins: bins of distances.
        low: smallest distance of a negative.
        high: largest distance of a negative.
        start: bins that begin with weight 1, those with a centre between two distances, such as `0.3,0.7`, or `all`; or
            the first weight of each bin, with a comma between them.
        outside: first weight of the other bins, in [1e-25, 1] (default: the recipe's).
        steps: update steps between two decisions (H).
        images: share of the training images (or classes) that is held back for the policy.
        by: held back are `images` of each class with four or more, or whole `classes`.
        reward: what a decision has to raise.
        estimator: how the policy learns; or `random` actions, or a distribution that stays `fixed` (H of infinity), or
            moves to nearer negatives by a schedule: an interval (`linear`), or growing weights (`non_linear`).
        state: figures of the held back images that the policy sees (default: all).
        windows: lengths of the running means of these.
        learning_rate: learning rate of the policy.
        draws: draws a bin and then a negative in it (`bins`), or weights each negative by its bin (`candidates`).
    """

    draws_by_run = True

    bins: Count
    low: Annotated[float, NumberRange(0, 2, low_included=True)]
    high: Annotated[float, NumberRange(0, 2, high_included=True)]
    start: str
    outside: Annotated[float, NumberRange(1e-25, 1.0, low_included=True, high_included=True)] | None = None
    steps: Count
    images: Annotated[float, NumberRange(0, 1)]
    by: Literal["images", "classes"]
    reward: Literal["recall+nmi", "recall", "nmi"]
    estimator: Literal[(*ESTIMATORS, RANDOM, FIXED, *CURRICULA)]  # type: ignore[valid-type]
    state: Literal[_STATES] = _STATES[0]  # type: ignore[valid-type]
    windows: str = "2,8,16,32"
    learning_rate: Positive
    draws: Literal["bins", "candidates"]

    def __post_init__(self) -> None:
        if self.low >= self.high:
            raise invalid("--pads_low", received=self.low, expected=f"less than --pads_high={self.high}")
        _ = self._windows
        numbers, edges = self._numbers, bin_edges(self.bins, self.low, self.high)
        if len(numbers) == 2 and not has_center_in(edges, (numbers[0], numbers[1])).any():
            expected = f"an interval with the centre of one of {self.bins} bins of [{self.low}, {self.high}], or "
            raise invalid("--pads_start", received=self.start, expected=expected + ALL_BINS)
        if len(numbers) > 2 and not (len(numbers) == self.bins and all(SMALLEST <= n <= LARGEST for n in numbers)):
            expected = f"{self.bins} weights (--pads_bins) in [{SMALLEST}, {LARGEST}]"
            raise invalid("--pads_start", received=self.start, expected=expected)

    def conflicts(self, config: Any) -> Iterator[InvalidInput]:  # noqa: ANN401
        """Yield devices, held back images and prefixes that PADS does not go with."""
        if config.replicas:
            yield method.on_one_device("the miner pads: its policy works on one device")
        if config.left_out_images is not None:
            yield InvalidInput(
                "--left_out_images does not go with the miner pads, which holds images back by itself "
                "(--pads_images). Remove it."
            )
        if config.prefix_lengths:
            yield method.with_prefixes(config, "pads, one policy for one length")

    def hold_back(self, labels: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the indices of training images and of the policy's images."""
        kept, held = data.held_back_images(labels, self.images, seed, self.by)
        counts = np.unique(labels[held], return_counts=True)[1]
        if len(counts) < 2 or counts.min() < 2:
            received = f"{len(held)} images of {len(counts)} classes"
            expected = "two or more classes, of two or more images each"
            fix = "Hold back more (--pads_images), or the other of --pads_by=images and --pads_by=classes."
            raise invalid("images that --pads_images holds back", received=received, expected=expected, fix=fix)
        return kept, held

    def wrap(self, make: MakeLoss, inputs: LossInputs) -> MakeLoss:
        """Draw the loss's triplets by the distribution."""
        del inputs
        return lambda dim, seed: losses.MinedLoss(make(dim, seed), self.distribution(), seed=seed)

    def distribution(self) -> milbich_dml.SamplingDistribution:
        """Build the miner with its initial memory."""
        numbers = self._numbers
        return milbich_dml.SamplingDistribution(
            self.bins,
            self.low,
            self.high,
            start=(numbers[0], numbers[1]) if len(numbers) == 2 else None,
            outside=1.0 if self.outside is None else self.outside,
            draws=self.draws,
            weights=numbers if len(numbers) > 2 else None,
        )

    def attach(self, run: Run) -> Attached:
        """Return the policy or the schedule, if anything changes the distribution, with its record."""
        mined = check_given("MinedLoss", losses.loss_of_kind(run.model.metric_loss, losses.MinedLoss))
        watched = check_given("watched", run.watched)
        distribution = typing.cast(milbich_dml.SamplingDistribution, mined.miner)
        if self.estimator == FIXED:
            return Attached()
        record = milbich_dml.SamplingRecord(distribution, self.steps)

        def measure() -> dict[str, float]:
            return milbich_dml.held_back_figures(run.model.embed(run.inputs.repeated(watched)), watched.labels)

        def figures(embeddings: method.Arrays) -> dict[str, Any]:
            del embeddings
            write_arrays(run.folder / SAMPLING, record.as_arrays())
            return {"sampling": {"decisions": len(record), "watched_images": len(watched)}}

        if self.estimator in CURRICULA:
            from milbich_dml.curriculum import Curriculum  # loads Keras

            teacher: Any = Curriculum(self.estimator, self.steps, run.max_steps, record)
        else:
            teacher = self.policy(distribution, measure, run.max_steps, run.seed, record.observe)
        return Attached(callbacks=[teacher, record], figures=figures)

    def policy(
        self,
        distribution: milbich_dml.SamplingDistribution,
        measure: Callable[[], Mapping[str, float]],
        max_steps: int,
        seed: int,
        observe: Callable[[milbich_dml.Decision], None],
    ) -> milbich_dml.PolicyAdaptedSampling:
        """Build the policy that adapts a distribution."""
        return milbich_dml.PolicyAdaptedSampling(
            distribution,
            measure,
            [metric for name in self.state.split("+") for metric in _SEEN[name]],
            _REWARDS[self.reward],
            self.steps,
            max_steps,
            milbich_dml.PolicyRules(self.estimator, self.learning_rate),
            seed,
            observe,
            self._windows,
        )

    def passes(self, work: Work) -> Passes:
        """Return the images that the policy sees in all its decisions."""
        if self.estimator in (FIXED, *CURRICULA):
            return Passes()
        watched = work.steps // self.steps * self.images * work.learned
        return Passes(watched, watched)

    @functools.cached_property
    def _windows(self) -> tuple[int, ...]:
        words = self.windows.split(",")
        if not all(word.isdecimal() and int(word) for word in words):
            expected = "whole numbers above 0, with a comma between them"
            raise invalid("--pads_windows", received=self.windows, expected=expected)
        return tuple(map(int, words))

    @functools.cached_property
    def _numbers(self) -> tuple[float, ...]:
        """The numbers in `start`: two distances, weights of the bins, or none."""
        if self.start == ALL_BINS:
            return ()
        expected = f"two distances with a comma between them, such as 0.3,0.7, a weight for each bin, or {ALL_BINS}"
        try:
            numbers = tuple(map(float, self.start.split(",")))
        except ValueError:
            raise invalid("--pads_start", received=self.start, expected=expected) from None
        if len(numbers) < 2:
            raise invalid("--pads_start", received=self.start, expected=expected)
        return numbers
