"""Finds finished runs on disk and reads what they measured.

Layout: `runs/<protocol>/<data set>/<method>-<hash>/fold<k>-repeat<r>/` with `config.json`, `metrics.jsonl`,
`test_embeddings.npz` and `result.json`. The last folder but one is one configuration: runs are grouped by it and by
nothing else, and a result that carries another configuration hash than its folder is left out and named. So is one
whose `config.json` was changed since: its hash is computed and compared.
"""

from __future__ import annotations

import itertools
import json
import pathlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from common.errors import InvalidInput
from common.files import read_json
from common.records.run_directory import RESULT_COPY, read_finished_result
from common.training.test_embeddings import read_test_embeddings
from experiments.reports.result_objection import is_number, numbers, objection_to

_UNIT = re.compile(r"fold([0-9]{1,4})-repeat([0-9]{1,4})")


@dataclass(frozen=True)
class UnitRun:
    """One fold and repeat of one configuration.

    Args:
        path: its folder.
        fold: from 0.
        repeat: from 0.
        config: `config.json`; empty when it is missing or damaged.
        result: `result.json` of a finished run, else `None`.
        problem: why a result that is there cannot be used, or why its copy is; `None` when nothing is wrong, as with an
            unfinished run.
    """

    path: pathlib.Path
    fold: int
    repeat: int
    config: dict
    result: dict | None
    problem: str | None = None

    @property
    def is_finished(self) -> bool:
        """Whether it has a usable result."""
        return self.result is not None

    @property
    def measured(self) -> dict:
        """The `result` of a finished run; `InvalidInput` for another."""
        if self.result is None:
            raise InvalidInput(f"{self.path} has not finished.")
        return self.result

    def test_metrics(self) -> dict[str, float]:
        """Test metrics of the trained model by name, as fractions; empty until the run is finished."""
        return numbers(self.result.get("test")) if self.result else {}

    def untrained_metrics(self) -> dict[str, float]:
        """Test metrics before training, by name; empty when they are not known."""
        return numbers(self.result.get("untrained")) if self.result else {}

    def test_embeddings(self) -> dict[str, np.ndarray]:
        """The arrays of `test_embeddings.npz` by name.

        Raises:
            InvalidInput: when the file is missing or damaged.
        """
        return read_test_embeddings(self.path)

    def validation_curve(self, metric: str = "MAP@R") -> tuple[np.ndarray, np.ndarray]:
        """Steps and validation metric `[evaluations]` from `metrics.jsonl`; lines without it are passed over."""
        points = {}
        for record in _records(self.path / "metrics.jsonl"):
            value = numbers(record.get("validation")).get(metric)
            if value is not None and _has_step(record):
                points[record["step"]] = float(value)
        steps = sorted(points)
        return np.array(steps, np.int64), np.array([points[step] for step in steps], np.float64)


@dataclass(frozen=True)
class MethodRuns:
    """All folds and repeats of one configuration of one method.

    Args:
        path: its folder.
        protocol: e.g. `"fair"`.
        dataset: the data set's flag.
        method: the folder's name without the hash.
        config_hash: the folder's hash.
        units: every fold and repeat that has a folder, in order.
    """

    path: pathlib.Path
    protocol: str
    dataset: str
    method: str
    config_hash: str
    units: tuple[UnitRun, ...]

    @property
    def finished(self) -> dict[tuple[int, int], UnitRun]:
        """Finished runs by (fold, repeat)."""
        return {(unit.fold, unit.repeat): unit for unit in self.units if unit.is_finished}

    @property
    def problems(self) -> tuple[str, ...]:
        """One line for each result that is there and cannot be used."""
        return tuple(unit.problem for unit in self.units if unit.problem)

    @property
    def deviations(self) -> tuple[str, ...]:
        """How the data behind any finished run differs from the official data set."""
        stated = itertools.chain.from_iterable(unit.measured.get("deviations", ()) for unit in self.finished.values())
        return tuple(dict.fromkeys(stated))

    @property
    def config(self) -> dict:
        """The configuration of the first run that has one; all runs of a folder share its hash."""
        return next((unit.config for unit in self.units if unit.config), {})

    def stated(self, config: Mapping[str, object]) -> dict[str, object]:
        """A configuration, with what these runs themselves say about the weights that they began with.

        A configuration that is asked for names a file, a run has what was in it: a verdict needs no file.
        """
        names = ("weights", "weights_source")
        return {**config, **{name: self.config[name] for name in names if name in self.config}}

    def missing(self, num_folds: int, num_repeats: int) -> list[tuple[int, int]]:
        """The (fold, repeat) pairs of a full study that are not finished."""
        return [pair for pair in itertools.product(range(num_folds), range(num_repeats)) if pair not in self.finished]


