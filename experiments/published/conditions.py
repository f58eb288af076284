"""Conditions that make a run and a published figure incomparable."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from common.backbones import checkpoints_of, published_checkpoint
from common.data.image_folder import OWN_IMAGES
from experiments.published.values import DISSERTATION, PublishedValue
from experiments.settings.run_settings import REVISITING

# What a run must have in common with a printed fair-protocol row. Tuples are alternatives: the printed figures come
# from the published code and are described by the text, so a run of either recipe is measured against them.
FAIR_CONDITIONS: Mapping[str, object] = {
    "recipe": ("thesis", "published_code"),
    "budget": "full",
    "backbone": "bn_inception",
    "weights": "imagenet",
    "embedding_dim": 128,
    "image_size": 227,
    "num_folds": 4,
}
NORMALIZATION = {"3.1": "clip", "5.1": "unit", "5.3": "unit", "ICCV-1": "unit", "ICCV-2": "unit"}

_NETWORKS = {"ResNet50": "resnet50", "BN-Inception": "bn_inception"}  # as the dissertation's tables call them
_IMAGE_SIZE = 224  # for both
_WITHOUT_EFFECT = ("seed", "ccp_keeps_problems")  # fields that decide nothing a printed figure was averaged over


def fair_conditions(table: str) -> dict[str, object]:
    """Return the configuration required for comparison with fair-protocol rows of `table`.

    Reference: thesis sections 3.3.2 and 5.3.4.1; chapter 3 clips the norm, chapter 5 uses the unit norm.
    """
    conditions = dict(FAIR_CONDITIONS)
    if table in NORMALIZATION:
        conditions["normalization"] = NORMALIZATION[table]
    return conditions


def conditions_of(published: PublishedValue) -> dict[str, object]:
    """Return the fair-protocol settings required for comparison with a printed cell.

    A cell of Milbich's dissertation, which has no fair protocol, requires the conventional one.
    """
    if published.table.startswith(DISSERTATION):
        return dissertation_conditions(_NETWORKS[published.backbone], int(published.dim))
    return fair_conditions(published.table)


def dissertation_conditions(backbone: str, dim: int) -> dict[str, object]:
    """Return the configuration required for comparison with Milbich's dissertation.

    Reference: its sections 2.3, 3.2, 4.3 and 5.4.
    """
    return {
        "protocol": "conventional",
        "recipe": REVISITING,
        "budget": "full",
        "backbone": backbone,
        "weights": "imagenet",
        "embedding_dim": dim,
        "image_size": _IMAGE_SIZE,
    }


def deviation_sentence(deviation: str) -> str:
    """Describe how data differ from the official ones, or note custom data."""
    own = deviation.partition(": ")[2]
    if own.startswith(OWN_IMAGES):
        return f"{own[0].upper()}{own[1:]}."
    return f"The data differ from the official ones: {deviation}."


def incomparable_reasons(
    config: Mapping[str, object],
    conditions: Mapping[str, object],
    deviations: Sequence[str] = (),
    departures: Mapping[str, object] | None = None,
) -> list[str]:
    """List the reasons against comparing a run with a table, if any.

    Args:
        config: the run's configuration. A condition that it does not state counts as a
            difference. Weights are judged by what they are: `imagenet` asks for a published checkpoint of the network,
            whatever the file was called.
        conditions: required values by name, e.g. `fair_conditions("5.1")`; a tuple lists alternatives.
        deviations: how the data set on disk differs from the official one.
        departures: the recipe's values of fields that were set by hand; what `conditions` names is judged by them.
    """
    reasons = [f"data set: {deviation}" for deviation in dict.fromkeys(deviations)]
    for name, wanted in conditions.items():
        choices = wanted if isinstance(wanted, tuple) else (wanted,)
        if name not in config:
            reasons.append(f"{name} is not stated")
        elif name == "weights" and wanted == "imagenet":
            reasons += _objections_to_weights(config)
        elif config[name] not in choices:
            reasons.append(f"{name} is {config[name]}, the table's is {' or '.join(map(str, choices))}")
    for name, wanted in (departures or {}).items():
        if name not in conditions and name not in _WITHOUT_EFFECT:
            reasons.append(f"{name} is {config.get(name)}, the recipe's is {wanted}")
    return reasons


def _objections_to_weights(config: Mapping[str, object]) -> list[str]:
    """List why a run's initial weights are not its network's ImageNet weights."""
    weights, source = config["weights"], config.get("weights_source")
    if weights == "imagenet":
        return []
    if weights == "none" or not source:
        unknown = "" if weights == "none" else " (a file that does not record what it was made from)"
        return [f"weights is {weights}{unknown}, the table's is imagenet"]
    backbone = str(config.get("backbone"))
    if published_checkpoint(backbone, str(source)):
        return []
    known = ", ".join(checkpoint.name for checkpoint in checkpoints_of(backbone)) or "none"
    return [
        f"weights were made from a file with SHA-256 {str(source)[:12]}..., which is no published ImageNet checkpoint "
        f"of {backbone} (known: {known})"
    ]
