"""Training from a cut through the backbone: recipe values and checks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from common.errors import InvalidInput

if TYPE_CHECKING:
    from experiments.settings.config import ExperimentConfig

NUM_VIEWS = 4  # of a training image; each takes as much room as the evaluation's view


def cut_settings(overrides: dict, crop: str) -> dict:
    """Return the fields implied by `trained_from`: caching, and views for random crops.

    Args:
        overrides: the fields set by hand.
        crop: the recipe's augmentation.
    """
    if overrides.get("trained_from") is None:
        return {}
    if not overrides.get("cached_features", True):
        return {"cached_features": False}
    is_random = overrides.get("crop", crop) != "none"
    return {"cached_features": True, "views": NUM_VIEWS if is_random else 1}


def check_cut(config: ExperimentConfig) -> None:
    """Raise `InvalidInput` if cut, views and cache are incompatible."""
    if config.trained_from is not None and config.frozen_backbone:
        raise InvalidInput("--frozen_backbone beside --trained_from says twice what is trained. Remove it.")
    if config.trained_from is not None and config.backbone == "token_embedding":
        raise InvalidInput(
            "--trained_from cuts a network in two, but --backbone=token_embedding is one table that is trained as a "
            "whole. Remove it."
        )
    if config.cached_features and config.trained_from is None:
        raise InvalidInput("--cached_features are those below a cut: say where, such as --trained_from=head.")
    if config.cached_features and config.views is None:
        raise InvalidInput("--cached_features need a number of --views of each training image.")
    if (config.views or 1) > 1 and config.crop == "none":
        raise InvalidInput(
            f"--views={config.views} would all be the same image, because --crop=none changes nothing. Remove it."
        )
