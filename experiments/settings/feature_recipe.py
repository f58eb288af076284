"""Layers of a loss's features and of PADS; values are in `dissertation_values`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from experiments.settings import dissertation_values as dissertation
from experiments.settings.layers import OPEN, Layers
from experiments.settings.method_names import DANCE, GROUPS, INTRA, PADS, SHARED, LossName
from experiments.settings.methods.features import BY_SLICE, IN_TURN, JOINT, STANDARDIZED
from experiments.settings.methods.pads import FIXED, RANDOM, is_interval
from experiments.settings.run_settings import REVISITING
from experiments.settings.thesis_values import LARGE_DATASETS

_CUB, _CARS, _SOP = "cub200", "cars196", "sop"
_LIKE = {"folder": _CUB, "manifest": _CUB, _CUB: _CUB, _CARS: _CARS}  # all others: like SOP
_FEW_GROUPS = 4
_SHORT_OUTSIDE = 1e-2  # at a factor of 1.25, a weight of 1e-15 needs 155 decisions to reach 1


def set_features_and_pads(layers: Layers, name: LossName, dataset: str, overrides: Mapping[str, Any]) -> None:
    """Add the layers of a loss's features and miner `pads`, if any.

    Args:
        layers: with the method, and the recipe's and budget's batches and steps.
        name: of the loss.
        dataset: whose recipe is taken.
        overrides: values given by hand.
    """
    backbone = overrides.get("backbone", layers.values["backbone"])
    if name.features:
        _set_features(layers, name, dataset, backbone, overrides)
        _set_steps(layers, name, dataset, backbone, overrides)
    if name.miner == PADS:
        _set_pads(layers, dataset, overrides)


def _set_features(layers: Layers, name: LossName, dataset: str, backbone: str, overrides: Mapping[str, Any]) -> None:
    values = layers.values
    network = "ibn" if backbone == "bn_inception" else "r50"
    place, of_code = (network, _LIKE.get(dataset, _SOP)), values["recipe"] == "published_code"
    decorrelation, weight, _ = (dissertation.DIVA_CODE.get(place) if of_code else None) or dissertation.DIVA[place]
    source = "published code of DiVA" if of_code else "DiVA, table 4.1"
    if dataset not in (_CUB, _CARS, _SOP):
        source = f"ours, after {source}"
    schedule = None
    if name.may_take_turns:
        _set_turns(layers, name)
        schedule = overrides.get("feature_schedule", values["feature_schedule"])
    if SHARED in name.features:
        _set_shared(layers, overrides)
    if GROUPS in name.features:
        _set_groups(layers, dataset)
    if name.features == (SHARED,):
        single = bool(overrides.get("single_encoder"))
        gamma = 0.0 if single else (dissertation.SHARED_ALONE_CODE if of_code else dissertation.SHARED_ALONE)
        layers.set("--single_encoder" if single else OPEN, {"decorrelation": gamma})
    elif name.features == (GROUPS,):
        gamma = dissertation.MIC.get(dataset, dissertation.MIC[place[1]])[1] if of_code else dissertation.SHARED_ALONE
        layers.set("published code of MIC" if of_code else OPEN, {"decorrelation": gamma})
    else:
        layers.set(source, {"decorrelation": decorrelation})
    layers.set(OPEN, {"decorrelation_reduction": "mean"})
    if schedule != IN_TURN:
        layers.set(source, {"feature_weight": weight})
    if DANCE in name.features:
        layers.set("DiVA, table 4.1", {"dance_temperature": 0.01})
        batches = 70 if place[1] == _SOP and dataset == _SOP else 30
        layers.set("published code of DiVA", {"dance_queue_batches": batches, "dance_weights": "anchor"})
    _set_images_per_class(layers, name)


def _set_turns(layers: Layers, name: LossName) -> None:
    in_turn = len(name.features) == 1 and layers.values["method"] != "ccp"
    source = "shared features, algorithm 1" if in_turn else "DiVA, equation 4.11"
    layers.set(source, {"feature_schedule": IN_TURN if in_turn else JOINT})


def _set_groups(layers: Layers, dataset: str) -> None:
    of_code = layers.values["recipe"] == "published_code"
    num_groups, _ = dissertation.MIC.get(dataset, dissertation.MIC[_LIKE.get(dataset, _SOP)])
    layers.set("published code of MIC", {"num_groups": num_groups, "group_epochs": dissertation.GROUP_EPOCHS})
    if of_code:
        layers.set("published code of MIC", {"group_by": BY_SLICE})
    else:
        layers.set("shared features, chapter 3", {"group_by": STANDARDIZED})
    if layers.values["budget"] == "smoke":
        layers.set("--budget=smoke", {"num_groups": _FEW_GROUPS, "group_epochs": 1})


def _set_shared(layers: Layers, overrides: Mapping[str, Any]) -> None:
    layers.set("shared features, chapter 3", {"shared_triplets": "inter_class"})
    if overrides.get("shared_triplets", "inter_class") == "inter_class":
        layers.set("shared features, chapter 3", {"shared_negatives": "distance"})
        layers.set("published code of shared features", {"shared_positives": "uniform"})


def _set_images_per_class(layers: Layers, name: LossName) -> None:
    """Set four images per class (intra-class triplets need three); keep the batch."""
    values = layers.values
    wants = INTRA in name.features or (SHARED in name.features and values["recipe"] == REVISITING)
    if wants and values["samples_per_class"] < 3:
        batch = values["classes_per_batch"] * values["samples_per_class"]
        layers.set("the features", {"samples_per_class": 4, "classes_per_batch": max(2, batch // 4)})


def _set_steps(layers: Layers, name: LossName, dataset: str, backbone: str, overrides: Mapping[str, Any]) -> None:
    """Adjust the budget's number of steps to the features.

    Two alternating tasks take two steps for each step of one loss.
    """
    values = layers.values
    schedule = overrides.get("feature_schedule", values.get("feature_schedule"))
    if name.may_take_turns and schedule == IN_TURN:
        doubled = {each: 2 * values[each] for each in ("max_steps", "steps_per_evaluation")}
        layers.set("tasks that take turns", doubled)
    place = ("ibn" if backbone == "bn_inception" else "r50", dataset)
    is_constant = not (overrides.get("plateau_patience") or "learning_rate_schedule" in overrides)
    if (
        {SHARED, INTRA, DANCE} == {*name.features}
        and values["recipe"] == REVISITING
        and place in dissertation.DIVA
        and is_constant
    ):
        step = dissertation.DIVA[place][2] * dissertation.STEPS_PER_EPOCH[dataset]
        if step < overrides.get("max_steps", values["max_steps"]):
            layers.set("DiVA, table 4.1", {"rate_drop_step": step, "rate_drop_factor": dissertation.DIVA_DROP})


def _set_pads(layers: Layers, dataset: str, overrides: Mapping[str, Any]) -> None:
    values = layers.values
    of_code, short = values["recipe"] == "published_code", values["budget"] != "full"
    by = "classes" if dataset in LARGE_DATASETS else "images"
    layers.set("PADS, chapter 5", {**dissertation.PADS, "pads_by": by})
    layers.set("published code of PADS", {"pads_learning_rate": 0.01})
    if is_interval(overrides.get("pads_start", values["pads_start"])):
        source = OPEN if short else "published code of PADS"
        layers.set(source, {"pads_outside": _SHORT_OUTSIDE if short else dissertation.PADS_OUTSIDE})
    if of_code:
        changes = dissertation.PADS_CODE.get(dataset, dissertation.PADS_CODE["inshop"])
        layers.set("published code of PADS", {**changes, "pads_draws": "candidates"})
    if values["budget"] == "smoke":
        layers.set("--budget=smoke", {"pads_steps": 2})


def settings_with_effect(values: Mapping[str, Any]) -> dict[str, bool]:
    """Return whether each dependent setting of features and PADS has an effect."""
    in_turn, triplets = values.get("feature_schedule") == IN_TURN, values.get("shared_triplets")
    estimator = values.get("pads_estimator")
    taught = estimator not in (FIXED, RANDOM)
    return {
        "feature_weight": not in_turn,
        "decorrelation_reduction": bool(values.get("decorrelation")),
        "shared_negatives": triplets != "permuted",
        "shared_positives": triplets != "permuted",
        "pads_outside": is_interval(values.get("pads_start", "")),
        "pads_steps": estimator != FIXED,
        "pads_reward": taught,
        "pads_learning_rate": taught,
    }
