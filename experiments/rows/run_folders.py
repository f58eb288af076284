"""Find finished runs on disk and read their measurements.

Layout: `runs/<protocol>/<data set>/<method>-<hash>/fold<k>-repeat<r>/` with `config.json`, `metrics.jsonl`,
`test_embeddings.npz` and `result.json`. Runs are grouped by the configuration's folder (`<method>-<hash>`) alone. A
result is left out and named if its configuration hash is not the folder's, or if `config.json` was changed since: its
hash is computed and compared.
"""

from __future__ import annotations

import itertools
import pathlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from common.errors import InvalidInput
from common.files import FORMAT_VERSION, Maybe, Number, difference, format_objection, read_json, read_json_lines
from common.records.run_directory import RESULT_COPY, read_finished_result
from common.training.test_embeddings import read_test_embeddings
from experiments.settings.config import changed_identity

UNTRAINED, CLOSED_FORM = "untrained", "closed_form"  # figures of results and rows on test classes, without training
VALIDATED_BEFORE = "validation_before"  # the same on validation classes, by name
_UNIT = re.compile(r"fold([0-9]{1,4})-repeat([0-9]{1,4})")
_FRACTION = Number(float, 0, 1)
_METRICS = {"P@1": _FRACTION, "MAP@R": _FRACTION}  # of every test set; newer runs have more
_RESULT = {
    "test": _METRICS,
    UNTRAINED: _METRICS,
    **dict.fromkeys((CLOSED_FORM, VALIDATED_BEFORE), Maybe({str: _METRICS}, is_null_allowed=False)),
    "steps": Number(int, 0),
    "train_seconds": Number(float, 0),
    "validation": {"best": {str: float}},
    "diagnostics": Maybe({str: float, "warning": Maybe(str)}, is_null_allowed=False),
    "validation_classes": Maybe(Number(int, 0), is_null_allowed=False),
    "deviations": Maybe([str], is_null_allowed=False),
    "problems": Maybe([dict], is_null_allowed=False),
    "environment": Maybe(dict),
    "seed": Maybe(int),
    "features": Maybe(dict, is_null_allowed=False),
}  # what a run writes; entries that may be missing are of some runs, or not of the first versions


@dataclass(frozen=True)
class UnitRun:
    """One fold and repeat of one configuration."""

    path: pathlib.Path
    fold: int
    repeat: int
    config: dict  # `config.json`; empty if missing or damaged
    result: dict | None  # `result.json` of a finished run
    problem: str | None = None  # why an existing result, or its copy, cannot be used

    @property
    def is_finished(self) -> bool:
        """True if the run has a usable result."""
        return self.result is not None

    @property
    def measured(self) -> dict:
        """The `result` of a finished run; raises `InvalidInput` for others."""
        if self.result is None:
            raise InvalidInput(f"{self.path} has not finished.")
        return self.result

    def test_metrics(self) -> dict[str, float]:
        """Return the trained model's test metrics as fractions; empty if unfinished."""
        return numbers(self.result.get("test")) if self.result else {}

    def untrained_metrics(self) -> dict[str, float]:
        """Return the test metrics before training, by name; empty if unknown."""
        return numbers(self.result.get("untrained")) if self.result else {}

    def test_embeddings(self) -> dict[str, np.ndarray]:
        """Load `test_embeddings.npz`; raise `InvalidInput` if it is missing or damaged."""
        return read_test_embeddings(self.path)

    def validation_curve(self, metric: str = "MAP@R") -> tuple[np.ndarray, np.ndarray]:
        """Read steps and validation metric `[evaluations]`, skipping lines without it."""
        points = {}
        for record in read_json_lines(self.path / "metrics.jsonl"):
            value = numbers(record.get("validation")).get(metric)
            if value is not None and _has_step(record):
                points[record["step"]] = float(value)
        steps = sorted(points)
        return np.array(steps, np.int64), np.array([points[step] for step in steps], np.float64)


