"""Settings of PADS: the sampling distribution, the policy that adapts it, and the images that it watches."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from common import data, miners, training
from common.errors import invalid
from common.miners.distance_bins import bin_edges, has_center_in
from experiments.settings.number_ranges import POSITIVE, NumberRange
from experiments.settings.setting import Settings, setting

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from common.miners import SamplingDistribution
    from common.training import PolicyAdaptedSampling
    from common.training.policy_adapted_sampling import Decision

ALL_BINS = "all"
METRICS = ("R@1", "R@2", "R@4", "R@8", "NMI", "pi_intra", "pi_inter")  # what the policy sees
_REWARDS = {"recall+nmi": ("R@1", "NMI"), "recall": ("R@1",), "nmi": ("NMI",)}


@dataclasses.dataclass(frozen=True, kw_only=True)
class PadsSettings(Settings):
    """The miner `pads` of a loss's name."""

    title: ClassVar[str] = "Policy-adapted sampling (+pads)"

    pads_bins: int = setting("pads: bins of distances", within=POSITIVE)
    pads_low: float = setting("pads: smallest distance of a negative", within=NumberRange(0, 2, low_included=True))
    pads_high: float = setting("pads: largest distance of a negative", within=NumberRange(0, 2, high_included=True))
    pads_start: str = setting(
        "pads: bins that begin with weight 1, those with a centre between two distances, such as `0.3,0.7`, or `all`"
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
        "pads: how the policy learns",
        choices=("ppo_a2c", "ppo_ema", "reinforce", "reinforce_ema", "reinforce_a2c"),
    )
    pads_learning_rate: float = setting("pads: learning rate of the policy", within=POSITIVE)
    pads_draws: str = setting(
        "pads: draws a bin and then a negative in it (`bins`), or weights each negative by its bin (`candidates`)",
        choices=("bins", "candidates"),
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.pads_low >= self.pads_high:
            raise invalid("--pads_low", received=self.pads_low, expected=f"less than --pads_high={self.pads_high}")
        start = self.start
        edges = bin_edges(self.pads_bins, self.pads_low, self.pads_high)
        if start is not None and not has_center_in(edges, start).any():
            expected = f"an interval with the centre of one of {self.pads_bins} bins of "
            expected += f"[{self.pads_low}, {self.pads_high}], or {ALL_BINS}"
            raise invalid("--pads_start", received=self.pads_start, expected=expected)

    @property
    def start(self) -> tuple[float, float] | None:
        """The interval of `pads_start`, or None for all bins."""
        if self.pads_start == ALL_BINS:
            return None
        try:
            low, high = map(float, self.pads_start.split(","))
        except ValueError:
            expected = f"two distances with a comma between them, such as 0.3,0.7, or {ALL_BINS}"
            raise invalid("--pads_start", received=self.pads_start, expected=expected) from None
        return low, high

    def distribution(self) -> SamplingDistribution:
        """The miner with memory, as it begins."""
        return miners.SamplingDistribution(
            self.pads_bins,
            self.pads_low,
            self.pads_high,
            start=self.start,
            outside=1.0 if self.pads_outside is None else self.pads_outside,
            draws=self.pads_draws,
        )

    def hold_back(self, labels: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
        """Indices of the training images that are learned from, and of those that the policy watches.

        Args:
            labels: of the training images, `[images]`.
            seed: of what is drawn.

        Raises:
            InvalidInput: no image, or an image without another one of its class, would be held back.
        """
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
        distribution: SamplingDistribution,
        measure: Callable[[], Mapping[str, float]],
        max_steps: int,
        seed: int,
        observe: Callable[[Decision], None],
    ) -> PolicyAdaptedSampling:
        """The callback that adapts a distribution.

        Args:
            distribution: of the loss that is trained.
            measure: figures of the images held back, by `METRICS`.
            max_steps: training steps in all.
            seed: of the policy.
            observe: is told of each decision.
        """
        return training.PolicyAdaptedSampling(
            distribution,
            measure,
            METRICS,
            _REWARDS[self.pads_reward],
            self.pads_steps,
            max_steps,
            training.PolicyRules(self.pads_estimator, self.pads_learning_rate),
            seed,
            observe,
        )
