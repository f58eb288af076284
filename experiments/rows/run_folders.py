"""Rows of the runs on disk.

Layout: `runs/<protocol>/<data set>/<method>-<hash>/fold<k>-repeat<r>/` with `config.json`, `metrics.jsonl`,
`test_embeddings.npz` and `result.json`. Runs are grouped by the configuration's folder (`<method>-<hash>`) alone. A
result is left out and named if its configuration hash is not the folder's, or if `config.json` was changed since: its
hash is computed and compared.
"""

from __future__ import annotations

import itertools
import pathlib
import re
from collections.abc import Iterable, Mapping
from typing import Any

from common.files import FORMAT_VERSION, Maybe, Number, difference, format_objection, read_json, read_json_lines
from common.records.run_directory import RESULT_COPY, read_finished_result
from common.training.methods import INTERPOLATED
from experiments.rows.rows import CLOSED_FORM, TRAINING, UNTRAINED, VALIDATED_BEFORE, Row, label_of
from experiments.settings.config import changed_identity

_ENVIRONMENT = (
    *("commit", "python", "tensorflow", "keras", "numpy", "system", "cpu", "cores", "vector_instructions"),
    *("threads", "onednn", "gpus", "deterministic_ops"),
)  # what older runs did not record is null
_PLACE = ("fold", "repeat", "data")  # of `config.json`, beside the fields of the configuration
_DIGITS = 6  # of validation curves
_PERPLEXITIES = ("position_perplexity", "prototype_perplexity")  # of GSP's weights
_UNIT = re.compile(r"fold([0-9]{1,4})-repeat([0-9]{1,4})")
_FRACTION = Number(float, 0, 1)
_METRICS = {"P@1": _FRACTION, "MAP@R": _FRACTION}  # of every test set; newer runs have more
_RESULT = {
    "test": _METRICS,
    UNTRAINED: _METRICS,
    **dict.fromkeys((CLOSED_FORM, VALIDATED_BEFORE), Maybe({str: _METRICS}, is_null_allowed=False)),
    "steps": Number(int, 0),
    "train_seconds": Number(float, 0),
    "processor_seconds": Maybe(Number(float, 0), is_null_allowed=False),
    "validation": {"best": {str: float}},
    "diagnostics": Maybe({str: float, "warning": Maybe(str)}, is_null_allowed=False),
    "validation_classes": Maybe(Number(int, 0), is_null_allowed=False),
    "deviations": Maybe([str], is_null_allowed=False),
    "problems": Maybe([dict], is_null_allowed=False),
    "environment": Maybe(dict),
    "seed": Maybe(int),
    "features": Maybe(dict, is_null_allowed=False),
    INTERPOLATED: Maybe({str: {"validation": _METRICS, "test": _METRICS}}, is_null_allowed=False),
}  # what a run writes; entries that may be missing are of some runs, or not of the first versions


def collect(runs_dir, protocol: str | None = None, dataset: str | None = None) -> list[list[Row]]:
    """Collect the runs of each configuration under `runs_dir`, sorted by folder name.

    A folder that does not exist has no runs.
    """
    folders = sorted(pathlib.Path(runs_dir).glob(f"{protocol or '*'}/{dataset or '*'}/*-*/"))
    return [rows for folder in folders if (rows := collect_method(folder))]


def collect_method(path) -> list[Row]:
    """Return the rows of a configuration's folder, by fold and repeat.

    Unfinished runs are among them. The folder (`.../<protocol>/<data set>/<method>-<hash>`) may not exist yet.
    """
    children = pathlib.Path(path).glob("fold*-repeat*")
    rows = [row_at(child) for child in children if _UNIT.fullmatch(child.name) and child.is_dir()]
    return sorted(rows, key=lambda row: row.place)


def finished(rows: Iterable[Row]) -> dict[tuple[int, int], Row]:
    """Return the finished runs by fold and repeat."""
    return {row.place: row for row in rows if row.is_finished}


def missing(rows: Iterable[Row], num_folds: int, num_repeats: int) -> list[tuple[int, int]]:
    """List the unfinished folds and repeats of a full study."""
    done = finished(rows)
    return [place for place in itertools.product(range(num_folds), range(num_repeats)) if place not in done]


