"""Planted bugs, one at a time, and the module's tests that detect them.

Command: python -m tests.support.mutation [--only=distances_nan,fit_epochs] [--jobs=1] [--seconds=300]
    [--results=FILE]

The bugs are in `benchmarks/planted_bugs.txt`. Each is planted in a copy of the tree, where the module's own tests
(`x_test.py` of `x.py`) run until the first one fails, in a process forked after the import of TensorFlow. A bug that no
test detects survives, even if the tests exceed the limit. The tests that detected bugs run once more without any; those
that fail there have detected nothing. Bugs listed as equivalent do not count; one that is caught nevertheless is
`misjudged`. With `--results` the same command continues a stopped one, and repeats only bugs whose module or tests have
changed.
Last line: one JSON object.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
import pathlib
import shutil
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from absl import app, flags

from benchmarks.measure import print_figures, print_table
from common.errors import InvalidInput, check_choice, check_positive
from tests.support.forked_tests import FAILED, PASSED, ForkedTests
from tests.support.planted_bugs import Bug, read_bugs

ROOT = pathlib.Path(__file__).resolve().parents[2]
CAUGHT, SURVIVED, FALSE_ALARM = "caught", "survived", "fails without the bug, too"
_NOT_COPIED = (".git", ".venv*", ".*_cache", "__pycache__", "*.egg-info", "build", "dist")


class Result(NamedTuple):
    """The outcome of a bug."""

    name: str
    outcome: str  # `CAUGHT`, `SURVIVED`, `FALSE_ALARM`, or why the tests did not end
    test: str  # that failed
    seconds: float


def run_bugs(bugs: Sequence[Bug], trees: Sequence[pathlib.Path], limit: float) -> Iterator[Result]:
    """Plant each bug in a free tree and run its tests there.

    Args:
        bugs: in any order.
        trees: copies of the project: as many bugs are planted at a time.
        limit: seconds for the tests of a bug.
    """
    waiting, free, running = list(bugs), list(trees), {}
    try:
        while waiting or running:
            while waiting and free:
                bug, tree = waiting.pop(0), free.pop()
                original = (tree / bug.path).read_text(encoding="utf-8")
                (tree / bug.path).write_text(bug.planted(original), encoding="utf-8")
                running[bug] = tree, original, ForkedTests(tree, bug.tests, limit, tree.with_suffix(".log"))
            time.sleep(0.02)
            for bug, (tree, original, tests) in list(running.items()):
                outcome = tests.poll()
                if outcome is None:
                    continue
                del running[bug]
                (tree / bug.path).write_text(original, encoding="utf-8")
                free.append(tree)
                yield _result(bug, outcome)
    finally:
        for _, _, tests in running.values():
            tests.stop()


def _result(bug: Bug, outcome) -> Result:
    what = {FAILED: CAUGHT, PASSED: SURVIVED}.get(outcome.what, outcome.what)
    return Result(bug.name, what, next(iter(outcome.failed), ""), round(outcome.seconds, 1))


def without_false_alarms(results: Sequence[Result], tree: pathlib.Path, limit: float) -> list[Result]:
    """Return the results except bugs whose test fails without them too."""
    names = sorted({result.test for result in results if result.outcome == CAUGHT})
    if not names:
        return list(results)
    outcome = ForkedTests(tree, names, limit, tree.with_suffix(".log"), stop_at_first=False).wait()
    if outcome.what not in (PASSED, FAILED):
        raise InvalidInput(f"The tests that saw bugs did not end without any ({outcome.what}). Raise --seconds.")
    return [r._replace(outcome=FALSE_ALARM) if r.test in outcome.failed else r for r in results]


def summary(bugs: Iterable[Bug], results: Iterable[Result]) -> tuple[list[list], dict]:
    """Return the table's rows and the figures: bugs caught.

    Equivalent bugs do not count.
    """
    found = {result.name: result for result in results}
    rows, survivors, equivalent, misjudged, caught = [], [], [], [], 0
    for bug in bugs:
        result = found[bug.name]
        is_caught = result.outcome == CAUGHT
        if bug.equivalent:
            (misjudged if is_caught else equivalent).append(bug.name)
        elif is_caught:
            caught += 1
        else:
            survivors.append(bug.name)
        seen = result.test.rpartition("/")[2] if is_caught else result.outcome.upper()
        rows.append([bug.name, bug.path, f"equivalent: {bug.equivalent}" if bug.equivalent else seen, result.seconds])
    planted = caught + len(survivors)
    figures = {"planted": planted, "caught": caught, "share": caught / max(planted, 1), "survivors": survivors}
    return rows, {**figures, "equivalent": equivalent, "misjudged": misjudged}


class Results:
    """A file of results, a line each; outdated results are skipped.

    A bug's module and tests count as they are when it is first looked up, since files may change during a long run.

    Args:
        path: of the file; None: nothing is kept.
    """

    def __init__(self, path: str | None):
        self._path, self._key = path, functools.cache(_key)
        self._known: dict[str, Result] = {}
        with contextlib.suppress(FileNotFoundError):
            for line in pathlib.Path(path).read_text().splitlines() if path else ():
                entry = json.loads(line)
                key = entry.pop("key")
                self._known[key] = Result(**entry)

    def find(self, bug: Bug) -> Result | None:
        """Return the result of a bug with unchanged module and tests."""
        return self._known.get(self._key(bug))

    def add(self, bug: Bug, result: Result) -> None:
        """Store a result."""
        self._known[self._key(bug)] = result
        if self._path:
            with open(self._path, "a", encoding="utf-8") as file:
                file.write(json.dumps({"key": self._key(bug), **result._asdict()}) + "\n")


def _key(bug: Bug) -> str:
    texts = [(ROOT / path).read_text(encoding="utf-8") for path in (bug.path, *bug.tests) if (ROOT / path).exists()]
    return hashlib.sha256(repr((bug[:5], texts)).encode()).hexdigest()[:20]


def _not_copied(folder: str, names: list[str]) -> set[str]:
    """Ignore what is no part of the project: also `runs`, but not `experiments/runs`."""
    own_runs = {"runs"} if pathlib.Path(folder) == ROOT else set()
    return shutil.ignore_patterns(*_NOT_COPIED)(folder, names) | own_runs


def _import_what_tests_need() -> None:
    """Import the tests' dependencies once, before any fork."""
    os.environ.setdefault("TF_NUM_INTRAOP_THREADS", "1")
    import sklearn.cluster  # noqa: F401
    import tensorflow as tf

    _ = tf.keras.layers


