"""A study's folder: `rows.jsonl`, class sums for intervals, and arrays for pictures.

`class_scores.npz` holds for each data hash `<hash>/labels`, `<hash>/counts` and, if classes come in families,
`<hash>/families` `[classes]`, `<hash>/rows` `[rows]` (ids of rows) and `<hash>/<metric>` `[rows, classes]` (sums over
the queries of a class, float32; NaN in rows that were recorded without the metric). `pictures.npz` holds
`<id of a row>/<name>`. Equal rows make equal files: sorted, without times, written atomically.
"""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import BinaryIO

import numpy as np

from common.errors import InvalidInput
from common.files import (
    Array,
    Maybe,
    Number,
    checked,
    difference,
    hold_lock,
    parsed_object,
    read_arrays,
    remove_temporary_files,
    sync_folder,
    write_atomically,
    write_text,
)
from experiments.rows.rows import (
    CLASS_SCORES,
    COLLECTION,
    OF_CLASSES,
    TRAINING,
    Row,
    as_line,
    order_of,
    row_id,
)

RECORDED = "docs/results/rows"  # of this repository, a folder for each study
ROWS, PICTURES = "rows.jsonl", "pictures.npz"
_TOLERANCE = 1e-6  # between a row's metric and the mean of its class sums, which are float32
_HASH, _COUNT = re.compile("[0-9a-f]{6,64}"), Number(int, 0)
_ROW = {
    **dict.fromkeys(("protocol", "dataset", "label", "data"), str),
    "kind": {TRAINING, COLLECTION},
    "config_hash": _HASH,
    "test": {str: float},
}
_ROW_OF = {
    TRAINING: {
        **dict.fromkeys(("fold", "repeat"), _COUNT),
        **dict.fromkeys(("configuration", "environment"), dict),
        **dict.fromkeys(("validation", "untrained"), Maybe({str: float})),
        **dict.fromkeys(("steps", "best_step", "seed"), Maybe(_COUNT)),
        "extras": Maybe(dict),
        "command": Maybe(str),
        **dict.fromkeys(("train_seconds", "processor_seconds"), Maybe(Number(float, 0))),
        "deviations": Maybe([str]),
    },
    COLLECTION: {"members": [(_COUNT, _COUNT)]},
}
# What readers ask of a run's configuration, and of one with a method: MNIST in the plane has none.
_CONFIGURATION = {"dataset": str, "embedding_dim": Number(int, 1)}
_OF_METHOD = dict.fromkeys(("loss", "method", "pooling", "backbone", "weights", "budget"), str)
_OF_METHOD_AND_FOLDS = {**_CONFIGURATION, **_OF_METHOD, "num_folds": Number(int, 1)}


