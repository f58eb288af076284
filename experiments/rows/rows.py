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
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from common import retrieval
from common.errors import InvalidInput
from common.files import read_arrays, read_json, write_arrays, write_json
from common.records.run_directory import TEST_EMBEDDINGS
from common.retrieval.metrics import TABLE_METRICS
from common.training.test_embeddings import read_test_embeddings
from experiments.parts.datasets import traits_of

_FIRST_METRICS = ("MAP@R", "P@1")  # of files of concatenated models that do not say which they hold
TRAINING, COLLECTION = "training", "collection"
UNTRAINED, CLOSED_FORM = "untrained", "closed_form"  # figures of results and rows on test classes, without training
VALIDATED_BEFORE = "validation_before"  # the same on validation classes, by name
OF_CLASSES = ("labels", "counts", "families")  # of files of class sums, beside the sums of each metric
ROW, CLASS_SCORES, COLLECTIONS = "row.json", "class_scores.npz", "collections.npz"
_FORMAT = 1  # of these files
_TOLERANCE = 1e-3  # of a metric: other hardware, or another number of threads, rounds in another way


@dataclasses.dataclass(frozen=True, eq=False)
class Row(Mapping[str, Any]):
    """JSON values of a run, or of concatenated models, with their class sums.

    A row of a run's folder has what the run wrote there; `scored` adds its class sums. An unfinished run has no steps.
    """

    json: dict  # as `run_folders.run_row` and `collection_row` make it
    # by metric, the sum of the queries' scores by class `[classes]`
    sums: Mapping[str, np.ndarray] = dataclasses.field(default_factory=dict)
    labels: np.ndarray = dataclasses.field(default_factory=lambda: np.zeros(0, np.int64))  # `[classes]`, ascending
    counts: np.ndarray = dataclasses.field(default_factory=lambda: np.zeros(0, np.int64))  # queries `[classes]`
    families: np.ndarray | None = None  # of each class `[classes]`, as `Examples.families`; None: independent classes
    # what a picture needs beside, by name, any shape
    arrays: Mapping[str, np.ndarray] = dataclasses.field(default_factory=dict)
    source: str = ""  # where it was read, for messages
    folder: pathlib.Path = pathlib.Path()  # of the run, as the next ones; a recorded row has none of them
    config: Mapping[str, Any] = dataclasses.field(default_factory=dict)  # `config.json`; empty if missing or damaged
    result: Mapping[str, Any] = dataclasses.field(default_factory=dict)  # `result.json`; empty if unfinished
    validations: Sequence[tuple[int, Mapping[str, float]]] = ()  # metrics by step, increasing
    problem: str | None = None  # why an existing result, or its copy, cannot be used

    def __getitem__(self, name: str) -> Any:
        return self.json[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.json)

    def __len__(self) -> int:
        return len(self.json)

    @property
    def place(self) -> tuple[int, int]:
        """Fold and repeat of a run."""
        return self["fold"], self["repeat"]

    @property
    def is_finished(self) -> bool:
        """True if the run has a usable result."""
        return self["steps"] is not None

    @property
    def classes(self) -> dict[str, np.ndarray]:
        """The test classes: labels, counts and, if any, families."""
        arrays = zip(OF_CLASSES, (self.labels, self.counts, self.families))
        return {name: values for name, values in arrays if values is not None}

    def has_classes_of(self, other: Row) -> bool:
        """Check that another row has equal test classes and counts of queries."""
        return np.array_equal(self.labels, other.labels) and np.array_equal(self.counts, other.counts)

    def with_values(self, **values: Any) -> Row:
        """Replace JSON values."""
        return dataclasses.replace(self, json={**self.json, **values})

    def with_extras(self, values: Mapping[str, Any], arrays: Mapping[str, np.ndarray] | None = None) -> Row:
        """Add numbers and JSON values, and arrays of any shape for pictures."""
        added = dataclasses.replace(self, arrays={**self.arrays, **(arrays or {})})
        return added.with_values(extras={**self["extras"], **values})

    def named(self, label: str | None, extras: Mapping[str, Any]) -> Row:
        """Return the row under its study's label, if any, with the study's extras."""
        return self.with_values(label=label or self["label"]).with_extras(extras)

    def test_embeddings(self) -> dict[str, np.ndarray]:
        """Load a run's `test_embeddings.npz`; raise `InvalidInput` if it is missing or damaged."""
        return read_test_embeddings(self.folder)

    def curve(self, metric: str = "MAP@R") -> tuple[np.ndarray, np.ndarray]:
        """Return steps and validation metric `[evaluations]` of a run, without evaluations that lack it."""
        points = [(step, metrics[metric]) for step, metrics in self.validations if metric in metrics]
        return np.array([step for step, _ in points], np.int64), np.array([value for _, value in points], np.float64)

    def scored(self) -> Row:
        """Return a finished run's row with its class sums, from its folder if current."""
        if self.sums:
            return self
        version = _version(self)
        found = _stored_row(self, version)
        if found is None:
            embeddings = self.test_embeddings()
            result = evaluate_embeddings(embeddings, self["dataset"])
            further = {name: value for name, value in result.figures.items() if name not in self["test"]}
            test = {**self["test"], **further, **{name: result.figures[name] for name in TABLE_METRICS}}
            found = _with_scores(self.with_values(test=test), *_class_scores(result, embeddings))
            arrays = {**found.sums, **found.classes, "version": np.array(version)}
            with contextlib.suppress(OSError, ValueError):  # an unwritable folder, or a figure that is no number
                write_arrays(self.folder / CLASS_SCORES, arrays)
                write_json(self.folder / ROW, {"version": version, "row": found.json})
        return found


