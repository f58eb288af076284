"""Kinds of settings of a loss, pooling, backbone and their composers."""

from __future__ import annotations

from experiments.settings.method_names import DANCE, GROUPS, PADS, SHARED, parse_loss, uses_gsp
from experiments.settings.methods.ccp import AnchorSettings, ProjectionSettings
from experiments.settings.methods.composers import MemorySettings, RhoSettings
from experiments.settings.methods.features import (
    DanceSettings,
    FeatureSettings,
    GroupSettings,
    SharedSettings,
    TurnSettings,
)
from experiments.settings.methods.gsp import TransportPoolingSettings, ZeroShotSettings
from experiments.settings.methods.loss_table import ANCHORED_LOSSES, LOSSES
from experiments.settings.methods.pads import PadsSettings
from experiments.settings.provided import OWN_SETTINGS
from experiments.settings.setting import Settings

AROUND: tuple[type[Settings], ...] = (
    RhoSettings,
    PadsSettings,
    MemorySettings,
    FeatureSettings,
    TurnSettings,
    SharedSettings,
    GroupSettings,
    DanceSettings,
    ProjectionSettings,
    AnchorSettings,
    TransportPoolingSettings,
    ZeroShotSettings,
)


def kinds_of_settings() -> tuple[type[Settings], ...]:
    """Return the settings of all losses, composers, poolings and plug-ins."""
    return (*LOSSES.values(), *AROUND, *OWN_SETTINGS.values())


def parts_of(loss: str, method: str, pooling: str, backbone: str = "", dataset: str = "") -> list[type[Settings]]:
    """Return a method's kinds of settings besides those of every run.

    Args:
        loss: its name, with miner, rho, memory and features.
        method: `plain` or `ccp`.
        pooling: its name.
        backbone, dataset: their names; only plug-ins' ones have settings.

    Raises:
        InvalidInput: a loss's name has another form; an unknown loss has no settings.
    """
    name = parse_loss(loss)
    has_part = {
        RhoSettings: name.switches,
        PadsSettings: name.miner == PADS,
        MemorySettings: name.memory,
        FeatureSettings: bool(name.features),
        TurnSettings: name.may_take_turns,
        SharedSettings: SHARED in name.features,
        GroupSettings: GROUPS in name.features,
        DanceSettings: DANCE in name.features,
        ProjectionSettings: method == "ccp",
        AnchorSettings: method == "ccp" and name.base in ANCHORED_LOSSES,
        TransportPoolingSettings: uses_gsp(pooling),
        ZeroShotSettings: uses_gsp(pooling),
    }
    own = [LOSSES[name.base]] if name.base in LOSSES else []
    places = (("pooling", pooling), ("backbone", backbone), ("dataset", dataset))
    plugged = [OWN_SETTINGS[place] for place in places if place in OWN_SETTINGS]
    return [*own, *(kind for kind in AROUND if has_part[kind]), *plugged]
