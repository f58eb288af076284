"""Names of methods in the tables of studies, from their configurations alone."""

from __future__ import annotations

from collections.abc import Mapping

_TOKENS, _COLLAGES = "synthetic_tokens", "glyph_collage"


def label_of(configuration: Mapping) -> str:
    """Name a configuration in its study's table.

    Tokens of figure 5.4 are named by pooling; collages by start and pooling; others by loss, `ccp` and pooling, as in
    folders. Configurations of a study that differ in other fields need labels of their own.

    Args:
        configuration: fields of `ExperimentConfig`.
    """
    dataset = configuration["dataset"]
    if dataset == _TOKENS:
        return _pooling(configuration).upper()
    if dataset.startswith(_COLLAGES):
        distilled = ", distilled" if dataset.endswith("_distilled") else ""
        return f"{_start(configuration)}: {configuration['loss']} {_pooling(configuration)}{distilled}"
    ccp = ["ccp"] if configuration["method"] == "ccp" else []
    return "+".join([configuration["loss"], *ccp, configuration["pooling"]])


def _pooling(configuration: Mapping) -> str:
    zero_shot = bool(configuration.get("zero_shot_weight"))
    return configuration["pooling"] + (" + L_ZS" if zero_shot else "")


def _start(configuration: Mapping) -> str:
    if configuration["weights"] == "none":
        return "scratch"
    return "frozen" if configuration.get("frozen_backbone") else "pretrained"
