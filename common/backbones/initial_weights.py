"""Backbones by name, and their initial weights: availability, identity, the command's file."""

from __future__ import annotations

import functools
import os
from typing import NamedTuple

from common import backbones
from common.backbones.network_names import TRANSFORMERS
from common.errors import InvalidInput, invalid
from common.files import file_digest

# Networks whose ImageNet parameters need no file: Keras fetches them, or this package has them.
WITHOUT_FILE = ("resnet50", *backbones.KERAS_APPLICATIONS, *backbones.PACKAGED_WEIGHTS)
A_TRANSFORMER = f"{', '.join(TRANSFORMERS)} or kerashub:PRESET"


class WeightsFile(NamedTuple):
    """A file of parameters, as the configuration identifies it."""

    digest: str  # `sha256:` of the file; `parameters-sha256:` of a converted one, equal on every machine
    source_sha256: str | None = None  # of the published file that it was made from; None if not recorded


def weights_file(path: str) -> WeightsFile:
    """Identify the file of parameters at `path`, cached until it changes."""
    try:
        status = os.stat(path)
        return _weights_file(path, status.st_size, status.st_mtime_ns)
    except OSError as error:
        raise InvalidInput(
            f"Invalid --weights: {path} cannot be read ({error.strerror}). Give `none` or the path of a file "
            "(.npz, .pth, .safetensors); `python -m experiments.convert_weights` makes one of published parameters."
        ) from error


@functools.lru_cache(maxsize=16)
def _weights_file(path: str, size: int, modified: int) -> WeightsFile:
    del size, modified
    record = backbones.read_record(path) if path.endswith(".npz") else None
    if record is None:
        digest = file_digest(path)
        return WeightsFile(f"sha256:{digest}", digest if backbones.is_checkpoint(path) else None)
    return WeightsFile(f"parameters-sha256:{record.parameters_sha256}", record.source_sha256)


def is_file(weights: str) -> bool:
    """Return whether `weights` of a configuration names a file."""
    return weights not in ("none", "imagenet", backbones.PRESET_WEIGHTS)


def may_be_transformer(backbone: str) -> bool:
    """Return whether a backbone's name suggests tokens; presets may prove convolutional."""
    return backbone in TRANSFORMERS or backbones.is_preset(backbone)


def preset_name(backbone: str) -> str:
    """Return keras-hub's preset name in a backbone `kerashub:PRESET`."""
    return backbone.removeprefix(backbones.PRESET_PREFIX)


def preset_digest(backbone: str, weights: str) -> str | None:
    """Return `sha256:` of a local preset's files; None if fetched by name."""
    digest = backbones.preset_digest(preset_name(backbone), with_weights=weights == backbones.PRESET_WEIGHTS)
    return None if digest is None else f"sha256:{digest}"


def check_weights(backbone: str, weights: str) -> None:
    """Refuse unavailable weights and unreadable files, without network access."""
    if (weights == backbones.PRESET_WEIGHTS) != backbones.is_preset(backbone) and weights != "none":
        kind = f"{backbones.PRESET_WEIGHTS} or none" if backbones.is_preset(backbone) else "none, imagenet or a file"
        raise invalid("--weights", received=weights, expected=f"{kind} for --backbone={backbone}")
    if is_file(weights):
        weights_file(weights)
    elif weights == "imagenet" and backbone not in WITHOUT_FILE:
        fix = f"There are no ImageNet weights for {backbone}."
        if backbones.checkpoints_of(backbone):
            fix = f"{backbones.conversion_instructions(backbone)}{_of_keras(backbone)}"
        expected = "none or the path of a file (.npz, .pth, .safetensors)"
        raise invalid("--weights", received=weights, expected=expected, fix=fix)


def _of_keras(backbone: str) -> str:
    """Return a sentence on keras.applications' network with the same spelling, if any."""
    letters = backbone.replace("_", "").lower()
    alike = [name for name in backbones.KERAS_APPLICATIONS if name.lower() == letters]
    return "".join(
        f" Or give --backbone={name}: keras.applications' own, which downloads its weights." for name in alike
    )


def file_to_make(backbone: str, weights: str) -> str | None:
    """Return the file that `experiments.convert_weights` must make first, or None."""
    must_be_made = weights == "imagenet" and backbone not in WITHOUT_FILE and backbones.checkpoints_of(backbone)
    return f"{backbone}.npz" if must_be_made else None
