"""Cost of a cell, estimated from finished cells of its study or similar runs.

An estimate is the number of images that a cell trains on and embeds, times the seconds of one. These were measured
once, on the hardware that the listing names: another machine may take a third or three times as long. If runs of the
data set and network have finished, their durations correct the seconds.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import NamedTuple

from common.errors import check_given
from common.training.method import Work
from experiments.parts.datasets import Size, traits_of
from experiments.rows.rows import Row
from experiments.settings.config import ExperimentConfig
from experiments.settings.run_settings import FINAL
from milbich_dml.features import IN_TURN

_START_SECONDS = 12.0  # building, tracing
# With validations, on 2 CPU cores: resnet10 on characters, tokens, and resnet20 on 32 x 32 photographs.
_GLYPH_SECONDS_PER_IMAGE = 8e-4
_TOKEN_SECONDS_PER_IMAGE = 1e-4
_CIFAR_SECONDS_PER_IMAGE = 2.3e-3
_CACHED_SECONDS_PER_IMAGE = 2e-4  # of 5 x 5 x 1,280 features that are on disk
_CIFAR_SIZE = 32  # pixels; time grows with their number
# Without validations, on 2 CPU cores with AVX2, at 96 pixels: .6 s a batch of 32 (a core with AVX-512: .33 s; at 227
# pixels 5.5 times as long). mobilenet_v2 takes .68 of it, measured in turns with the other.
_MOBILE_SECONDS_PER_IMAGE = {"efficientnet_lite0": 0.6 / 32, "mobilenet_v2": 0.41 / 32}
_MOBILE_SIZE = 96
# Without validations, on an RTX 2080 Ti: 97 ms a batch of 32 (thesis chapter 3, BN-Inception).
_PHOTOGRAPH_SECONDS_PER_IMAGE = 0.097 / 32
_GPU = "an RTX 2080 Ti"
# A training step of BN-Inception at 224 pixels, .06 s an image on 2 cores with AVX-512, over that.
_PROCESSOR_RATIO = 20
_EMBEDDING_SHARE = 1 / 3  # of a training step is its forward pass, which is all that embedding takes
_NETWORK_RATIO = {"resnet50": 2.0}  # multiplications over BN-Inception's: 4.1 and 2.0 billion at 224 pixels
_STRIDE_RATIO = 2.4  # of output stride 16 over 32: efficientnet_lite0 at 96 pixels, measured
# Steps until the end of training; thesis table 3.3 prints 48,000 to 131,000 for the large sets, nothing for the others.
_EXPECTED_STEPS = {True: 90_000, False: 10_000}
_OTHERWISE = Size(classes=100, training=5_864, testing=5_924)  # of data of unknown size: as CUB
# Recall and NMI that PADS' policy sees, on a CPU core: .29 s for 660 images of CUB, 3.1 s for 6,700 of SOP.
_FIGURES_SECONDS_PER_IMAGE = 4.5e-4


class Rate(NamedTuple):
    """Speed of training and embedding, and the hardware behind it."""

    seconds_per_image: float  # in a training batch
    hardware: str  # in words
    seconds_per_embedding: float = 0.0  # of a validation or test image; 0 if `seconds_per_image` includes these
    seconds_per_watched_image: float = 0.0  # for the figures of an image that PADS' policy watches; 0 if included
    start_seconds: float = _START_SECONDS
    num_tests: int = 2  # passes over the test set: before training, and after it


def rate_of(config: ExperimentConfig, finished: Sequence[tuple[ExperimentConfig, Row]]) -> Rate:
    """Return the speed of a configuration's cells.

    Published and measured figures are the source. Finished runs of the same network tell this machine's ratio to them,
    and have its features of the test set.
    """
    rate = _known_rate(config)
    ratios = [
        row["train_seconds"] / _seconds(other, _known_rate(other), row["steps"])
        for other, row in finished
        if (other.backbone, other.cached_features) == (config.backbone, config.cached_features)
    ]
    if not ratios:
        return rate
    ratio = statistics.median(ratios)
    return Rate(rate[0] * ratio, "this machine", rate[2] * ratio, rate[3] * ratio, _START_SECONDS * ratio, num_tests=1)


def _known_rate(config: ExperimentConfig) -> Rate:
    if config.cached_features:
        return Rate(_CACHED_SECONDS_PER_IMAGE, "2 CPU cores", 0.0, _FIGURES_SECONDS_PER_IMAGE)
    stride = _STRIDE_RATIO if config.output_stride == 16 else 1.0
    if config.backbone in _MOBILE_SECONDS_PER_IMAGE:
        seconds = _MOBILE_SECONDS_PER_IMAGE[config.backbone] * (config.image_size / _MOBILE_SIZE) ** 2 * stride
        return Rate(seconds, "2 CPU cores", seconds * _EMBEDDING_SHARE, _FIGURES_SECONDS_PER_IMAGE)
    kind = traits_of(config.dataset).kind
    if kind == "photographs":
        seconds = _PHOTOGRAPH_SECONDS_PER_IMAGE * _NETWORK_RATIO.get(config.backbone, 1.0) * stride
        return Rate(seconds, _GPU, seconds * _EMBEDDING_SHARE, _FIGURES_SECONDS_PER_IMAGE)
    if kind == "thumbnails":
        return Rate(_CIFAR_SECONDS_PER_IMAGE * (config.image_size / _CIFAR_SIZE) ** 2, "2 CPU cores")
    seconds = _TOKEN_SECONDS_PER_IMAGE if kind == "tokens" else _GLYPH_SECONDS_PER_IMAGE
    return Rate(seconds, "2 CPU cores")


def estimated_seconds(config: ExperimentConfig, rate: Rate) -> float:
    """Estimate a cell's duration, with passes that its method adds."""
    steps = config.max_steps
    if config.budget == "full":
        turns = 2 if config.feature_schedule == IN_TURN else 1
        steps = min(steps, turns * _EXPECTED_STEPS[traits_of(config.dataset).large])
    return _seconds(config, rate, steps)


