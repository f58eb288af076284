"""Disk space of caches and runs: list them, and remove those that are chosen.

Regenerates: nothing; prepared images and features are made again when they are needed, runs are not.
Command: python -m experiments.clean                     (lists and removes nothing)
    python -m experiments.clean --cache --runs=unfinished --older_than_days=30
    python -m experiments.clean --cache --keep_gb=20 --yes    (least recently used caches, until 20 GB are left)
Expected: a table of caches and runs with size and age, then the freed space.
Cost: seconds; it reads the sizes of all files there.

It asks before it removes anything. Runs in progress stay, and so does every folder with a file that is not this
project's.
"""

from __future__ import annotations

import sys

from absl import flags

from common.errors import InvalidInput, check_non_negative
from experiments.preparation import leftovers
from experiments.reports.plain_tables import PlainTable
from experiments.settings import build
from experiments.settings import flags as experiment_flags

CHOICES = {"unfinished": (leftovers.UNFINISHED,), "all": (leftovers.UNFINISHED, leftovers.FINISHED)}


def main() -> None:
    """List caches and runs; remove the chosen ones after a question."""
    values = flags.FLAGS
    check_non_negative("--older_than_days", values.older_than_days)
    if not values.cache:
        experiment_flags.refuse_flags(values, "keep_gb", because="only --cache removes caches")
    cache_dir = values.cache_dir or build.default_cache_dir()
    runs = leftovers.runs_in(values.runs_dir)
    found = [
        *((each, cache_dir) for each in leftovers.caches_in(cache_dir)),
        *((each, values.runs_dir) for each in runs),
    ]
    found = [(each, root) for each, root in found if each.days >= values.older_than_days]
    print(_table([each for each, _ in found], cache_dir, values.runs_dir))
    busy = any(run.kind == leftovers.IN_PROGRESS for run in runs)
    if values.cache and busy:
        print("Caches stay while a run is in progress.")
    if values.keep_gb is not None:
        of_these, caches = [each for each, _ in found], leftovers.caches_in(cache_dir)
        kept = leftovers.recently_used(of_these, caches, round(values.keep_gb * 1e9))
        found = [(each, root) for each, root in found if each.folder not in kept]
    kinds = (*(leftovers.CACHES if values.cache and not busy else ()), *CHOICES.get(values.runs, ()))
    chosen = [(each, root) for each, root in found if each.kind in kinds and not each.kept_because]
    if not chosen:
        chosen_nothing = not values.cache and values.runs is None
        print("Choose by --cache or --runs what to remove." if chosen_nothing else "Nothing to remove.")
        return
    if not _agreed(len(chosen), sum(each.num_bytes for each, _ in chosen), values.yes):
        print("Nothing was removed.")
        return
    removed = [each for each, root in chosen if leftovers.remove(each, root)]
    print(f"Freed {_megabytes(sum(each.num_bytes for each in removed))}: {len(removed)} of {len(chosen)} removed.")
    if len(removed) < len(chosen):
        print("The others were changed meanwhile or are in use.")


def _agreed(count: int, num_bytes: int, yes: bool) -> bool:
    """Ask on the terminal, unless --yes is given."""
    if yes:
        return True
    if not sys.stdin.isatty():
        raise InvalidInput("Missing --yes: there is no terminal to ask on. Give --yes to remove what is listed.")
    answer = input(f"Remove {count} of these, {_megabytes(num_bytes)}, for ever? [y/N] ")
    return answer.strip().lower() in ("y", "yes")


def _table(found: list[leftovers.Leftover], cache_dir: str, runs_dir: str) -> str:
    rows = [
        (
            str(each.folder),
            each.kind + " (stays)" * bool(each.kept_because),
            f"{each.days:.1f}",
            _megabytes(each.num_bytes),
        )
        for each in sorted(found, key=lambda each: -each.num_bytes)
    ]
    total = ("all", "", "", _megabytes(sum(each.num_bytes for each in found)))
    header = ("folder", "what", "days old", "size")
    notes = [f"{each.folder} stays: {each.kept_because}." for each in found if each.kept_because]
    return PlainTable(f"Caches in {cache_dir}, runs in {runs_dir}", header, [*rows, total], notes).as_text()


def _megabytes(num_bytes: int) -> str:
    return f"{num_bytes / 1e6:,.1f} MB"


if __name__ == "__main__":
    experiment_flags.define("cache_dir", "runs_dir")
    flags.DEFINE_float("older_than_days", 0, "Only caches unused and runs unwritten for so many days.")
    flags.DEFINE_boolean("cache", False, "Remove prepared images and features.")
    flags.DEFINE_float("keep_gb", None, "With --cache: only the least recently used, until so many GB are left.", 0.0)
    flags.DEFINE_enum("runs", None, tuple(CHOICES), "Remove these runs; all: finished ones, too, with their results.")
    flags.DEFINE_boolean("yes", False, "Do not ask.")
    experiment_flags.run_command(main, kept="What was not removed is unchanged.")
