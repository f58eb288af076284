"""Compatibility of devices and precision with other settings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from common.backbones.network_names import HEAD
from common.errors import invalid

if TYPE_CHECKING:
    from experiments.settings.config import ExperimentConfig


def check_device_settings(config: ExperimentConfig) -> None:
    """Refuse combinations of devices and precision that no run supports.

    Raises:
        InvalidInput: names the flags of the first one.
    """
    if config.strategy == "none" and config.replicas is not None:
        raise invalid("--replicas", received=config.replicas, expected="none without --strategy=mirrored")
    if config.precision != "float32" and config.trained_from is not None:
        fix = "Features below the cut are computed once, in float32."
        raise invalid("--precision", received=config.precision, expected="float32 with --trained_from", fix=fix)
    _check_fold(config)
    if config.strategy == "none":
        return
    if config.replicas is None:
        raise invalid("--replicas", received=None, expected="2 or more with --strategy=mirrored")
    if config.precision != "float32":
        expected = "float32 with --strategy=mirrored"
        raise invalid("--precision", received=config.precision, expected=expected)
    if config.jit_compile:
        raise invalid("--jit_compile", received=True, expected="no XLA with --strategy=mirrored")
    if config.trained_from is not None:
        expected = "training of the whole network with --strategy=mirrored"
        raise invalid("--trained_from", received=config.trained_from, expected=expected)
    if config.batch_size % config.replicas:
        expected = f"a divisor of the batch of {config.batch_size} images"
        raise invalid("--replicas", received=config.replicas, expected=expected)


def _check_fold(config: ExperimentConfig) -> None:
    if not config.fold_batch_norm:
        return
    if not (config.frozen_batch_norm or config.frozen_backbone):
        fix = "One that trains computes statistics of each batch. Give --frozen_batch_norm, too."
        raise invalid("--fold_batch_norm", received=True, expected="batch normalisation that is frozen", fix=fix)
    if config.trained_from == HEAD and config.cached_features:
        expected = "off with cached features of the whole backbone, which is computed once"
        raise invalid("--fold_batch_norm", received=True, expected=expected)