def collect(runs_dir, protocol: str | None = None, dataset: str | None = None) -> list[MethodRuns]:
    """Every configuration under `runs_dir` that has runs, sorted by folder name.

    Args:
        runs_dir: the folder that holds `<protocol>/<data set>/...`; when it does not exist there are no runs.
        protocol: only this protocol.
        dataset: only this data set.
    """
    found = []
    for path in sorted(pathlib.Path(runs_dir).glob(f"{protocol or '*'}/{dataset or '*'}/*-*/")):
        runs = collect_method(path)
        if runs.units:
            found.append(runs)
    return found


def collect_method(path) -> MethodRuns:
    """The runs of one configuration's folder (`.../<protocol>/<data set>/<method>-<hash>`).

    Args:
        path: the folder; it may not exist yet.
    """
    path = pathlib.Path(path)
    method, _, config_hash = path.name.rpartition("-")
    units = [
        _unit(child, int(match[1]), int(match[2]), config_hash)
        for child in path.glob("fold*-repeat*")
        if (match := _UNIT.fullmatch(child.name)) and child.is_dir()
    ]
    units.sort(key=lambda unit: (unit.fold, unit.repeat))
    return MethodRuns(path, path.parent.parent.name, path.parent.name, method, config_hash, tuple(units))


def same_trainings(first: Sequence[UnitRun], second: Sequence[UnitRun]) -> bool:
    """Whether the units of two methods are of the same folds and repeats, so that one can be subtracted from the other.

    Of a study that was stopped they need not be; without any unit they are not.
    """
    pairs = [[(unit.fold, unit.repeat) for unit in units] for units in (first, second)]
    return pairs[0] == pairs[1] != []


def check_same_queries(units: Sequence[UnitRun], labels: Sequence[np.ndarray]) -> None:
    """Runs whose figures are averaged or subtracted query by query must have been tested on the same queries.

    Args:
        units: the runs.
        labels: of each one's queries `[queries]`.

    Raises:
        InvalidInput: two of them differ.
    """
    for unit, of_unit in zip(units, labels):
        if not np.array_equal(of_unit, labels[0]):
            raise InvalidInput(
                f"The test embeddings of {unit.path} are of other queries than those of {units[0].path}, so that the "
                "two cannot be compared. Delete the wrong folder, and repeat the command that made it."
            )


def _unit(path: pathlib.Path, fold: int, repeat: int, config_hash: str) -> UnitRun:
    try:
        config = read_json(path / "config.json") or {}
        result, problem = _result(path, fold, repeat, config_hash, config)
    except OSError as error:  # a file that is there and may not be read
        result, problem, config = None, f"{error.filename} cannot be read ({error.strerror}).", {}
    problem = problem or _odd_lines(path / "metrics.jsonl")
    return UnitRun(path, fold, repeat, config, result, problem)


def _result(
    path: pathlib.Path, fold: int, repeat: int, config_hash: str, config: dict
) -> tuple[dict | None, str | None]:
    """The result of a finished run that can be used, and what is wrong with it."""
    place = path / "result.json"
    result, is_copy = read_finished_result(path)
    if result is None:
        is_damaged = place.exists() and read_json(place) is None
        return None, f"{place} is damaged; the run counts as unfinished." if is_damaged else None
    objection = objection_to(result, fold, repeat, config_hash, config)
    if objection:
        return None, f"{place.with_name(RESULT_COPY) if is_copy else place} is left out: {objection}."
    return result, f"{place} is damaged; {RESULT_COPY} took its place." if is_copy else None


def _odd_lines(path: pathlib.Path) -> str | None:
    """What is wrong with lines of metrics that are records and hold what is no number."""
    try:
        odd = [record for record in _records(path) if not _is_ordinary(record)]
    except OSError as error:
        return f"{path} cannot be read ({error.strerror})."
    return f"{path} has {len(odd)} line(s) whose step or validation is no number; they are left out." if odd else None


def _is_ordinary(record: dict) -> bool:
    validation = record.get("validation", {})
    return _has_step(record) and isinstance(validation, dict) and len(numbers(validation)) == len(validation)


def _has_step(record: dict) -> bool:
    return isinstance(record.get("step"), int) and is_number(record["step"])


def _records(path: pathlib.Path) -> Iterator[dict]:
    """The lines of a JSON-lines file that can be read; a run that was killed may leave a last one cut off."""
    if not path.exists():
        return
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(record, dict):
            yield record
