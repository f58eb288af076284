"""Devices and precision that go together, and what they do not go together with."""

from __future__ import annotations

from typing import TYPE_CHECKING

from common.errors import invalid

if TYPE_CHECKING:
    from experiments.settings.config import ExperimentConfig


def check_device_settings(config: ExperimentConfig) -> None:
    """Refuses combinations of devices and precision that no run supports.

    Raises:
        InvalidInput: the first of them, by the names of its flags.
    """
    if config.strategy == "none" and config.replicas is not None:
        raise invalid("--replicas", received=config.replicas, expected="none without --strategy=mirrored")
    if config.precision != "float32" and config.trained_from is not None:
        fix = "Features below the cut are computed once, in float32."
        raise invalid("--precision", received=config.precision, expected="float32 with --trained_from", fix=fix)
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
