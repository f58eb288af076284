"""A study's folder: `rows.jsonl`, the class sums behind its intervals, and the arrays that its pictures need.

`class_scores.npz` holds for each data hash `<hash>/labels` and `<hash>/counts` `[classes]`, `<hash>/rows` `[rows]` (ids
of rows) and `<hash>/<metric>` `[rows, classes]` (sums over the queries of a class, float32). `pictures.npz` holds
`<id of a row>/<name>`. Equal rows make equal files: sorted, without times, written atomically.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pathlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import BinaryIO

import numpy as np

from common.errors import InvalidInput
from common.files import read_arrays, write_atomically, write_text
from experiments.evidence.rows import METRICS, TRAINING, ScoredRow, as_line, is_row_id, order_of, row_id

ROWS, CLASS_SCORES, PICTURES = "rows.jsonl", "class_scores.npz", "pictures.npz"
_TOLERANCE = 1e-6  # between a row's metric and the mean of its class sums, which are float32
_NEEDED = ("protocol", "dataset", "label", "config_hash", "data", "test")


class StudyRows:
    """The rows of one study.

    Args:
        folder: `results/<study>`; one that does not exist has no rows.

    Attributes:
        folder: as given.
        rows: by id, in their order.

    Raises:
        InvalidInput: a file is damaged, or a row's metrics are not those of its class sums.
    """

    def __init__(self, folder: str | os.PathLike):
        self.folder = pathlib.Path(folder)
        self._scored = {}
        scores, arrays = self._arrays(CLASS_SCORES), self._arrays(PICTURES)
        for row in self._read_rows():
            self._scored[row_id(row)] = self._with_scores(row, scores, _below(arrays, row_id(row)))

    @property
    def name(self) -> str:
        """The study's name: its folder's."""
        return self.folder.name

    @property
    def rows(self) -> list[dict]:
        """All rows, in their order."""
        return [scored.row for scored in self._scored.values()]

    def scored(self, row: Mapping) -> ScoredRow:
        """A row's class sums and arrays."""
        return self._scored[row_id(row)]

    def merge(self, found: Iterable[ScoredRow], *, replace: bool = False) -> int:
        """Adds rows; those that are there already change nothing. Returns how many were added or replaced.

        Args:
            found: rows of this study.
            replace: whether a row takes the place of one with another result.

        Raises:
            InvalidInput: a row has the key of another with another result and `replace` is not given, or two
                configurations have one label. Then none is added.
        """
        merged, changed = dict(self._scored), 0
        for scored in found:
            key, known = row_id(scored.row), merged.get(row_id(scored.row))
            differing = _differences(known, scored) if known else ["key"]
            if known and differing and not replace:
                raise InvalidInput(
                    f"{self.folder / ROWS} has another result of {key} ({known.row['label']}; differs in: "
                    f"{', '.join(differing)}). Give --replace to take the new one, or record into another folder."
                )
            if (
                known is None
                or differing
                or (known.row.get("command") is None and scored.row.get("command") is not None)
            ):
                merged[key] = scored
                changed += 1
        _check_labels([scored.row for scored in merged.values()], self.folder)
        self._scored = dict(sorted(merged.items(), key=lambda item: order_of(item[1].row)))
        return changed

    def save(self) -> None:
        """Writes the files whose content has changed, `rows.jsonl` last."""
        arrays = {f"{key}/{name}": value for key, of in self._scored.items() for name, value in of.arrays.items()}
        for name, content in ((CLASS_SCORES, self._class_scores()), (PICTURES, arrays)):
            if not _equal(self._arrays(name), content):
                _write_compressed(self.folder / name, content)
        text = "".join(f"{as_line(row)}\n" for row in self.rows)
        path = self.folder / ROWS
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            write_text(path, text)

    def _class_scores(self) -> dict[str, np.ndarray]:
        content: dict[str, np.ndarray] = {}
        for data in sorted({row["data"] for row in self.rows}):
            chosen = [scored for scored in self._scored.values() if scored.row["data"] == data]
            if any(not _same_classes(chosen[0], scored) for scored in chosen):
                raise InvalidInput(
                    f"Runs of {self.folder} on the data {data} were tested on other queries than one another. Record "
                    "those of one test set in one study."
                )
            content |= {f"{data}/labels": chosen[0].labels, f"{data}/counts": chosen[0].counts}
            content[f"{data}/rows"] = np.array([row_id(scored.row) for scored in chosen])
            content |= {f"{data}/{name}": np.stack([scored.sums[name] for scored in chosen]) for name in METRICS}
        return content

    def _arrays(self, name: str) -> dict[str, np.ndarray]:
        path = self.folder / name
        return read_arrays(path, cure=f"Restore it: git checkout -- {path}") if path.exists() else {}

    def _read_rows(self) -> Iterator[dict]:
        path = self.folder / ROWS
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines() if path.exists() else []
        for number, line in enumerate(lines, start=1):
            try:
                row = json.loads(line)
                is_sound = all(name in row for name in _NEEDED) and is_row_id(row_id(row))
            except (ValueError, KeyError, TypeError, RecursionError):
                is_sound = False
            if not is_sound:
                raise InvalidInput(f"{path}, line {number}, is no row. Restore the file: git checkout -- {path}")
            yield row

    def _with_scores(self, row: dict, scores: Mapping[str, np.ndarray], arrays: Mapping) -> ScoredRow:
        prefix, key = row["data"], row_id(row)
        places = np.flatnonzero(scores.get(f"{prefix}/rows", np.array([], str)) == key)
        if len(places) != 1:
            raise InvalidInput(
                f"{self.folder / CLASS_SCORES} has no scores of {key}, which {ROWS} names. Restore both: git checkout "
                f"-- {self.folder}"
            )
        sums = {name: scores[f"{prefix}/{name}"][places[0]] for name in METRICS}
        labels, counts = scores[f"{prefix}/labels"], scores[f"{prefix}/counts"]
        for name, of_classes in sums.items():
            mean = float(of_classes.sum(dtype=np.float64) / counts.sum())
            if not abs(mean - row["test"].get(name, np.nan)) <= _TOLERANCE:
                raise InvalidInput(
                    f"{self.folder / ROWS} says {name} {row['test'].get(name)!r} of {key}, its class sums give "
                    f"{mean!r}: one of them was changed. Restore both: git checkout -- {self.folder}"
                )
        return ScoredRow(row, sums, labels, counts, arrays)