def problems_of(rows: Iterable[Row]) -> list[str]:
    """Return a line for each result that cannot be used."""
    return [row.problem for row in rows if row.problem]


def deviations_of(rows: Iterable[Row]) -> list[str]:
    """List differences between the data of finished runs and the official data set."""
    return list(dict.fromkeys(deviation for row in rows for deviation in row["deviations"]))


def config_of(rows: Iterable[Row]) -> Mapping[str, Any]:
    """Return the `config.json` of the first run that has one."""
    return next((row.config for row in rows if row.config), {})


def run_row(
    path: pathlib.Path,
    fold: int,
    repeat: int,
    config: Mapping[str, Any],
    result: Mapping[str, Any],
    validations: Mapping[int, Mapping[str, float]] | None = None,
    problem: str | None = None,
) -> Row:
    """Build the row of a run, named by its folder and configuration.

    A run without a `config.json` has no data in its row. One without a pooling, such as MNIST's, is labelled by its
    folder.
    """
    validations, folder = validations or {}, path.parent
    environment, best = result.get("environment") or {}, dict(result.get("validation", {}).get("best", {}))
    configuration = {name: value for name, value in config.items() if name not in _PLACE}
    kept = ("diagnostics", "problems", "features", INTERPOLATED, CLOSED_FORM, VALIDATED_BEFORE)
    extras = {name: result[name] for name in kept if name in result}
    if INTERPOLATED in result and "validation_classes" in result:  # for a choice
        extras["validation_classes"] = result["validation_classes"]
    of_best = validations.get(best.get("step", -1), {})
    extras |= {name: of_best[name] for name in _PERPLEXITIES if name in of_best}
    curve = [[step, round(float(of["MAP@R"]), _DIGITS)] for step, of in validations.items() if "MAP@R" in of]
    extras |= {"validation_curve": curve} if curve else {}
    method, _, config_hash = folder.name.rpartition("-")
    row = {
        "kind": TRAINING,
        "command": None,
        "protocol": folder.parent.parent.name,
        "dataset": folder.parent.name,
        "method": method,
        "label": label_of(configuration) if result and "pooling" in configuration else method,
        "config_hash": config_hash,
        "configuration": configuration,
        "data": config.get("data"),
        "fold": fold,
        "repeat": repeat,
        "seed": result.get("seed"),
        "steps": result.get("steps"),
        "best_step": best.pop("step", None),
        "validation": best,
        "train_seconds": result.get("train_seconds"),
        **({"processor_seconds": result["processor_seconds"]} if "processor_seconds" in result else {}),
        "environment": {name: environment.get(name) for name in _ENVIRONMENT},
        "deviations": list(result.get("deviations", ())),
        "test": numbers(result.get("test")),
        UNTRAINED: numbers(result.get(UNTRAINED)),
        "extras": extras,
    }
    evaluations = tuple(validations.items())
    return Row(
        row, source=str(path), folder=path, config=config, result=result, validations=evaluations, problem=problem
    )


def row_at(path: pathlib.Path) -> Row:
    """Return the row of a run's folder, `fold<k>-repeat<r>`."""
    path = path.absolute()  # of which "." has no name
    fold, repeat = map(int, re.findall("[0-9]+", path.name))
    config_hash = path.parent.name.rpartition("-")[2]
    try:
        config = read_json(path / "config.json") or {}
        result, problem = _result(path, fold, repeat, config_hash, config)
    except OSError as error:  # a file that is there and may not be read
        result, problem, config = None, f"{error.filename} cannot be read ({error.strerror}).", {}
    validations, odd = _validations(path / "metrics.jsonl")
    return run_row(path, fold, repeat, config, result or {}, validations, problem or odd)


def _validations(path: pathlib.Path) -> tuple[dict[int, dict[str, float]], str | None]:
    """Return metrics by step, and the problem with lines that contain non-numbers."""
    try:
        records = read_json_lines(path)
    except OSError as error:
        return {}, f"{path} cannot be read ({error.strerror})."
    odd = sum(not _is_ordinary(record) for record in records)
    found: dict[int, dict[str, float]] = {}
    for record in filter(_has_step, records):
        found.setdefault(record["step"], {}).update(numbers(record.get("validation")))
    problem = f"{path} has {odd} line(s) whose step or validation is no number; they are left out." if odd else None
    return dict(sorted(found.items())), problem


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