def _seconds(config: ExperimentConfig, rate: Rate, steps: int) -> float:
    ratio = math.prod(method.relative_cost for method in config.methods)
    training = steps * config.batch_size * rate.seconds_per_image * ratio
    learned, validating, testing = _num_images(config)
    size = _size_of(config)
    evaluations = -(-steps // config.steps_per_evaluation)
    embedded = evaluations * validating + rate.num_tests * testing
    if config.sampler_part.by_embeddings:
        embedded += learned * evaluations
    classes = size.classes * learned / size.training
    work = Work(steps, config.batch_size, config.steps_per_evaluation, learned, classes)
    added = [method.passes(work) for method in config.methods]
    passes = (embedded + sum(each.embedded for each in added)) * rate.seconds_per_embedding
    passes += sum(each.evaluated for each in added) * rate.seconds_per_watched_image
    return rate.start_seconds + training + passes


def seconds_on_processor(config: ExperimentConfig, cores: int) -> float:
    """Estimate a cell's duration without a GPU, in proportion to 1 / cores."""
    rate = rate_of(config, ())
    ratio = _PROCESSOR_RATIO if rate.hardware == _GPU else 1
    return estimated_seconds(config, rate) * ratio * 2 / cores


def _size_of(config: ExperimentConfig) -> Size:
    return traits_of(config.dataset).size or _OTHERWISE


def _num_images(config: ExperimentConfig) -> tuple[float, float, int]:
    """Count images to learn from, to validate on and to test on."""
    _, training, testing = _size_of(config)
    if config.protocol == "conventional":
        return training, testing, testing
    if config.protocol in (None, FINAL):
        share = 1 / config.num_folds
    else:
        share = check_given("held_out_fraction", config.held_out_fraction)
    return (1 - share * (config.protocol != FINAL)) * training, share * training, testing


def duration(seconds: float) -> str:
    """Format seconds as `45 s`, `12 min` or `3.4 h`."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
