"""Training steps with several features, and the share of PADS' decisions.

Command: python -m benchmarks.features [--repeats=15] [--backbone=mobilenet_v2] [--image_size=160] [--watched=300]
    [--fold_batch_norm]

The steps: MobileNetV2 at 160 pixels with frozen batch normalisation, 128 dimensions, a batch of 32 (8 classes x 4), the
margin loss over distance-weighted triplets, coupled weight decay, Adam. `shared` adds the shared feature and the
decorrelation, both tasks in each step; `diva` all three features and the second view. Steps alternate, so that a busy
machine slows all of them alike; ratios are medians over the rounds. PADS is the plain step with a distribution of 30
bins, and one decision in 30 steps: embed the images held back, compute their figures, update the policy once. With
`--fold_batch_norm` all of them compute the frozen batch normalisation inside the convolutions, as the flag of runs
does. Last line: one JSON object.

`shared_ratio`, `diva_ratio`: time of a step over that of the plain step (goals: 1.1 and 2.2).
`pads_share`: time of a decision over that of a decision and the steps between two (goal: at most 0.1).
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import numpy as np
import tensorflow as tf
from absl import app, flags

import milbich_dml
from benchmarks import measure
from common import backbones, losses
from common.pooling import GlobalAveragePooling
from common.training import CoupledWeightDecay, EmbeddingHead, EmbeddingModel, FusedAdam, ProxyRateOptimizer
from milbich_dml import PolicyAdaptedSampling, held_back_figures

keras = tf.keras
DIM, CLASSES, PER_CLASS = 128, 8, 4
BATCH = CLASSES * PER_CLASS
STEPS_PER_DECISION = 30
SEEN = ("R@1", "R@2", "R@4", "R@8", "NMI", "pi_intra", "pi_inter")  # by the policy
BACKBONES = {
    "mobilenet_v2": lambda: backbones.mobilenet_v2(3, frozen_batch_norm=True),
    "resnet50": lambda: backbones.resnet50(3, frozen_batch_norm=True),
    "resnet10": lambda: backbones.resnet10(3, frozen_batch_norm=True),
}
_FLAGS = flags.FLAGS


def _mined(miner: str | milbich_dml.SamplingDistribution, seed: int) -> losses.MetricLoss:
    return losses.MinedLoss(losses.MarginLoss(CLASSES), miner, seed=seed)


def loss_of(name: str) -> tuple[losses.MetricLoss, tuple[int, ...] | None]:
    """Return a measured step's loss and the sizes of its features.

    Args:
        name: `plain`, `pads`, `shared` or `diva`.
    """
    if name in ("plain", "pads"):
        return _mined("distance_weighted" if name == "plain" else milbich_dml.SamplingDistribution(start=None), 0), None
    sizes = milbich_dml.feature_sizes(DIM, 2 if name == "shared" else 4)
    tasks = {"shared": _mined("inter_class", 1)}
    if name == "diva":
        dance = milbich_dml.DistanceAdaptedContrastLoss(30 * BATCH, sizes[3])
        tasks |= {"intra": _mined("intra_class", 2), "dance": dance}
    disc = _mined("distance_weighted", 0)
    return milbich_dml.feature_tasks_loss(disc, tasks, sizes, weight=0.3, decorrelation=300.0), sizes


class Step:
    """A model with its optimiser; a call is one training step."""

    def __init__(self, name: str) -> None:
        keras.utils.set_random_seed(0)
        loss, sizes = loss_of(name)
        views, size = 2 if name == "diva" else 1, _FLAGS.image_size
        images = np.random.default_rng(0).integers(0, 256, (views * BATCH, size, size, 3))
        self.images = tf.constant(images, tf.uint8)
        self.labels = tf.tile(tf.repeat(tf.range(CLASSES, dtype=tf.int64), PER_CLASS), [views])
        head = EmbeddingHead(GlobalAveragePooling(), DIM)
        self.model = EmbeddingModel(BACKBONES[_FLAGS.backbone](), head, loss, feature_sizes=sizes, num_views=views)
        if _FLAGS.fold_batch_norm:
            self.model.fold_batch_norm()
        self.model.build_from_batch(self.images, self.labels)
        update = ProxyRateOptimizer(FusedAdam(1e-5))
        self.model.compile_training(update, [CoupledWeightDecay(4e-4, self.model)])
        self._train = tf.function(self.model.train_step)

    def __call__(self) -> None:
        """Make one step."""
        float(self._train((self.images, self.labels))["loss"])


def decision_of(step: Step) -> Callable[[], None]:
    """Return a function that makes one decision of the teacher.

    The teacher belongs to a model with a sampling distribution.

    Args:
        step: the model's.
    """
    images = np.random.default_rng(1).integers(0, 256, (_FLAGS.watched, *step.images.shape[1:])).astype(np.uint8)
    labels = np.arange(_FLAGS.watched) // 6
    mined = losses.loss_of_kind(step.model.metric_loss, losses.MinedLoss)
    distribution = None if mined is None else mined.miner
    if not isinstance(distribution, milbich_dml.SamplingDistribution):
        raise TypeError("The model of PADS has no distribution.")

    def measured() -> dict[str, float]:
        return held_back_figures(step.model.embed(tf.data.Dataset.from_tensor_slices(images).batch(64)), labels)

    return PolicyAdaptedSampling(distribution, measured, SEEN, ("R@1", "NMI"), STEPS_PER_DECISION, 3000).decide


def main(argv: list[str]) -> None:
    """Alternate the steps and print the table and the figures."""
    del argv
    steps: dict[str, Callable[[], None]] = {name: Step(name) for name in ("plain", "shared", "diva", "pads")}
    steps["decision"] = decision_of(steps["pads"])  # type: ignore[arg-type]
    for step in steps.values():  # the first of each traces its graph
        step()
        step()
    started = time.perf_counter()
    seconds = measure.paired_seconds(steps, _FLAGS.repeats)
    ratios = {name: measure.paired_ratio(seconds[name], seconds["plain"]) for name in ("shared", "diva", "pads")}
    between = [STEPS_PER_DECISION * of_step for of_step in seconds["pads"]]
    shares = [decided / (decided + rest) for decided, rest in zip(seconds["decision"], between)]
    rows = [
        [name, measure.spread(times), f"{ratios[name]:.3f}" if name in ratios else ""]
        for name, times in seconds.items()
    ]
    measure.print_table(["step", "seconds", "ratio"], rows)
    print(f"a decision every {STEPS_PER_DECISION} steps takes {statistics.median(shares):.1%} of the time", flush=True)
    figures = {f"{name}_ratio": ratio for name, ratio in ratios.items()}
    figures |= {"pads_share": statistics.median(shares), "plain_seconds": statistics.median(seconds["plain"])}
    figures["wall_seconds"] = time.perf_counter() - started
    measure.print_figures(figures)


def define_flags() -> None:
    """Define the flags of this command."""
    flags.DEFINE_integer("repeats", 15, "Rounds of the paired timing.", lower_bound=1)
    flags.DEFINE_integer("image_size", 160, "Height and width of the images in pixels.", lower_bound=32)
    flags.DEFINE_integer("watched", 300, "Images that PADS' policy watches.", lower_bound=12)
    flags.DEFINE_bool("fold_batch_norm", False, "Compute frozen batch normalisation inside the convolutions.")
    flags.DEFINE_enum("backbone", "mobilenet_v2", sorted(BACKBONES), "The network.")


if __name__ == "__main__":
    define_flags()
    app.run(main)