def collection_rows(runs: Iterable[Row], num_folds: int) -> list[Row]:
    """Return a row per choice of one repeat of every fold, if any."""
    by_place = {row.place: row for row in runs}
    repeats = repeats_of_all_folds(by_place, num_folds)
    if not repeats:
        return []
    singles = [by_place[fold, repeat].scored() for fold in range(num_folds) for repeat in range(repeats)]
    check_same_queries(singles)
    path, versions = singles[0].folder.parent / COLLECTIONS, {place: _version(row) for place, row in by_place.items()}
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


def _version(row: Row) -> str:
    """Return a digest of a run's result and of its embeddings' file."""
    with contextlib.suppress(OSError):
        file = (row.folder / TEST_EMBEDDINGS).stat()
        return _digest([_FORMAT, row.config, row.result, file.st_size, file.st_mtime_ns])
    return _digest([_FORMAT, row.config, row.result])  # none are there


def _digest(content: object) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _stored_row(row: Row, version: str) -> Row | None:
    """Return the row of this version that a run's folder keeps, or None.

    A row that lacks a column is made again if its embeddings are there.
    """
    arrays = _arrays(row.folder / CLASS_SCORES)
    stored = (read_json(row.folder / ROW) or {}) if arrays else {}
    if stored.get("version") != version or str(arrays.get("version")) != version:
        return None
    sums = {name: values for name, values in arrays.items() if name not in ("version", *OF_CLASSES)}
    if {*TABLE_METRICS} - sums.keys() and (row.folder / TEST_EMBEDDINGS).exists():
        return None
    of_classes = arrays["labels"], arrays["counts"], arrays.get("families")
    by_folder = {name: row[name] for name in ("protocol", "dataset", "method", "config_hash")}
    return _with_scores(dataclasses.replace(row, json={**stored["row"], **by_folder}), sums, *of_classes)


def _with_scores(
    row: Row, sums: Mapping[str, np.ndarray], labels: np.ndarray, counts: np.ndarray, families: np.ndarray | None
) -> Row:
    return dataclasses.replace(row, sums=sums, labels=labels, counts=counts, families=families)


def _joined(runs: Sequence[Row], training: Row) -> Row:
    embeddings = concatenated_embeddings([row.test_embeddings() for row in runs])
    result = evaluate_embeddings(embeddings)
    test = {name: result.figures[name] for name in TABLE_METRICS}
    joined = collection_row(training, [row["repeat"] for row in runs], test)
    return Row(joined, *_class_scores(result, embeddings), source=str(runs[0].folder.parent))


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
    traits = traits_of(configuration["dataset"])
    if traits.label_by == "pooling":
        return _pooling(configuration).upper()
    if traits.label_by == "start":
        distilled = ", distilled" if traits.distilled else ""
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
