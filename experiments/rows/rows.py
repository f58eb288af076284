"""Rows of finished runs and of concatenated models, kept in their folders.

A row is written at a run's end, or made from its test embeddings when first read. A run's folder keeps `row.json` and
`class_scores.npz`; a configuration's folder keeps `collections.npz`, the scores of its concatenated models. Each names
the results that it was made of, and is made again when these change. Where a folder cannot be written, rows are made in
memory.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import itertools
import json
import pathlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from common import retrieval
from common.errors import InvalidInput
from common.files import read_arrays, read_json, write_arrays, write_json
from common.records.run_directory import TEST_EMBEDDINGS
from common.retrieval.metrics import TABLE_METRICS
from experiments.parts.datasets import traits_of
from experiments.rows.run_folders import CLOSED_FORM, VALIDATED_BEFORE, UnitRun

_FIRST_METRICS = ("MAP@R", "P@1")  # of files of concatenated models that do not say which they hold
TRAINING, COLLECTION = "training", "collection"
_ENVIRONMENT = (
    *("commit", "python", "tensorflow", "keras", "numpy", "system", "cpu", "cores", "vector_instructions"),
    *("threads", "onednn", "gpus", "deterministic_ops"),
)  # what older runs did not record is null
_PLACE = ("fold", "repeat", "data")  # of `config.json`, beside the fields of the configuration
OF_CLASSES = ("labels", "counts", "families")  # of files of class sums, beside the sums of each metric
ROW, CLASS_SCORES, COLLECTIONS = "row.json", "class_scores.npz", "collections.npz"
_FORMAT = 1  # of these files
_DIGITS = 6  # of validation curves
_TOLERANCE = 1e-3  # of a metric: other hardware, or another number of threads, rounds in another way


class Extras(NamedTuple):
    """Numbers and JSON values for the row, and arrays of any shape for pictures."""

    values: dict
    arrays: dict[str, np.ndarray]


def no_extras(unit: UnitRun) -> Extras:
    """Return empty extras, for studies that keep only measurements."""
    del unit
    return Extras({}, {})


@dataclasses.dataclass(frozen=True, eq=False)
class Row(Mapping[str, Any]):
    """JSON values of a run, or of concatenated models, with their class sums."""

    json: dict  # as `training_row` and `collection_row` make it
    sums: Mapping[str, np.ndarray]  # by metric, the sum of the queries' scores by class `[classes]`
    labels: np.ndarray  # the classes `[classes]`, ascending
    counts: np.ndarray  # queries of each class `[classes]`
    families: np.ndarray | None = None  # of each class `[classes]`, as `Examples.families`; None: independent classes
    # what a picture needs beside, by name, any shape
    arrays: Mapping[str, np.ndarray] = dataclasses.field(default_factory=dict)
    source: str = ""  # where it was read, for messages

    def __getitem__(self, name: str) -> Any:
        return self.json[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.json)

    def __len__(self) -> int:
        return len(self.json)

    @property
    def classes(self) -> dict[str, np.ndarray]:
        """The test classes: labels, counts and, if any, families."""
        arrays = zip(OF_CLASSES, (self.labels, self.counts, self.families))
        return {name: values for name, values in arrays if values is not None}

    def has_classes_of(self, other: Row) -> bool:
        """Check that another row has equal test classes and counts of queries."""
        return np.array_equal(self.labels, other.labels) and np.array_equal(self.counts, other.counts)


def row_of(unit: UnitRun) -> Row:
    """Return a finished run's row, from its folder if current."""
    version = _version(unit)
    found = _stored_row(unit.path, version)
    if found is None:
        row, embeddings = training_row(unit), unit.test_embeddings()
        result = evaluate_embeddings(embeddings, row["dataset"])
        further = {name: value for name, value in result.figures.items() if name not in row["test"]}
        row["test"] |= further | {name: result.figures[name] for name in TABLE_METRICS}
        found = Row(row, *_class_scores(result, embeddings), source=str(unit.path))
        arrays = {**found.sums, **found.classes, "version": np.array(version)}
        with contextlib.suppress(OSError, ValueError):  # an unwritable folder, or a figure that is no number
            write_arrays(unit.path / CLASS_SCORES, arrays)
            write_json(unit.path / ROW, {"version": version, "row": row})
    return found