@dataclass(frozen=True)
class MethodRuns:
    """All folds and repeats of one configuration of one method."""

    path: pathlib.Path
    protocol: str  # e.g. `"fair"`
    dataset: str
    method: str  # the folder's name without the hash
    config_hash: str
    units: tuple[UnitRun, ...]  # every fold and repeat that has a folder, in order

    @property
    def finished(self) -> dict[tuple[int, int], UnitRun]:
        """Finished runs by (fold, repeat)."""
        return {(unit.fold, unit.repeat): unit for unit in self.units if unit.is_finished}

    @property
    def problems(self) -> tuple[str, ...]:
        """One line for each result that cannot be used."""
        return tuple(unit.problem for unit in self.units if unit.problem)

    @property
    def deviations(self) -> tuple[str, ...]:
        """Differences between the data of finished runs and the official data set."""
        stated = itertools.chain.from_iterable(unit.measured.get("deviations", ()) for unit in self.finished.values())
        return tuple(dict.fromkeys(stated))

    @property
    def config(self) -> dict:
        """The configuration of the first run that has one; all share its hash."""
        return next((unit.config for unit in self.units if unit.config), {})

    def stated(self, config: Mapping[str, object]) -> dict[str, object]:
        """Add what these runs record of their initial weights to a configuration.

        A requested configuration names a file; a run records its content, so a verdict needs no file.
        """
        names = ("weights", "weights_source")
        return {**config, **{name: self.config[name] for name in names if name in self.config}}

    def missing(self, num_folds: int, num_repeats: int) -> list[tuple[int, int]]:
        """List the unfinished (fold, repeat) pairs of a full study."""
        return [pair for pair in itertools.product(range(num_folds), range(num_repeats)) if pair not in self.finished]


def collect(runs_dir, protocol: str | None = None, dataset: str | None = None) -> list[MethodRuns]:
    """List configurations under `runs_dir` that have runs, sorted by folder name.

    A folder that does not exist has no runs.
    """
    found = []
    for path in sorted(pathlib.Path(runs_dir).glob(f"{protocol or '*'}/{dataset or '*'}/*-*/")):
        runs = collect_method(path)
        if runs.units:
            found.append(runs)
    return found


def collect_method(path) -> MethodRuns:
    """Collect the runs in a configuration's folder (`.../<protocol>/<data set>/<method>-<hash>`).

    The folder may not exist yet.
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
    """Check that two methods ran the same folds and repeats.

    Subtraction requires it. A stopped study may fail; methods without units do.
    """
    pairs = [[(unit.fold, unit.repeat) for unit in units] for units in (first, second)]
    return pairs[0] == pairs[1] != []


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
    """Return a finished run's usable result, and the problem with it."""
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
    """Describe metric records that contain non-numbers."""
    try:
        odd = [record for record in read_json_lines(path) if not _is_ordinary(record)]
    except OSError as error:
        return f"{path} cannot be read ({error.strerror})."
    return f"{path} has {len(odd)} line(s) whose step or validation is no number; they are left out." if odd else None


def _is_ordinary(record: dict) -> bool:
    validation = record.get("validation", {})
    return _has_step(record) and isinstance(validation, dict) and len(numbers(validation)) == len(validation)


def _has_step(record: dict) -> bool:
    return isinstance(record.get("step"), int) and is_number(record["step"])


def objection_to(
    result: dict, fold: int, repeat: int, config_hash: str, identity: Mapping[str, Any] | None = None
) -> str | None:
    """Explain why a run's finished result cannot be shown; `None` if it can.

    Reports format, average and compare its figures, so text or NaN instead of a number is named here.
    """
    version = format_objection(result.get("format", FORMAT_VERSION))
    if version:
        return f"it {version}"
    stated = str(result.get("config_hash", ""))
    if not stated or not (stated.startswith(config_hash) or config_hash.startswith(stated)):
        return f"its configuration hash is {stated or 'missing'}, its folder's is {config_hash}"
    if (result.get("fold"), result.get("repeat")) != (fold, repeat):
        return f"it says fold {result.get('fold')}, repeat {result.get('repeat')}"
    changed = identity and changed_identity(identity, config_hash, fold, repeat)
    if changed:
        return changed
    found = difference(result, _RESULT)
    if found is None:
        return None
    if found.received is None:
        return f"it has no {found.entry}"
    return f"its {found.entry} is {found.received}, expected {found.expected}"


def numbers(metrics) -> dict[str, float]:
    """Return entries that are finite numbers; none unless `metrics` is a dictionary."""
    entries = metrics.items() if isinstance(metrics, dict) else ()
    return {name: value for name, value in entries if is_number(value)}


def is_number(value) -> bool:
    """Check that a JSON value is finite in float64 and no boolean."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and -1e300 < value < 1e300
