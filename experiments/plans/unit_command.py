"""The command that trains one cell, word for word."""

from __future__ import annotations

import functools
import shlex
from collections.abc import Mapping

from experiments.plans.study import Cell
from experiments.protocols.conventional import DEFAULT_REPEATS, MONITORS
from experiments.settings.build import EMBEDDED_DATASETS
from experiments.settings.config import ExperimentConfig
from experiments.settings.initial_weights import file_to_make
from experiments.settings.recipes import departures

DATA_DIR = "data"  # as in the README
_NAMED = ("dataset", "loss", "pooling", "method", "recipe", "budget", "chapter")


def unit_command(cell: Cell, places: Mapping[str, object] | None = None) -> str:
    """Return the command that trains a cell.

    `python -m experiments.fair_eval ...` gets every flag in which the cell differs from its recipe. Unconverted
    ImageNet weights are the file that `file_to_make` names; data without a folder are in `DATA_DIR`. A cell of
    another protocol names `experiments.conventional_eval` and its stopping rule. `places` change no result; None is
    left out, and lists are given item by item.
    """
    config = cell.config
    flags = {name: getattr(config, name) for name in (*_NAMED, *_set_by_hand(config))}
    module, repeats = "experiments.fair_eval", 1
    if config.protocol is None:
        flags["fold"] = cell.fold
    else:
        module, repeats = "experiments.conventional_eval", DEFAULT_REPEATS
        flags["monitor"] = next(name for name, protocol in MONITORS.items() if protocol == config.protocol)
    flags["repeat"] = cell.repeat
    if cell.repeat >= repeats:
        flags["repeats"] = cell.repeat + 1
    made = file_to_make(config.backbone, config.weights)
    if made:
        flags["weights"] = made
    flags |= {name: value for name, value in (places or {}).items() if value is not None}
    if config.dataset not in EMBEDDED_DATASETS:
        flags.setdefault("data_dir", DATA_DIR)
    given = [(name, each) for name, value in flags.items() for each in (value if isinstance(value, list) else [value])]
    return " ".join([f"python -m {module}", *(_flag(name, value) for name, value in given)])


@functools.lru_cache(maxsize=64)
def _set_by_hand(config: ExperimentConfig) -> tuple[str, ...]:
    """List settings that differ from the recipe, for all folds and repeats."""
    first = [name for name in departures(config, given=("chapter",)) if getattr(config, name) is not None]
    # What follows from these may be another value than the recipe's, which the configuration has, or none.
    return (*first, *departures(config, given=("chapter", *first)))


def _flag(name: str, value) -> str:
    if isinstance(value, bool):
        return f"--{name}" if value else f"--no{name}"
    return shlex.quote(f"--{name}={value}")
