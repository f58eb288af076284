"""Disk space of caches and runs: list them, and remove those that are chosen.

Regenerates: nothing; prepared images and features are made again when they are needed, runs are not.
Command: python -m experiments.clean                     (lists and removes nothing)
    python -m experiments.clean --cache --runs=unfinished --older_than_days=30
    python -m experiments.clean --cache --keep_gb=20 --yes    (all caches but those used last, of 20 GB)
Expected: a table of caches and runs with size and age, then the freed space.
Cost: seconds; it reads the sizes of all files there.

It asks before it removes anything. Runs in progress stay, and meanwhile all caches.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import shutil
import sys
import time
from typing import NamedTuple

from absl import flags

from common.errors import InvalidInput, check_non_negative
from common.files import default_cache_dir, hold_lock, is_locked, read_json
from common.records.run_directory import read_finished_result
from experiments.reports.plain_tables import Table
from experiments.settings import flags as experiment_flags

CACHE, FINISHED, UNFINISHED, IN_PROGRESS = "cache", "finished run", "unfinished run", "run in progress"
CHOICES = {"unfinished": (UNFINISHED,), "all": (UNFINISHED, FINISHED)}
_COPIES = ("images/*/prepared/shorter_side_*", "images/*/shards/shorter_side_*")
_CACHES = (*_COPIES, "features/*/*/origin.json", "models", "copies/*")
_OF_A_RUN = {"dataset", "loss", "pooling", "fold", "repeat"}  # in each config.json


class Folder(NamedTuple):
    """A cache or a run."""

    path: pathlib.Path
    root: str  # of all caches or runs
    kind: str
    num_bytes: int
    days: float  # since its last use


def main() -> None:
    """List caches and runs; remove the chosen ones after a question."""
    values = flags.FLAGS
    check_non_negative("--older_than_days", values.older_than_days)
    if not values.cache:
        experiment_flags.refuse_flags(values, "keep_gb", because="only --cache removes caches")
    cache_dir = values.cache_dir or default_cache_dir()
    found = folders_in(cache_dir, values.runs_dir)
    kinds = (*((CACHE,) if values.cache else ()), *CHOICES.get(values.runs, ()))
    if values.cache and any(each.kind == IN_PROGRESS for each in found):
        print("Caches stay while a run is in progress.")
        kinds = kinds[1:]
    kept, left = set(), 1e9 * (values.keep_gb or 0)
    for each in sorted((each for each in found if each.kind == CACHE), key=lambda each: each.days):
        left -= each.num_bytes
        if left >= 0:
            kept.add(each)
    chosen = [each for each in found if each.kind in kinds and each.days >= values.older_than_days and each not in kept]
    shown = chosen or found
    rows = [(str(each.path), each.kind, f"{each.days:.1f}", _megabytes([each])) for each in shown]
    title = f"Caches in {cache_dir}, runs in {values.runs_dir}" + (": chosen" if chosen else "")
    header = ("folder", "what", "days old", "size")
    print(Table(title, header, [*rows, ("all", "", "", _megabytes(shown))]).as_text())
    if not chosen:
        chosen_nothing = not values.cache and values.runs is None
        print("Choose by --cache or --runs what to remove." if chosen_nothing else "Nothing to remove.")
    elif values.yes or _agreed(chosen):
        removed = [each for each in chosen if _remove(each)]
        print(f"Freed {_megabytes(removed)}: {len(removed)} of {len(chosen)} removed.")
        if len(removed) < len(chosen):
            print("The others are in use.")
    else:
        print("Nothing was removed.")


def folders_in(cache_dir: str, runs_dir: str) -> list[Folder]:
    """Find caches, and runs at any depth, largest first; skip links."""
    caches = [path for pattern in _CACHES for path in pathlib.Path(cache_dir).glob(pattern)]
    caches = [path.parent if path.name == "origin.json" else path for path in caches]
    found = [_folder(path, cache_dir, CACHE) for path in caches if path.is_dir() and not path.is_symlink()]
    for place, _, names in os.walk(runs_dir):
        path = pathlib.Path(place)
        if "config.json" in names and (read_json(path / "config.json") or {}).keys() >= _OF_A_RUN:
            kind = FINISHED if read_finished_result(path)[0] is not None else UNFINISHED
            found.append(_folder(path, runs_dir, IN_PROGRESS if is_locked(path / "lock") else kind))
    return sorted(found, key=lambda each: -each.num_bytes)


def _folder(path: pathlib.Path, root: str, kind: str) -> Folder:
    states = []
    for each in (path, *path.rglob("*")):
        with contextlib.suppress(FileNotFoundError):  # removed meanwhile
            states.append(each.lstat())
    newest = max(state.st_mtime for state in states[kind != CACHE :])  # of a run's folder itself it means nothing
    return Folder(path, root, kind, sum(state.st_size for state in states), max(0.0, time.time() - newest) / 86400)


def _remove(folder: Folder) -> bool:
    """Remove a folder and its empty parents unless a process uses it; return success."""
    try:
        with hold_lock(folder.path / "lock", refusal=InvalidInput("in use")):
            shutil.rmtree(folder.path)
    except InvalidInput:
        return False
    with contextlib.suppress(OSError):  # not empty
        for above in folder.path.relative_to(folder.root).parents[:-1]:
            pathlib.Path(folder.root, above).rmdir()
    return True


def _agreed(chosen: list[Folder]) -> bool:
    if not sys.stdin.isatty():
        raise InvalidInput("Missing --yes: there is no terminal to ask on. Give --yes to remove what is listed.")
    answer = input(f"Remove {len(chosen)} of these, {_megabytes(chosen)}, with all in them, for ever? [y/N] ")
    return answer.strip().lower() in ("y", "yes")


def _megabytes(folders: list[Folder]) -> str:
    return f"{sum(each.num_bytes for each in folders) / 1e6:,.1f} MB"


if __name__ == "__main__":
    experiment_flags.define("cache_dir", "runs_dir")
    flags.DEFINE_float("older_than_days", 0, "Only caches unused and runs unwritten for so many days.")
    flags.DEFINE_boolean("cache", False, "Remove prepared images, features, and models and embeddings of photo search.")
    flags.DEFINE_float("keep_gb", None, "With --cache: all but those used last, of so many GB (10^9 bytes).", 0.0)
    flags.DEFINE_enum("runs", None, tuple(CHOICES), "Remove these runs; all: finished ones, too, with their results.")
    flags.DEFINE_boolean("yes", False, "Do not ask.")
    experiment_flags.run_command(main, kept="What was not removed is unchanged.")
