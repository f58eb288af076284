"""Transformers and their update rule: recipe values and checks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from common import backbones
from common.backbones.network_names import HEAD
from common.errors import InvalidInput, invalid

if TYPE_CHECKING:
    from experiments.settings.config import ExperimentConfig

TRANSFORMERS = ("vit_small_16", "vit_base_16")
CLASS_TOKEN_POOLING = "cls"
COSINE, ADAMW = "cosine", "adamw"
_IMAGE_SIZE = 224  # of photographs; a multiple of patches of 14 and of 16 pixels
_SMOKE_IMAGE_SIZE = 112


def may_be_transformer(backbone: str) -> bool:
    """Return whether a backbone's name suggests tokens; presets may prove convolutional."""
    return backbone in TRANSFORMERS or backbones.is_preset(backbone)


def backbone_settings(backbone: str, of_photographs: bool, budget: str) -> dict:
    """Return a transformer's implied fields: weights, and a fitting image size.

    Args:
        backbone: its name.
        of_photographs: whether images are cut from files; others have their own size.
        budget: the length of training.
    """
    values: dict = {"weights": backbones.PRESET_WEIGHTS} if backbones.is_preset(backbone) else {}
    if of_photographs and may_be_transformer(backbone):
        values["image_size"] = _SMOKE_IMAGE_SIZE if budget == "smoke" else _IMAGE_SIZE
    return values


def update_settings(overrides: dict, budget: str) -> dict:
    """Return the fields implied by a learning-rate schedule, which excludes plateau halving.

    Args:
        overrides: the fields set by hand.
        budget: the length of training.

    Raises:
        InvalidInput: a schedule over steps, with a recipe that names none.
    """
    if overrides.get("learning_rate_schedule") != COSINE:
        return {}
    if budget == "full" and "max_steps" not in overrides:
        raise InvalidInput(
            "--learning_rate_schedule=cosine falls to 0 at --max_steps, which --budget=full leaves open: "
            "validation ends a run. Give --max_steps."
        )
    return {"plateau_patience": 0}


def check_update(config: ExperimentConfig) -> None:
    """Raise `InvalidInput` if backbone, rates and schedule are incompatible."""
    if config.learning_rate_schedule == COSINE and config.plateau_patience:
        raise InvalidInput(
            f"--plateau_patience={config.plateau_patience} beside --learning_rate_schedule=cosine sets the learning "
            "rate twice. Remove one of them."
        )
    _check_drop(config)
    if config.layer_decay is None:
        return
    if not may_be_transformer(config.backbone):
        raise invalid(
            "--layer_decay",
            received=f"{config.layer_decay} for --backbone={config.backbone}",
            expected=f"a transformer: {', '.join(TRANSFORMERS)} or kerashub:PRESET",
        )
    if config.frozen_backbone or config.trained_from == HEAD:
        raise InvalidInput("--layer_decay would have no effect on a backbone that is not trained. Remove it.")


def _check_drop(config: ExperimentConfig) -> None:
    step, factor = config.rate_drop_step, config.rate_drop_factor
    if (step is None) != (factor is None):
        raise InvalidInput(
            f"--rate_drop_step={step} and --rate_drop_factor={factor}: when the rate drops and how far are given "
            "together, or neither."
        )
    if step is None:
        return
    if config.learning_rate_schedule == COSINE or config.plateau_patience:
        other = "--learning_rate_schedule=cosine" if config.learning_rate_schedule == COSINE else "--plateau_patience"
        raise InvalidInput(f"--rate_drop_step={step} beside {other} sets the learning rate twice. Remove one of them.")
    if step >= config.max_steps:
        raise InvalidInput(
            f"--rate_drop_step={step} would have no effect in --max_steps={config.max_steps}. Give less of the one or "
            "more of the other."
        )
