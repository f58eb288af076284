"""Settings of PADS: sampling distribution, adapting policy, and watched images."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Mapping

import numpy as np

import milbich_dml
from common import data
from common.errors import invalid
from common.parameters import POSITIVE, NumberRange
from experiments.parts.setting import Settings, setting
from milbich_dml.distance_bins import LARGEST, SMALLEST, bin_edges, has_center_in
from milbich_dml.policy_estimators import ESTIMATORS, RANDOM

ALL_BINS = "all"
FIXED = "fixed"  # instead of an estimator: nothing is decided
LINEAR, NON_LINEAR = CURRICULA = ("linear", "non_linear")  # a schedule instead of an estimator
_SEEN = {"recall": ("R@1", "R@2", "R@4", "R@8"), "nmi": ("NMI",), "distances": ("pi_intra", "pi_inter")}
_STATES = ["+".join(names) for count in (3, 2, 1) for names in itertools.combinations(_SEEN, count)]
_REWARDS = {"recall+nmi": ("R@1", "NMI"), "recall": ("R@1",), "nmi": ("NMI",)}


def is_interval(start: str) -> bool:
    """Return whether a `pads_start` names two distances, with bins outside."""
    return start.count(",") == 1


@dataclasses.dataclass(frozen=True, kw_only=True)
class PadsSettings(Settings, title="Policy-adapted sampling (+pads)"):
    """The miner `pads` of a loss's name."""

    pads_bins: int = setting("pads: bins of distances", within=POSITIVE)
    pads_low: float = setting("pads: smallest distance of a negative", within=NumberRange(0, 2, low_included=True))
    pads_high: float = setting("pads: largest distance of a negative", within=NumberRange(0, 2, high_included=True))
    pads_start: str = setting(
        "pads: bins that begin with weight 1, those with a centre between two distances, such as `0.3,0.7`, or `all`; "
        "or the first weight of each bin, with a comma between them"
    )
    pads_outside: float | None = setting(
        "pads: first weight of the other bins, in [1e-25, 1] (default: the recipe's)",
        None,
        within=NumberRange(1e-25, 1.0, low_included=True, high_included=True),
    )
    pads_steps: int = setting("pads: update steps between two decisions (H)", within=POSITIVE)
    pads_images: float = setting(
        "pads: share of the training images (or classes) that is held back for the policy", within=NumberRange(0, 1)
    )
    pads_by: str = setting(
        "pads: held back are `images` of each class with four or more, or whole `classes`",
        choices=("images", "classes"),
    )
    pads_reward: str = setting("pads: what a decision has to raise", choices=tuple(_REWARDS))
    pads_estimator: str = setting(
        "pads: how the policy learns; or `random` actions, or a distribution that stays `fixed` (H of infinity), or "
        "moves to nearer negatives by a schedule: an interval (`linear`), or growing weights (`non_linear`)",
        choices=(*ESTIMATORS, RANDOM, FIXED, *CURRICULA),
    )
    pads_state: str = setting(
        "pads: figures of the held back images that the policy sees (default: all)", _STATES[0], choices=_STATES
    )
    pads_windows: str = setting("pads: lengths of the running means of these", "2,8,16,32")
    pads_learning_rate: float = setting("pads: learning rate of the policy", within=POSITIVE)
    pads_draws: str = setting(
        "pads: draws a bin and then a negative in it (`bins`), or weights each negative by its bin (`candidates`)",
        choices=("bins", "candidates"),
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.pads_low >= self.pads_high:
            raise invalid("--pads_low", received=self.pads_low, expected=f"less than --pads_high={self.pads_high}")
        _ = self.windows
        numbers, edges = self._numbers(), bin_edges(self.pads_bins, self.pads_low, self.pads_high)
        if len(numbers) == 2 and not has_center_in(edges, (numbers[0], numbers[1])).any():
            expected = f"an interval with the centre of one of {self.pads_bins} bins of "
            expected += f"[{self.pads_low}, {self.pads_high}], or {ALL_BINS}"
            raise invalid("--pads_start", received=self.pads_start, expected=expected)
        if len(numbers) > 2 and not (len(numbers) == self.pads_bins and all(SMALLEST <= n <= LARGEST for n in numbers)):
            expected = f"{self.pads_bins} weights (--pads_bins) in [{SMALLEST}, {LARGEST}]"
            raise invalid("--pads_start", received=self.pads_start, expected=expected)

    @property
    def windows(self) -> tuple[int, ...]:
        """The lengths of the running means.

        Raises:
            InvalidInput: the setting is no list of whole numbers above 0.
        """
        words = self.pads_windows.split(",")
        if not all(word.isdecimal() and int(word) for word in words):
            expected = "whole numbers above 0, with a comma between them"
            raise invalid("--pads_windows", received=self.pads_windows, expected=expected)
        return tuple(map(int, words))

    def _numbers(self) -> tuple[float, ...]:
        """Return the numbers in `pads_start`: two distances, bin weights, or none."""
        if self.pads_start == ALL_BINS:
            return ()
        expected = f"two distances with a comma between them, such as 0.3,0.7, a weight for each bin, or {ALL_BINS}"
        try:
            numbers = tuple(map(float, self.pads_start.split(",")))
        except ValueError:
            raise invalid("--pads_start", received=self.pads_start, expected=expected) from None
        if len(numbers) < 2:
            raise invalid("--pads_start", received=self.pads_start, expected=expected)
        return numbers

    def distribution(self) -> milbich_dml.SamplingDistribution:
        """Build the miner with its initial memory."""
        numbers = self._numbers()
        return milbich_dml.SamplingDistribution(
            self.pads_bins,
            self.pads_low,
            self.pads_high,
            start=(numbers[0], numbers[1]) if len(numbers) == 2 else None,
            outside=1.0 if self.pads_outside is None else self.pads_outside,
            draws=self.pads_draws,
            weights=numbers if len(numbers) > 2 else None,
        )

    def hold_back(self, labels: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the indices of training images and of the policy's images."""
        kept, held = data.held_back_images(labels, self.pads_images, seed, self.pads_by)
        counts = np.unique(labels[held], return_counts=True)[1]
        if len(counts) < 2 or counts.min() < 2:
            received = f"{len(held)} images of {len(counts)} classes"
            expected = "two or more classes, of two or more images each"
            fix = "Hold back more (--pads_images), or the other of --pads_by=images and --pads_by=classes."
            raise invalid("images that --pads_images holds back", received=received, expected=expected, fix=fix)
        return kept, held

    def teacher(
        self,
        distribution: milbich_dml.SamplingDistribution,
        measure: Callable[[], Mapping[str, float]],
        max_steps: int,
        seed: int,
        observe: Callable[[milbich_dml.Decision], None],
    ) -> milbich_dml.PolicyAdaptedSampling | None:
        """Build the policy that adapts a distribution; None without one."""
        if self.pads_estimator in (FIXED, *CURRICULA):
            return None
        return milbich_dml.PolicyAdaptedSampling(
            distribution,
            measure,
            [metric for name in self.pads_state.split("+") for metric in _SEEN[name]],
            _REWARDS[self.pads_reward],
            self.pads_steps,
            max_steps,
            milbich_dml.PolicyRules(self.pads_estimator, self.pads_learning_rate),
            seed,
            observe,
            self.windows,
        )