class StudyRows:
    """The rows of one study, recorded in `docs/results/rows/<study>` or of finished runs.

    A folder that does not exist has no rows. Damaged files are refused, as are metrics other than those of the class
    sums.
    """

    def __init__(self, folder: str | os.PathLike):
        self.folder = pathlib.Path(folder)
        self._rows: dict[str, Row] = {}
        scores, arrays = self._arrays(CLASS_SCORES), self._arrays(PICTURES)
        rows = list(self._read_rows())
        for data in {row["data"] for row in rows if f"{row['data']}/rows" in scores}:
            fix = f"Restore both: git checkout -- {self.folder}"
            checked(*_scores_on(data, scores), str(self.folder / CLASS_SCORES), fix=fix)
        for row in rows:
            self._rows[row_id(row)] = self._with_scores(row, scores, _below(arrays, row_id(row)))

    @classmethod
    def of_rows(cls, rows: Iterable[Row]) -> StudyRows:
        """Return the rows of finished runs, in their order."""
        study = cls(os.devnull)
        study._rows = {row_id(row): row for row in rows}
        return study

    @property
    def name(self) -> str:
        """The name of the study's folder."""
        return self.folder.name

    @property
    def rows(self) -> list[Row]:
        """All rows, in their order."""
        return [*self._rows.values()]

    def merge(self, found: Iterable[Row], *, replace: bool = False) -> int:
        """Add new rows, and return how many were added or replaced.

        Raises:
            InvalidInput: a row has the key of another with another result and `replace` is not given, or two
                configurations have one label. Then none is added.
        """
        merged, changed = dict(self._rows), 0
        for scored in found:
            key, known = row_id(scored), merged.get(row_id(scored))
            differing = _differences(known, scored) if known else ["key"]
            if known and differing and not replace:
                raise InvalidInput(
                    f"{self.folder / ROWS} has another result of {key} ({known['label']}; differs in: "
                    f"{', '.join(differing)}). Give --replace to take the new one, or record into another folder."
                )
            if (
                known is None
                or differing
                or scored.sums.keys() > known.sums.keys()
                or (known.get("command") is None and scored.get("command") is not None)
            ):
                merged[key] = scored
                changed += 1
        _check_labels(merged.values(), self.folder)
        self._rows = dict(sorted(merged.items(), key=lambda item: order_of(item[1])))
        return changed

    def save(self) -> None:
        """Write the changed files as one step.

        A kill leaves all old ones or all new ones. They are written beside the old ones. Once `rows.jsonl.new` is
        there, which comes last, readers take the new ones.
        """
        text = "".join(f"{as_line(row)}\n" for row in self.rows)
        arrays = {f"{key}/{name}": value for key, of in self._rows.items() for name, value in of.arrays.items()}
        contents = {CLASS_SCORES: self._class_scores(), PICTURES: arrays}
        if self._is_pending:  # of a writer that was killed
            self._rename()
        changed = {name: content for name, content in contents.items() if not _equal(self._arrays(name), content)}
        path = self._path(ROWS)
        if changed or not path.exists() or path.read_text(encoding="utf-8") != text:
            for name in contents:
                self._new(name).unlink(missing_ok=True)
            for name, content in changed.items():
                _write_compressed(self._new(name), content)
            write_text(self._new(ROWS), text)
            self._rename()
        for name in [name for name, content in contents.items() if not content]:
            self._path(name).unlink(missing_ok=True)

    def _new(self, name: str) -> pathlib.Path:
        return self.folder / f"{name}.new"

    @property
    def _is_pending(self) -> bool:
        return self._new(ROWS).exists()

    def _path(self, name: str) -> pathlib.Path:
        """Return the path of the valid file."""
        return self._new(name) if self._is_pending and self._new(name).exists() else self.folder / name

    def _rename(self) -> None:
        for name in (CLASS_SCORES, PICTURES, ROWS):
            sync_folder(self.folder)  # the rows are renamed last, after a power cut, too
            if self._new(name).exists():
                os.replace(self._new(name), self.folder / name)
        sync_folder(self.folder)

    def _class_scores(self) -> dict[str, np.ndarray]:
        content: dict[str, np.ndarray] = {}
        for data in sorted({row["data"] for row in self.rows}):
            chosen = [scored for scored in self._rows.values() if scored["data"] == data]
            if any(not chosen[0].has_classes_of(scored) for scored in chosen):
                raise InvalidInput(
                    f"Runs of {self.folder} on the data {data} were tested on other queries than one another. Record "
                    "those of one test set in one study."
                )
            known = next((scored for scored in chosen if scored.families is not None), chosen[0])
            content |= {f"{data}/{name}": values for name, values in known.classes.items()}
            content[f"{data}/rows"] = np.array([row_id(scored) for scored in chosen])
            unknown = np.full(len(known.labels), np.nan, np.float32)
            for name in dict.fromkeys(name for scored in chosen for name in scored.sums):
                content[f"{data}/{name}"] = np.stack([scored.sums.get(name, unknown) for scored in chosen])
        return content

    def _arrays(self, name: str) -> dict[str, np.ndarray]:
        path = self._path(name)
        return read_arrays(path, cure=f"Restore it: git checkout -- {path}") if path.exists() else {}

    def _read_rows(self) -> Iterator[dict]:
        path = self._path(ROWS)
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines() if path.exists() else []
        for number, line in enumerate(lines, start=1):
            row = parsed_object(line) or {}
            found = difference(row, _ROW) or difference(row, _ROW_OF[row["kind"]])
            if not found and row["kind"] == TRAINING:
                has_method = not _OF_METHOD.keys().isdisjoint(row["configuration"])
                wanted = _OF_METHOD_AND_FOLDS if has_method else _CONFIGURATION
                found = difference(row, {"configuration": wanted})
            if found:
                said = f"{found.entry}: received {found.received or 'nothing'}, expected {found.expected}"
                raise InvalidInput(
                    f"{path}, line {number}, is no row ({said}). Restore the file: git checkout -- {path}"
                )
            yield row

    def _with_scores(self, row: dict, scores: Mapping[str, np.ndarray], arrays: Mapping) -> Row:
        prefix, key = row["data"], row_id(row)
        places = np.flatnonzero(scores.get(f"{prefix}/rows", np.array([], str)) == key)
        if len(places) != 1:
            raise InvalidInput(
                f"{self.folder / CLASS_SCORES} has no scores of {key}, which {ROWS} names. Restore both: git checkout "
                f"-- {self.folder}"
            )
        found = {name: scores[f"{prefix}/{name}"][places[0]] for name in _metrics_on(prefix, scores)}
        sums = {name: of_classes for name, of_classes in found.items() if not np.isnan(of_classes).all()}
        labels, counts = scores[f"{prefix}/labels"], scores[f"{prefix}/counts"]
        families = scores.get(f"{prefix}/families")
        for name, of_classes in sums.items():
            mean = float(of_classes.sum(dtype=np.float64) / counts.sum())
            if not abs(mean - row["test"].get(name, np.nan)) <= _TOLERANCE:
                raise InvalidInput(
                    f"{self.folder / ROWS} says {name} {row['test'].get(name)!r} of {key}, its class sums give "
                    f"{mean!r}: one of them was changed. Restore both: git checkout -- {self.folder}"
                )
        return Row(row, sums, labels, counts, families, arrays, source=str(self.folder))