def collection_rows(units: Sequence[UnitRun], num_folds: int) -> list[Row]:
    """Return a row per choice of one repeat of every fold, if any."""
    by_place = {(unit.fold, unit.repeat): unit for unit in units}
    repeats = repeats_of_all_folds(by_place, num_folds)
    if not repeats:
        return []
    singles = [row_of(by_place[fold, repeat]) for fold in range(num_folds) for repeat in range(repeats)]
    check_same_queries(singles)
    path, versions = units[0].path.parent / COLLECTIONS, {place: _version(unit) for place, unit in by_place.items()}
    known, found = _stored_collections(path, singles[0]), {}
    if any(singles[0].sums.keys() - scored.sums.keys() for scored in known.values()):
        known = {}  # made before a column of the single runs
    for members in itertools.product(range(repeats), repeat=num_folds):
        version = _digest([versions[place] for place in enumerate(members)])
        found[version] = known.get(version) or _joined([by_place[place] for place in enumerate(members)], singles[0])
    if found.keys() - known.keys():
        with contextlib.suppress(OSError):
            write_arrays(path, _as_arrays(found))
    return [*found.values()]


def check_same_queries(rows: Sequence[Row]) -> None:
    """Refuse to average or subtract runs tested on different queries."""
    for scored in rows:
        if not scored.has_classes_of(rows[0]):
            raise InvalidInput(
                f"The test embeddings of {scored.source} are of other queries than those of {rows[0].source}, so that "
                "the two cannot be compared. Delete the wrong folder, and repeat the command that made it."
            )


def repeats_of_all_folds(places: Collection[tuple[int, int]], num_folds: int) -> int:
    """Count the repeats that every fold has."""
    repeats = 0
    while num_folds and all((fold, repeats) in places for fold in range(num_folds)):
        repeats += 1
    return repeats


def check_of_one_run(folder: pathlib.Path, what: str, found: Mapping[str, float], stated) -> None:
    """Check that a file's metrics equal, up to rounding, the run's result."""
    stated = stated if isinstance(stated, Mapping) else {}
    for metric in [name for name in TABLE_METRICS if name in stated] or TABLE_METRICS:
        value = stated.get(metric)
        if not isinstance(value, (int, float)) or not abs(found[metric] - value) <= _TOLERANCE:
            raise InvalidInput(
                f"The {what} in {folder} give {metric} {found[metric]:.4f}, its result.json says {value!r}: they are "
                f"not of one run. Delete {folder} and repeat the command that trained this run."
            )


def evaluate_embeddings(embeddings: Mapping[str, np.ndarray], dataset: str = "") -> retrieval.RetrievalResult:
    """Evaluate what `test_embeddings.npz` holds: `queries`, `query_labels` and, if apart, the gallery.

    Args:
        dataset: adds its printed R@k to R@1, R@2, R@4 and R@8; empty: these alone.
    """
    return retrieval.evaluate_retrieval(
        embeddings["queries"],
        embeddings["query_labels"],
        embeddings.get("gallery"),
        embeddings.get("gallery_labels"),
        recall_at=sorted({1, 2, 4, 8, *traits_of(dataset).recall_at}),
    )


def _class_scores(
    result: retrieval.RetrievalResult, embeddings: Mapping[str, np.ndarray]
) -> tuple[dict[str, np.ndarray], np.ndarray, np.ndarray, np.ndarray | None]:
    """Return sums, labels, counts and, if known, families of the test classes."""
    table = retrieval.class_table(result, embeddings["query_labels"])
    of_classes = {name: table.sums[name] for name in TABLE_METRICS}, table.labels.astype(np.int64), table.num_queries
    if "query_families" not in embeddings:
        return *of_classes, None
    present, first = np.unique(embeddings["query_labels"], return_index=True)
    return *of_classes, embeddings["query_families"][first[np.isin(present, table.labels)]]


def concatenated_embeddings(members: Sequence[Mapping[str, np.ndarray]]) -> dict[str, np.ndarray]:
    """Join models' embeddings of one test set: `[queries, sum of dims]`."""
    joined = dict(members[0])
    for name in ("queries", "gallery"):
        if name in joined:
            joined[name] = retrieval.combine_embeddings([member[name] for member in members])
    return joined


def _version(unit: UnitRun) -> str:
    """Return a digest of a run's result and of its embeddings' file."""
    with contextlib.suppress(OSError):
        file = (unit.path / TEST_EMBEDDINGS).stat()
        return _digest([_FORMAT, unit.config, unit.result, file.st_size, file.st_mtime_ns])
    return _digest([_FORMAT, unit.config, unit.result])  # none are there


