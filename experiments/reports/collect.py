"""Finds finished runs on disk and reads what they measured.

Layout: `runs/<protocol>/<data set>/<method>-<hash>/fold<k>-repeat<r>/` with `config.json`, `metrics.jsonl`,
`test_embeddings.npz` and `result.json`. The last folder but one is one configuration: runs are grouped by it and by
nothing else, and a result that carries another configuration hash than its folder is left out and named.
"""

from __future__ import annotations

import itertools
import json
import pathlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from common.ops.checks import InvalidInput
from common.training.run_directory import read_arrays, read_json

_UNIT = re.compile(r"fold(\d+)-repeat(\d+)")


@dataclass(frozen=True)
class UnitRun:
    """One fold and repeat of one configuration.

    Args:
        path: its folder.
        fold: from 0.
        repeat: from 0.
        config: `config.json`; empty when it is missing or damaged.
        result: `result.json` of a finished run, else `None`.
        problem: why a result that is there cannot be used; `None` when nothing is wrong, as with an unfinished run.
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

    def test_metrics(self) -> dict[str, float]:
        """Test metrics of the trained model by name, as fractions; empty until the run is finished."""
        return _numbers(self.result.get("test")) if self.result else {}

    def untrained_metrics(self) -> dict[str, float]:
        """Test metrics before training, by name; empty when they are not known."""
        return _numbers(self.result.get("untrained")) if self.result else {}

    def test_embeddings(self) -> dict[str, np.ndarray]:
        """The arrays of `test_embeddings.npz` by name.

        Raises:
            InvalidInput: when the file is missing or damaged.
        """
        path = self.path / "test_embeddings.npz"
        if not path.exists():
            raise InvalidInput(f"{path} is missing. Delete {self.path} and run this fold and repeat again.")
        return read_arrays(path)

    def validation_curve(self, metric: str = "MAP@R") -> tuple[np.ndarray, np.ndarray]:
        """Steps and validation metric `[evaluations]` from `metrics.jsonl`; lines without it are passed over."""
        points = {}
        for record in _records(self.path / "metrics.jsonl"):
            validation = record.get("validation")
            if isinstance(validation, dict) and metric in validation and "step" in record:
                points[int(record["step"])] = float(validation[metric])
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
        stated = itertools.chain.from_iterable(unit.result.get("deviations", ()) for unit in self.finished.values())
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


def _unit(path: pathlib.Path, fold: int, repeat: int, config_hash: str) -> UnitRun:
    result, problem = read_json(path / "result.json"), None
    if result is None:
        if (path / "result.json").exists():
            problem = f"{path / 'result.json'} is damaged; the run counts as unfinished."
    elif result.get("status") != "finished":
        result = None
    else:
        problem = _objection(result, fold, repeat, config_hash)
        if problem:
            result, problem = None, f"{path / 'result.json'} is left out: {problem}."
    return UnitRun(path, fold, repeat, read_json(path / "config.json") or {}, result, problem)


def _objection(result: dict, fold: int, repeat: int, config_hash: str) -> str | None:
    """Why a finished result does not belong to its folder, or `None`."""
    stated = str(result.get("config_hash", ""))
    if not stated or not (stated.startswith(config_hash) or config_hash.startswith(stated)):
        return f"its configuration hash is {stated or 'missing'}, its folder's is {config_hash}"
    if (result.get("fold"), result.get("repeat")) != (fold, repeat):
        return f"it says fold {result.get('fold')}, repeat {result.get('repeat')}"
    return None if _numbers(result.get("test")) else "it has no test metrics"


def _numbers(metrics) -> dict[str, float]:
    """The entries that are numbers; none when `metrics` is no dictionary."""
    entries = metrics.items() if isinstance(metrics, dict) else ()
    return {name: value for name, value in entries if isinstance(value, (int, float))}


def _records(path: pathlib.Path) -> Iterator[dict]:
    """The lines of a JSON-lines file that can be read; a run that was killed may leave a last one cut off."""
    if not path.exists():
        return
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            record = json.loads(line)
        except json.JSONDecodeError:
            continue
        if isinstance(record, dict):
            yield record