@contextlib.contextmanager
def locked(folder: str | os.PathLike) -> Iterator[None]:
    """Hold a study's folder, once other processes have released it."""
    path = pathlib.Path(folder)
    path.mkdir(parents=True, exist_ok=True)
    with hold_lock(path / ".lock"):
        remove_temporary_files(path)
        yield


def _metrics_on(data: str, scores: Mapping[str, np.ndarray]) -> list[str]:
    """List the metrics of the class scores of the runs on some data."""
    names = [name.removeprefix(f"{data}/") for name in scores if name.startswith(f"{data}/")]
    return [name for name in names if name not in ("rows", *OF_CLASSES)]


def _scores_on(data: str, scores: Mapping[str, np.ndarray]) -> tuple[dict[str, np.ndarray], dict[str, Array | Maybe]]:
    """Return class scores with 0 for unknown rows, and their description."""
    metrics, filled = _metrics_on(data, scores), dict(scores)
    for name in [f"{data}/{metric}" for metric in metrics]:
        if scores[name].dtype.kind == "f" and scores[name].ndim == 2:
            is_unknown = np.isnan(scores[name]).all(axis=1, keepdims=True)
            filled[name] = np.where(is_unknown & ~is_unknown.all(), 0, scores[name])
    of_data: dict[str, Array | Maybe] = {
        "labels": Array("iu", ("classes",)),
        "counts": Array("iu", ("classes",), 1),
        "families": Maybe(Array("iu", ("classes",))),
        "rows": Array("U", ("rows",)),
        **dict.fromkeys(metrics, Array("f", ("rows", "classes"), 0)),
    }
    return filled, {f"{data}/{name}": wanted for name, wanted in of_data.items()}


def _differences(known: Row, found: Row) -> list[str]:
    """Name the differing fields.

    A command, and metrics that one of both lacks, do not count.
    """
    names = sorted((known.keys() | found.keys()) - {"command"})
    before, after = json.loads(as_line(known)), json.loads(as_line(found))
    for row, other in ((before, found), (after, known)):
        row["test"] = {name: value for name, value in row["test"].items() if name in other["test"]}
    shared = known.sums.keys() & found.sums.keys()
    sums = [{name: of.sums[name] for name in shared} for of in (known, found)]
    differing = [name for name in names if before.get(name) != after.get(name)]
    if not known.has_classes_of(found) or not _equal(*sums):
        differing.append("class sums")
    return differing + ([] if _equal(known.arrays, found.arrays) else ["arrays"])


def _equal(first: Mapping[str, np.ndarray], second: Mapping[str, np.ndarray]) -> bool:
    return first.keys() == second.keys() and all(np.array_equal(first[name], second[name]) for name in first)


def _below(arrays: Mapping[str, np.ndarray], prefix: str) -> dict[str, np.ndarray]:
    """Select arrays named `prefix/...`, keyed by the rest of the name."""
    return {name.rpartition("/")[2]: value for name, value in arrays.items() if name.rpartition("/")[0] == prefix}


def _check_labels(rows: Iterable[Mapping], folder: pathlib.Path) -> None:
    owners: dict[tuple, str] = {}
    for row in rows:
        if row["kind"] == TRAINING:
            owner = owners.setdefault((row["protocol"], row["dataset"], row["label"]), row["config_hash"])
            if owner != row["config_hash"]:
                raise InvalidInput(
                    f"{folder} would have two configurations called {row['label']} ({owner} and {row['config_hash']}). "
                    "Give one of them a name by --label, or record it into another folder."
                )


def _write_compressed(path: pathlib.Path, content: Mapping[str, np.ndarray]) -> None:
    def write(file: BinaryIO) -> None:
        # NumPy's stub takes each of the arrays for `allow_pickle`, too.
        np.savez_compressed(file, **content)  # type: ignore[arg-type]

    write_atomically(path, write)