def _digest(content: object) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _stored_row(folder: pathlib.Path, version: str) -> Row | None:
    """Return a folder's row of this version, or None.

    A row that lacks a column is made again if its embeddings are there.
    """
    arrays = _arrays(folder / CLASS_SCORES)
    stored = (read_json(folder / ROW) or {}) if arrays else {}
    if stored.get("version") != version or str(arrays.get("version")) != version:
        return None
    sums = {name: values for name, values in arrays.items() if name not in ("version", *OF_CLASSES)}
    if {*TABLE_METRICS} - sums.keys() and (folder / TEST_EMBEDDINGS).exists():
        return None
    of_classes = arrays["labels"], arrays["counts"], arrays.get("families")
    return Row(stored["row"], sums, *of_classes, source=str(folder))


def _joined(units: Sequence[UnitRun], training: Row) -> Row:
    embeddings = concatenated_embeddings([unit.test_embeddings() for unit in units])
    result = evaluate_embeddings(embeddings)
    test = {name: result.figures[name] for name in TABLE_METRICS}
    row = collection_row(training, [unit.repeat for unit in units], test)
    return Row(row, *_class_scores(result, embeddings), source=str(units[0].path.parent))


def _stored_collections(path: pathlib.Path, training: Row) -> dict[str, Row]:
    """Return the rows of concatenated models that a file keeps, by version."""
    arrays, found = _arrays(path), {}
    metrics = [*map(str, arrays.get("metrics", _FIRST_METRICS))]
    for place, version in enumerate(arrays.get("versions", ())):
        test = dict(zip(metrics, arrays["test"][place].tolist()))
        row = collection_row(training, arrays["repeats"][place].tolist(), test)
        sums = {name: arrays[name][place] for name in metrics}
        of_classes = arrays["labels"], arrays["counts"], arrays.get("families")
        found[str(version)] = Row(row, sums, *of_classes, source=str(path.parent))
    return found


def _as_arrays(found: Mapping[str, Row]) -> dict[str, np.ndarray]:
    rows = [*found.values()]
    metrics = [*rows[0].sums]
    return {
        "metrics": np.array(metrics),
        "versions": np.array([*found]),
        "repeats": np.array([[repeat for _, repeat in scored["members"]] for scored in rows]),
        "test": np.array([[scored["test"][name] for name in metrics] for scored in rows]),
        **{name: np.stack([scored.sums[name] for scored in rows]) for name in metrics},
        **rows[0].classes,
    }


def _arrays(path: pathlib.Path) -> dict[str, np.ndarray]:
    """Return a file's arrays; none if it is missing or damaged."""
    try:
        return read_arrays(path)
    except (InvalidInput, OSError):
        return {}


def row_id(row: Mapping) -> str:
    """Return a row's key: configuration hash (with the data), fold and repeat."""
    if row["kind"] == COLLECTION:
        return f"{row['config_hash']}/collection/{'-'.join(str(repeat) for _, repeat in row['members'])}"
    return f"{row['config_hash']}/{row['fold']}-{row['repeat']}"


def order_of(row: Mapping) -> tuple:
    """Return a sort key: label, configuration, runs before collections, fold, repeat."""
    place = row["members"] if row["kind"] == COLLECTION else [[row["fold"], row["repeat"]]]
    return row["dataset"], row["label"], row["config_hash"], row["kind"] == COLLECTION, place


def training_row(unit: UnitRun) -> dict:
    """Build the row of a finished run, named by its folder and configuration.

    A run without a `config.json` has no data in its row. One without a pooling, such as MNIST's, is labelled by its
    folder.
    """
    result, environment = unit.measured, unit.measured.get("environment") or {}
    configuration = {name: value for name, value in unit.config.items() if name not in _PLACE}
    best = dict(result["validation"]["best"])
    kept = ("diagnostics", "problems", "features", CLOSED_FORM, VALIDATED_BEFORE)
    extras = {name: result[name] for name in kept if name in result}
    extras |= _perplexities(unit, best.get("step"))
    curve = [[int(step), round(float(value), _DIGITS)] for step, value in zip(*unit.validation_curve())]
    extras |= {"validation_curve": curve} if curve else {}
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


def _perplexities(unit: UnitRun, step: int | None) -> dict[str, float]:
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
    label_by = traits_of(dataset).label_by
    if label_by == "pooling":
        return _pooling(configuration).upper()
    if label_by == "start":
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
    return json.dumps(dict(row), sort_keys=True, allow_nan=False, ensure_ascii=False)
