"""What a cell costs: estimated from the finished cells of its study, or from what is known of such trainings."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import NamedTuple

from experiments.config import ExperimentConfig
from experiments.recipes import LARGE_DATASETS, PHOTOGRAPHS
from experiments.reports import UnitRun

_START_SECONDS = 12.0  # building, tracing, evaluating before training
_GLYPH_SECONDS_PER_IMAGE = 8e-4  # resnet10 on 32 x 32 pixels, validations included, on 2 CPU cores
_TOKEN_SECONDS_PER_IMAGE = 1e-4  # synthetic tokens, likewise
_PHOTOGRAPH_SECONDS_PER_IMAGE = 0.097 / 32  # thesis chapter 3: 97 ms a batch of 32, RTX 2080 Ti
_CCP_RATIO = 105 / 97  # thesis chapter 3: milliseconds a batch with and without
# Steps until the end of training; thesis table 3.3 prints 48,000 to 131,000 for the large sets, nothing for the others.
_EXPECTED_STEPS = {True: 90_000, False: 10_000}


class Rate(NamedTuple):
    """Seconds for an image in a batch, and on what."""

    seconds_per_image: float
    hardware: str


def rate_of(config: ExperimentConfig, finished: Sequence[UnitRun]) -> Rate:
    """How fast a configuration's cells are.

    Args:
        config: any configuration of the study.
        finished: the study's finished units; without any, published and measured figures are the source.
    """
    if finished:
        rates = [
            max(unit.result["train_seconds"] - _START_SECONDS, 1.0) / (unit.result["steps"] * _batch_size(unit.config))
            for unit in finished
        ]
        return Rate(statistics.median(rates), "this machine")
    if config.dataset in PHOTOGRAPHS:
        return Rate(_PHOTOGRAPH_SECONDS_PER_IMAGE, "an RTX 2080 Ti")
    seconds = _TOKEN_SECONDS_PER_IMAGE if config.dataset == "synthetic_tokens" else _GLYPH_SECONDS_PER_IMAGE
    return Rate(seconds, "2 CPU cores")


def estimated_seconds(config: ExperimentConfig, rate: Rate) -> float:
    """A rough estimate of a cell's duration."""
    steps = config.max_steps
    if config.budget == "full" and config.dataset in PHOTOGRAPHS:
        steps = min(steps, _EXPECTED_STEPS[config.dataset in LARGE_DATASETS])
    ratio = _CCP_RATIO if config.method == "ccp" else 1.0
    return _START_SECONDS + steps * config.batch_size * rate.seconds_per_image * ratio


def duration(seconds: float) -> str:
    """`45 s`, `12 min` or `3.4 h`."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def _batch_size(config: dict) -> int:
    return config["classes_per_batch"] * config["samples_per_class"]
