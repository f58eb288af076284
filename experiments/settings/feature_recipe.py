"""Layers of a loss's features and of PADS; values are in `dissertation_values`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from experiments.settings import dissertation_values as dissertation
from experiments.settings.datasets import traits_of
from experiments.settings.layers import OPEN, Layers
from experiments.settings.method_names import DANCE, GROUPS, HEADS, INTRA, PADS, SHARED, LossName
from experiments.settings.methods.features import BY_SLICE, IN_TURN, JOINT, STANDARDIZED
from experiments.settings.methods.pads import CURRICULA, FIXED, RANDOM, is_interval
from experiments.settings.run_settings import REVISITING

_CUB, _CARS, _SOP = "cub200", "cars196", "sop"
_LIKE = {"folder": _CUB, "manifest": _CUB, _CUB: _CUB, _CARS: _CARS}  # all others: like SOP
_FEW_GROUPS = 4
_SHORT_OUTSIDE = 1e-2  # at a factor of 1.25, a weight of 1e-15 needs 155 decisions to reach 1


def set_features_and_pads(layers: Layers, name: LossName, dataset: str) -> None:
    """Add the layers of a loss's features and miner `pads`, if any."""
    if name.features:
        network = "ibn" if layers.chosen("backbone") == "bn_inception" else "r50"
        _set_features(layers, name, dataset, network)
        _set_batch_and_steps(layers, name, (network, dataset))
    if name.miner == PADS:
        _set_pads(layers, dataset)


def dissertation_chapter(name: LossName, size: int) -> int:
    """Return the chapter with a loss's row at an embedding size; 2: the benchmark."""
    if name.miner == PADS:
        return 5
    if {HEADS, INTRA, DANCE} & {*name.features} or (name.base == "margin" and size in dissertation.CHAPTER_4_SIZES):
        return 4
    is_baseline = size == dissertation.CHAPTER_3_SIZE and name.base in dissertation.CHAPTER_3_IMAGES
    return 3 if name.features or is_baseline else 2


def _set_features(layers: Layers, name: LossName, dataset: str, network: str) -> None:
    of_code, like = layers.values["recipe"] == "published_code", _LIKE.get(dataset, _SOP)
    place, chapter_3 = (network, like), "shared features, chapter 3"
    decorrelation, weight, _ = (dissertation.DIVA_CODE.get(place) if of_code else None) or dissertation.DIVA[place]
    source = "published code of DiVA" if of_code else "DiVA, table 4.1"
    if dataset not in (_CUB, _CARS, _SOP):
        source = f"ours, after {source}"
    chapter = dissertation_chapter(name, layers.chosen("embedding_dim"))
    of_chapter_4 = chapter == 4 and layers.values["recipe"] == REVISITING and not layers.chosen("single_encoder")
    if name.may_take_turns:
        in_turn = len(name.features) == 1 and layers.values["method"] != "ccp" and not of_chapter_4
        of_schedule = "shared features, algorithm 1" if in_turn else "DiVA, equation 4.11"
        layers.set(of_schedule, {"feature_schedule": IN_TURN if in_turn else JOINT})
    if SHARED in name.features:
        layers.set(chapter_3, {"shared_triplets": "inter_class"})
        if layers.chosen("shared_triplets") == "inter_class":
            layers.set(chapter_3, {"shared_negatives": "distance"})
            layers.set("published code of shared features", {"shared_positives": "uniform"})
    num_groups, of_mic = dissertation.MIC.get(dataset, dissertation.MIC[like])
    if GROUPS in name.features:
        layers.set("published code of MIC", {"num_groups": num_groups, "group_epochs": dissertation.GROUP_EPOCHS})
        group_by = ("published code of MIC", BY_SLICE) if of_code else (chapter_3, STANDARDIZED)
        layers.set(group_by[0], {"group_by": group_by[1]})
        if layers.values["budget"] == "smoke":
            layers.set("--budget=smoke", {"num_groups": _FEW_GROUPS, "group_epochs": 1})
    if name.features == (SHARED,) and not of_chapter_4:
        single = bool(layers.chosen("single_encoder"))
        gamma = 0.0 if single else (dissertation.SHARED_ALONE_CODE if of_code else dissertation.SHARED_ALONE)
        layers.set("--single_encoder" if single else OPEN, {"decorrelation": gamma})
    elif name.features == (GROUPS,):
        gamma = of_mic if of_code else dissertation.SHARED_ALONE
        layers.set("published code of MIC" if of_code else OPEN, {"decorrelation": gamma})
    else:
        layers.set(source, {"decorrelation": decorrelation})
    layers.set(OPEN, {"decorrelation_reduction": "mean"})
    if not (name.may_take_turns and layers.chosen("feature_schedule") == IN_TURN):
        alike = HEADS in name.features  # one task, of one weight
        layers.set(OPEN if alike else source, {"feature_weight": 1.0 if alike else weight})
    if DANCE in name.features:
        layers.set("DiVA, table 4.1", {"dance_temperature": 0.01})
        batches = 70 if dataset == _SOP else 30
        layers.set("published code of DiVA", {"dance_queue_batches": batches, "dance_weights": "anchor"})


