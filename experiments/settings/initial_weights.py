"""Initial weights of a backbone: whether they can be had, what they are, and the file that a command names."""

from __future__ import annotations

import functools
import os
from typing import NamedTuple

from common import backbones
from common.downloads.fingerprint import file_digest
from common.errors import InvalidInput, invalid

# Networks whose ImageNet parameters Keras fetches by itself; those of others have to be converted, or there are none.
FETCHED_BY_KERAS = ("resnet50", *backbones.KERAS_APPLICATIONS)


class WeightsFile(NamedTuple):
    """A file of parameters, as an experiment's configuration knows it.

    Attributes:
        digest: `sha256:` of the file; of a converted one `parameters-sha256:`, the same on every machine.
        source_sha256: of the published file that it was made from; None where it does not say.
    """

    digest: str
    source_sha256: str | None = None


def weights_file(path: str) -> WeightsFile:
    """What the file of parameters at `path` is; read once as long as it does not change.

    Raises:
        InvalidInput: it cannot be read.
    """
    try:
        status = os.stat(path)
        return _weights_file(path, status.st_size, status.st_mtime_ns)
    except OSError as error:
        raise InvalidInput(
            f"Invalid --weights: {path} cannot be read ({error.strerror}). Give `none` or the path of an .npz file; "
            "`python -m experiments.convert_weights` makes one of published parameters."
        ) from error


@functools.lru_cache(maxsize=16)
def _weights_file(path: str, size: int, modified: int) -> WeightsFile:
    del size, modified
    record = backbones.read_record(path) if path.endswith(".npz") else None
    if record is None:
        return WeightsFile(f"sha256:{file_digest(path)}")
    return WeightsFile(f"parameters-sha256:{record.parameters_sha256}", record.source_sha256)


def is_file(weights: str) -> bool:
    """Whether `weights` of a configuration names a file."""
    return weights not in ("none", "imagenet", backbones.PRESET_WEIGHTS)


def preset_name(backbone: str) -> str:
    """What keras-hub calls the preset of a backbone `kerashub:PRESET`."""
    return backbone.removeprefix(backbones.PRESET_PREFIX)


def preset_digest(backbone: str, weights: str) -> str | None:
    """`sha256:` of the files of a preset in a folder of this machine; None for one that keras-hub fetches by name."""
    digest = backbones.preset_digest(preset_name(backbone), with_weights=weights == backbones.PRESET_WEIGHTS)
    return None if digest is None else f"sha256:{digest}"


def check_weights(backbone: str, weights: str) -> None:
    """Refuses, without the network, weights that cannot be fetched and files that cannot be read.

    Raises:
        InvalidInput: with the command that makes the file, where there is one.
    """
    if (weights == backbones.PRESET_WEIGHTS) != backbones.is_preset(backbone) and weights != "none":
        kind = f"{backbones.PRESET_WEIGHTS} or none" if backbones.is_preset(backbone) else "none, imagenet or a file"
        raise invalid("--weights", received=weights, expected=f"{kind} for --backbone={backbone}")
    if is_file(weights):
        weights_file(weights)
    elif weights == "imagenet" and backbone not in FETCHED_BY_KERAS:
        fix = f"There are no ImageNet weights for {backbone}."
        if backbones.checkpoints_of(backbone):
            fix = f"{backbones.conversion_instructions(backbone)}{_of_keras(backbone)}"
        raise invalid("--weights", received=weights, expected="none or the path of an .npz file", fix=fix)


def _of_keras(backbone: str) -> str:
    """A sentence on the network of keras.applications that is spelled alike, where there is one."""
    letters = backbone.replace("_", "").lower()
    alike = [name for name in backbones.KERAS_APPLICATIONS if name.lower() == letters]
    return "".join(
        f" Or give --backbone={name}: keras.applications' own, which downloads its weights." for name in alike
    )


def file_to_make(backbone: str, weights: str) -> str | None:
    """The file that `experiments.convert_weights` has to make before these weights can be had, or None."""
    must_be_made = weights == "imagenet" and backbone not in FETCHED_BY_KERAS and backbones.checkpoints_of(backbone)
    return f"{backbone}.npz" if must_be_made else None
