"""Construction of the sampler of training batches."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from common import data
from common.errors import check_choice
from experiments.settings.config import ExperimentConfig
from experiments.settings.loss_building import num_views_of
from experiments.settings.methods.gsp import ZeroShotSettings

if TYPE_CHECKING:
    import numpy as np

SAMPLERS: dict[str, Callable[..., data.ClassBalancedBatches | data.MPerClassBatches | data.RandomPairBatches]] = {
    "rounds": lambda c, labels, seed: data.ClassBalancedBatches(labels, c.classes_per_batch, c.samples_per_class, seed),
    "m_per_class": lambda c, labels, seed: data.ClassBalancedBatches(
        labels, c.classes_per_batch, c.samples_per_class, seed, interleaved=True, refills_blindly=True
    ),
    "spc": lambda c, labels, seed: data.MPerClassBatches(labels, c.classes_per_batch, c.samples_per_class, seed),
    "spc_r": lambda c, labels, seed: data.RandomPairBatches(labels, c.batch_size, seed),
}

SAMPLERS_OF_CLASSES = ("rounds", "m_per_class", "spc")  # whose batches have --classes_per_batch different classes


def build_batches(config: ExperimentConfig, labels: np.ndarray, seed: int):
    """Build the sampler of training batches for `labels` `[examples]`.

    With two views, each image is in its batch twice.

    Raises:
        InvalidInput: the zero-shot prediction loss would find a class in both halves of a batch.
    """
    sampler = check_choice("--sampler", config.sampler, SAMPLERS)
    batches = SAMPLERS[sampler](config, labels, seed)
    zero_shot = config.find(ZeroShotSettings)
    if zero_shot and zero_shot.zero_shot_weight:
        from gsp_dml.zero_shot_halves import check_halves

        check_halves(batches.class_places, zero_shot.zero_shot_halves)
    return data.TwoViews(batches) if num_views_of(config) == 2 else batches
