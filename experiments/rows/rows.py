"""Rows of a study: configuration and measurements of a run or a concatenated collection."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from experiments import reports
from experiments.reports.training_effect import CLOSED_FORM

METRICS = ("MAP@R", "P@1")  # whose sums over the queries of each class are kept
TRAINING, COLLECTION = "training", "collection"
_ENVIRONMENT = (
    *("commit", "python", "tensorflow", "keras", "numpy", "system", "cpu", "cores", "vector_instructions"),
    *("threads", "onednn", "gpus", "deterministic_ops"),
)  # what older runs did not record is null
_PLACE = ("fold", "repeat", "data")  # of `config.json`, beside the fields of the configuration
_TOKENS, _COLLAGES = "synthetic_tokens", "glyph_collage"


class Extras(NamedTuple):
    """Numbers and JSON values for the row, and arrays of any shape for pictures."""

    values: dict
    arrays: dict[str, np.ndarray]


def no_extras(unit: reports.UnitRun) -> Extras:
    """Return empty extras, for studies that keep only measurements."""
    del unit
    return Extras({}, {})


@dataclasses.dataclass(frozen=True)
class ScoredRow:
    """A row and the class sums behind its metrics."""

    row: dict  # JSON values, as `training_row` and `collection_row` make them
    sums: Mapping[str, np.ndarray]  # by metric of `METRICS`, the sum of the queries' scores by class `[classes]`
    labels: np.ndarray  # the classes `[classes]`, ascending
    counts: np.ndarray  # queries of each class `[classes]`
    # what a picture needs beside, by name, any shape
    arrays: Mapping[str, np.ndarray] = dataclasses.field(default_factory=dict)
    source: str = ""  # where it was read, for messages


def has_same_classes(first: ScoredRow, second: ScoredRow) -> bool:
    """Check that two rows have equal test classes and counts of queries."""
    return np.array_equal(first.labels, second.labels) and np.array_equal(first.counts, second.counts)


def row_id(row: Mapping) -> str:
    """Return a row's key: configuration hash (with the data), fold and repeat."""
    if row["kind"] == COLLECTION:
        return f"{row['config_hash']}/collection/{'-'.join(str(repeat) for _, repeat in row['members'])}"
    return f"{row['config_hash']}/{row['fold']}-{row['repeat']}"


def order_of(row: Mapping) -> tuple:
    """Return a sort key: label, configuration, runs before collections, fold, repeat."""
    place = row["members"] if row["kind"] == COLLECTION else [[row["fold"], row["repeat"]]]
    return row["dataset"], row["label"], row["config_hash"], row["kind"] == COLLECTION, place


def training_row(unit: reports.UnitRun) -> dict:
    """Build the row of a finished run, named by its folder and configuration.

    A run without a `config.json` has no data in its row. One without a pooling, such as MNIST's, is labelled by its
    folder.
    """
    result, environment = unit.measured, unit.measured.get("environment") or {}
    configuration = {name: value for name, value in unit.config.items() if name not in _PLACE}
    best = dict(result["validation"]["best"])
    extras = {name: result[name] for name in ("diagnostics", "problems", "features", CLOSED_FORM) if name in result}
    extras |= _perplexities(unit, best.get("step"))
    folder = unit.path.parent
    method, _, config_hash = folder.name.rpartition("-")
    return {
        "kind": TRAINING,
        "command": None,
        "protocol": folder.parent.parent.name,
        "dataset": folder.parent.name,
        "method": method,
        "label": label_of(configuration) if "pooling" in configuration else method,
        "config_hash": config_hash,
        "configuration": configuration,
        "data": unit.config.get("data"),
        "fold": unit.fold,
        "repeat": unit.repeat,
        "seed": result.get("seed"),
        "steps": result["steps"],
        "best_step": best.pop("step", None),
        "validation": best,
        "train_seconds": result["train_seconds"],
        "environment": {name: environment.get(name) for name in _ENVIRONMENT},
        "deviations": list(result.get("deviations", ())),
        "test": unit.test_metrics(),
        "untrained": unit.untrained_metrics(),
        "extras": extras,
    }


def _perplexities(unit: reports.UnitRun, step: int | None) -> dict[str, float]:
    """Return GSP's weight perplexities at the selected validation; otherwise empty."""
    curves = {name: unit.validation_curve(name) for name in ("position_perplexity", "prototype_perplexity")}
    return {name: float(values[steps == step][0]) for name, (steps, values) in curves.items() if step in steps}


def collection_row(training: Mapping, repeats: Sequence[int], test: Mapping[str, float]) -> dict:
    """Build the row of a concatenation of one repeat's model per fold."""
    shared = ("protocol", "dataset", "method", "label", "config_hash", "data")
    members = [[fold, repeat] for fold, repeat in enumerate(repeats)]
    return {"kind": COLLECTION, **{name: training[name] for name in shared}, "members": members, "test": dict(test)}


def label_of(configuration: Mapping) -> str:
    """Name a configuration in its study's table.

    Tokens of figure 5.4 are named by pooling; collages by start and pooling; others by loss, `ccp` and pooling, as in
    folders. Configurations of a study that differ in other fields need labels of their own.
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


def as_line(row: Mapping) -> str:
    """Format a row as a JSON line; NaN raises `ValueError`."""
    return json.dumps(row, sort_keys=True, allow_nan=False, ensure_ascii=False)