def main(argv: list[str]) -> int:
    """Run the bugs and print the table."""
    del argv
    names = flags.FLAGS.only
    bugs = read_bugs()
    for name in names:
        check_choice("--only", name, [bug.name for bug in bugs])
    check_positive("--jobs", flags.FLAGS.jobs)
    check_positive("--seconds", flags.FLAGS.seconds)
    bugs = [bug for bug in bugs if bug.name in names or not names]
    known = Results(flags.FLAGS.results)
    _import_what_tests_need()
    with tempfile.TemporaryDirectory(prefix="mutation-") as folder:
        trees = [pathlib.Path(folder, f"tree{number}") for number in range(flags.FLAGS.jobs)]
        for tree in trees:
            shutil.copytree(ROOT, tree, ignore=_not_copied)
        waiting = {bug.name: bug for bug in bugs if known.find(bug) is None}
        for result in run_bugs(list(waiting.values()), trees, flags.FLAGS.seconds):
            known.add(waiting[result.name], result)
            print(*result, sep="  ", flush=True)
        results = without_false_alarms([known.find(bug) for bug in bugs], trees[0], 4 * flags.FLAGS.seconds)
    rows, figures = summary(bugs, results)
    print()
    print_table(["bug", "module", "caught by", "seconds"], rows)
    print_figures(figures)
    return 0


def _define_flags() -> None:
    flags.DEFINE_list("only", [], "names of bugs; none: all of the list")
    flags.DEFINE_integer("jobs", 1, "bugs at a time")
    flags.DEFINE_float("seconds", 300.0, "longest time for the tests of one bug")
    flags.DEFINE_string("results", None, "file of results: the same command continues from it")


def run() -> None:
    """Run the command."""
    _define_flags()
    try:
        app.run(main)
    except InvalidInput as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    run()