def _set_batch_and_steps(layers: Layers, name: LossName, place: tuple[str, str]) -> None:
    """Adjust the batch and the budget's number of steps to the features.

    Intra-class triplets need three images per class; they get four, and the batch keeps its size. Two alternating
    tasks take two steps for each step of one loss. DiVA's learning rate drops once, if nothing else changes it.
    """
    values, of_benchmark = layers.values, layers.values["recipe"] == REVISITING
    if INTRA in name.features and values["samples_per_class"] < 3:
        batch = values["classes_per_batch"] * values["samples_per_class"]
        layers.set("the features", {"samples_per_class": 4, "classes_per_batch": max(2, batch // 4)})
    if name.may_take_turns and layers.chosen("feature_schedule") == IN_TURN:
        layers.set("tasks that take turns", {each: 2 * values[each] for each in ("max_steps", "steps_per_evaluation")})
    is_constant = not (layers.given.get("plateau_patience") or "learning_rate_schedule" in layers.given)
    if {SHARED, INTRA, DANCE} == {*name.features} and of_benchmark and place in dissertation.DIVA and is_constant:
        step = dissertation.DIVA[place][2] * dissertation.STEPS_PER_EPOCH[place[1]]
        if step < layers.chosen("max_steps"):
            layers.set("DiVA, table 4.1", {"rate_drop_step": step, "rate_drop_factor": dissertation.DIVA_DROP})


def _set_pads(layers: Layers, dataset: str) -> None:
    short, of_code = layers.values["budget"] != "full", "published code of PADS"
    by = "classes" if traits_of(dataset).large else "images"
    layers.set("PADS, chapter 5", {**dissertation.PADS, "pads_by": by})
    layers.set(of_code, {"pads_learning_rate": 0.01})
    if is_interval(layers.chosen("pads_start")):
        outside = _SHORT_OUTSIDE if short else dissertation.PADS_OUTSIDE
        layers.set(OPEN if short else of_code, {"pads_outside": outside})
    if layers.values["recipe"] == "published_code":
        changes = dissertation.PADS_CODE.get(dataset, dissertation.PADS_CODE["inshop"])
        layers.set(of_code, {**changes, "pads_draws": "candidates"})
    if layers.values["budget"] == "smoke":
        layers.set("--budget=smoke", {"pads_steps": 2})


def settings_with_effect(values: Mapping[str, Any]) -> dict[str, bool]:
    """Return whether each dependent setting of features and PADS has an effect."""
    in_turn, triplets = values.get("feature_schedule") == IN_TURN, values.get("shared_triplets")
    estimator = values.get("pads_estimator")
    taught = estimator not in (FIXED, RANDOM, *CURRICULA)
    return {
        "feature_weight": not in_turn,
        "decorrelation_reduction": bool(values.get("decorrelation")),
        "shared_negatives": triplets != "permuted",
        "shared_positives": triplets != "permuted",
        "pads_start": estimator not in CURRICULA,
        "pads_outside": is_interval(values.get("pads_start", "")) and estimator not in CURRICULA,
        "pads_steps": estimator != FIXED,
        "pads_reward": taught,
        "pads_state": taught,
        "pads_windows": taught,
        "pads_learning_rate": taught,
    }