def joined_studies(folders: Sequence[str | os.PathLike]) -> StudyRows:
    """The rows of several studies as one, under the name of the first; a run that several of them have counts once.

    Args:
        folders: `results/<study>`, at least one.

    Raises:
        InvalidInput: see `StudyRows`; or two studies have different results of one run.
    """
    joined = StudyRows(folders[0])
    for folder in folders[1:]:
        joined.merge(StudyRows(folder)._scored.values())
    return joined


@contextlib.contextmanager
def locked(folder: str | os.PathLike) -> Iterator[None]:
    """Holds a study's folder, which is made where it is missing, until other processes have written theirs."""
    pathlib.Path(folder).mkdir(parents=True, exist_ok=True)
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _differences(known: ScoredRow, found: ScoredRow) -> list[str]:
    """Names of what differs; a command that was not known, or is another for the same run, is no other result."""
    names = sorted((known.row.keys() | found.row.keys()) - {"command"})
    before, after = json.loads(as_line(known.row)), json.loads(as_line(found.row))
    differing = [name for name in names if before.get(name) != after.get(name)]
    if not _same_classes(known, found) or not _equal(known.sums, found.sums):
        differing.append("class sums")
    return differing + ([] if _equal(known.arrays, found.arrays) else ["arrays"])


def _same_classes(first: ScoredRow, second: ScoredRow) -> bool:
    return np.array_equal(first.labels, second.labels) and np.array_equal(first.counts, second.counts)


def _equal(first: Mapping[str, np.ndarray], second: Mapping[str, np.ndarray]) -> bool:
    return first.keys() == second.keys() and all(np.array_equal(first[name], second[name]) for name in first)


def _below(arrays: Mapping[str, np.ndarray], prefix: str) -> dict[str, np.ndarray]:
    """The arrays whose names begin with `prefix/`, by what follows it."""
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

    if content:
        write_atomically(path, write)
    else:
        path.unlink(missing_ok=True)
