"""Random faults of every known kind in a short training, checked for losses.

Command: python -m benchmarks.faults [--faults=100] [--seed=0] [--minutes=20] [--methods=c1+xbm+gap,c2+ccp+gap]
    [--kinds=SIGKILL,SIGTERM] [--keep=FOLDER]

Each fault hits one session of a run of glyph images; the next session is the restart, and has the next fault. When a
run has finished despite all faults, its result, weights, test embeddings and validation curve are compared bit for bit
with those of an undisturbed run, and the next run begins. The table lists, for each kind, how its sessions ended and
how many of them belong to runs that ended bit for bit equal. Exit code 1 if anything was lost, wrong, or ended in a way
that `docs/reliability.md` does not name. Last line: one JSON object.
"""

from __future__ import annotations

import collections
import json
import math
import multiprocessing
import os
import pathlib
import sys
import tempfile
import time
import zipfile
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from absl import app, flags

from benchmarks.fault_training import INSIDE, MAX_STEPS, METHODS, Place, draw_images, run_session
from benchmarks.measure import print_figures, print_table
from common.errors import check_choice

KILL, TERMINATE, CHECKPOINT, RESULT = "SIGKILL", "SIGTERM", "damaged checkpoint", "truncated result"
PROCESSES, IMAGE = "two processes", "image gone"
KINDS = (KILL, TERMINATE, CHECKPOINT, RESULT, PROCESSES, IMAGE, *INSIDE)
FINISHED, KILLED, STOPPED = "finished", "killed", "stopped, one message"
CONTINUED, REFUSED, DAMAGED = "resumed from the one before", "second one refused", "stopped, asks to start again"
RESTORED = "read again from its copy"
_MESSAGES = {  # of the sessions that stop with exit code 2
    "disk full": "No space left on device",
    "read-only folder": "Read-only file system",
    "NaN in the loss": "The loss became nan at training batch",
    "NaN in a gradient": "A gradient became NaN or infinite",
    IMAGE: "Invalid image file",
    PROCESSES: "Another process is working on",
}
_SESSION_LIMIT = 600.0  # seconds after which a session counts as hanging


class Fault(NamedTuple):
    """A fault and its session's outcome; `outcome` is None if undocumented."""

    kind: str
    outcome: str | None
    detail: str


class Session:
    """One process that trains or continues.

    Args:
        context: starts processes.
        place: the run's folders.
        log: file for its terminal.
        fault: from inside, or None.
        delay: seconds until it.
        step: of the NaN.
    """

    def __init__(self, context, place: Place, log: pathlib.Path, fault: str | None = None, delay=0.0, step: int = 0):
        self._log, self._begin = log, log.stat().st_size if log.exists() else 0
        self._started = time.monotonic()
        self._process = context.Process(target=run_session, args=(place, fault, delay, step, str(log)))
        self._process.start()

    def wait(self, seconds: float = _SESSION_LIMIT) -> int | None:
        """Return the exit code, negative for a signal; None while it runs."""
        self._process.join(seconds)
        return self._process.exitcode

    def kill(self) -> None:
        """Send SIGKILL."""
        self._process.kill()

    def terminate(self) -> None:
        """Send SIGTERM."""
        self._process.terminate()

    def seconds(self) -> float:
        """Return the seconds since it began."""
        return time.monotonic() - self._started

    def text(self) -> str:
        """Return the output on its terminal."""
        return self._log.read_bytes()[self._begin :].decode(errors="replace")


class Harness:
    """Successive faults, over runs in one folder.

    Args:
        folder: for images, runs and logs.
        methods: names of methods, taken in turn.
        seed: of kinds and moments.
        kinds: which of `KINDS`.
    """

    def __init__(self, folder: pathlib.Path, methods: list[str], seed: int, kinds: Sequence[str] = KINDS):
        self.folder, self.methods = folder, methods
        self.kinds = [check_choice("--kinds", kind, KINDS) for kind in kinds]
        self.rng = np.random.default_rng(seed)
        self.context = multiprocessing.get_context("forkserver")
        self.context.set_forkserver_preload(["benchmarks.fault_training"])
        self.log = folder / "log.txt"
        self.faults: list[Fault] = []
        self.unequal: list[int] = []  # numbers of faults in runs that ended otherwise
        self.num_runs, self._first_fault = 0, 0
        draw_images(str(folder / "images"))
        self.expected, self.seconds = {}, 0.0
        for method in methods:
            place = self.place(f"undisturbed-{method}", method)
            if self._finish(place) != 0:
                raise RuntimeError(f"the undisturbed training failed: {self.log.read_text()[-2000:]}")
            self.expected[method] = signature(self.run_path(place))

    def place(self, name: str, method: str) -> Place:
        """Return the folders of a run."""
        return Place(str(self.folder / "images"), str(self.folder / "cache"), str(self.folder / name), method)

    def run_path(self, place: Place) -> pathlib.Path:
        """Return the folder of the only run in a place."""
        (path,) = pathlib.Path(place.runs).glob("*/*/*/fold*")
        return path

    def session(self, place: Place, *arguments) -> Session:
        """Start a session."""
        return Session(self.context, place, self.log, *arguments)

    def run(self, num_faults: int, minutes: float = math.inf) -> None:
        """Make `num_faults` faults within `minutes`, then finish the last training."""
        deadline = time.monotonic() + 60 * minutes
        kinds = [self.kinds[index % len(self.kinds)] for index in range(num_faults)]
        place = self._next_place()
        for kind in self.rng.permutation(kinds):
            if time.monotonic() > deadline:
                break
            found = self._fault(str(kind), place)
            self.faults.append(found)
            print(f"{len(self.faults):4d}  {kind:<20} {found.outcome or 'NOT DOCUMENTED: ' + found.detail}", flush=True)
            if self._is_finished(place):
                self._compare(place)
                place = self._next_place()
        if self._first_fault < len(self.faults):
            self._finish(place)
            self._compare(place)

    def _next_place(self) -> Place:
        self.num_runs += 1
        return self.place(f"run{self.num_runs}", self.methods[self.num_runs % len(self.methods)])

    def _compare(self, place: Place) -> None:
        found, expected = signature(self.run_path(place)), self.expected[place.method]
        if found != expected:
            self.unequal += range(self._first_fault, len(self.faults))
            differing = [name for name in expected if found.get(name) != expected[name]]
            print(f"      run {self.num_runs} ({place.method}) differs in {', '.join(differing)}", flush=True)
        self._first_fault = len(self.faults)

    def _is_finished(self, place: Place) -> bool:
        return bool(list(pathlib.Path(place.runs).glob("*/*/*/fold*/result.json")))

    def _finish(self, place: Place) -> int | None:
        session = self.session(place)
        code = session.wait()
        self._learn(session)
        return code

    def _learn(self, session: Session) -> None:
        """Update the usual duration of a session, since the machine's load varies."""
        self.seconds = (self.seconds + session.seconds()) / 2 if self.seconds else session.seconds()

    def _fault(self, kind: str, place: Place) -> Fault:
        moment = self.rng.uniform(0.0, self.seconds)
        make = {
            KILL: self._signal,
            TERMINATE: self._signal,
            CHECKPOINT: self._damage_checkpoint,
            RESULT: self._truncate_result,
            PROCESSES: self._second_process,
            IMAGE: self._remove_image,
        }
        outcome, detail = make.get(kind, self._inside)(kind, place, moment)
        return Fault(kind, outcome, detail)

    def _signal(self, kind: str, place: Place, moment: float) -> tuple[str | None, str]:
        session = self.session(place)
        if session.wait(moment) is None:
            (session.kill if kind == KILL else session.terminate)()
        code = session.wait()
        if code in (-9, -15):  # SIGTERM before Python listens to it
            return KILLED, ""
        stopped = code == 143 and "Terminated." in session.text()
        return (STOPPED if stopped else _finished(code)), f"exit code {code}: {session.text()[-500:]}"

    def _inside(self, kind: str, place: Place, moment: float) -> tuple[str | None, str]:
        session = self.session(place, kind, moment, int(self.rng.integers(0, MAX_STEPS)))
        return self._ended(kind, session)

    def _damage_checkpoint(self, kind: str, place: Place, moment: float) -> tuple[str | None, str]:
        first, last_file = self.session(place), self.rng.choice(["checkpoint.npz", "checkpoint.previous.npz"])
        while first.wait(0.02) is None and not list(pathlib.Path(place.runs).rglob(str(last_file))):
            pass  # there is nothing to damage yet
        first.kill()
        first.wait()
        paths = [] if self._is_finished(place) else list(pathlib.Path(place.runs).rglob("checkpoint.npz"))
        for path in paths:
            damage(path, self.rng)
        session = self.session(place)
        code, text = session.wait(), session.text()
        if code == 2 and "No checkpoint in" in text and not list(pathlib.Path(place.runs).rglob("*.previous.npz")):
            paths[0].unlink()  # as the message says
            return DAMAGED, ""
        outcome = CONTINUED if code == 0 and "Going on from checkpoint.previous.npz" in text else _finished(code)
        return outcome, f"exit code {code}: {text[-500:]}"

    def _truncate_result(self, kind: str, place: Place, moment: float) -> tuple[str | None, str]:
        code = self._finish(place)
        if code != 0:
            return None, f"exit code {code}"
        path = self.run_path(place) / "result.json"
        content = path.read_bytes()
        path.write_bytes(content[: self.rng.integers(0, len(content) - 2)])
        code = self.session(place).wait()
        return (RESTORED if code == 0 and path.read_bytes() == content else None), f"exit code {code}"

    def _second_process(self, kind: str, place: Place, moment: float) -> tuple[str | None, str]:
        first = self.session(place)
        code = first.wait(moment)
        second = self.session(place)
        codes = sorted([second.wait(), first.wait()] if code is None else [second.wait(), code])
        if codes == [0, 2] and _MESSAGES[kind] in first.text():  # one log: the text of both
            return REFUSED, ""
        return (FINISHED if codes == [0, 0] else None), f"exit codes {codes}: {first.text()[-500:]}"

    def _ended(self, kind: str, session: Session) -> tuple[str | None, str]:
        """Return the outcome of a session that its fault's message may stop."""
        code = session.wait()
        if code == 0:
            self._learn(session)
        stopped = code == 2 and _MESSAGES.get(kind, "no message") in session.text()
        return (STOPPED if stopped else _finished(code)), f"exit code {code}: {session.text()[-500:]}"

    def _remove_image(self, kind: str, place: Place, moment: float) -> tuple[str | None, str]:
        session = self.session(place)
        if session.wait(moment) is None:
            copies = sorted(pathlib.Path(place.cache).rglob("*.jpg"))
            copies[self.rng.integers(len(copies))].unlink()
        return self._ended(kind, session)


def _finished(code: int | None) -> str | None:
    return FINISHED if code == 0 else None


def damage(path: pathlib.Path, rng: np.random.Generator) -> None:
    """Truncate a file, or change one byte of an array in it."""
    content = bytearray(path.read_bytes())
    if rng.random() < 0.5:
        path.write_bytes(content[: rng.integers(0, len(content))])
        return
    with zipfile.ZipFile(path) as archive:
        largest = max(archive.infolist(), key=lambda entry: entry.file_size)
    content[largest.header_offset + 200 + rng.integers(largest.file_size - 128)] ^= 1 << int(rng.integers(8))
    path.write_bytes(content)


def signature(run: pathlib.Path) -> dict:
    """Return all output of a finished run except its seconds and joules.

    JSON values, and the bytes of arrays.
    """
    result = json.loads((run / "result.json").read_text())
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    found = {key: value for key, value in result.items() if key not in ("train_seconds", "energy_joules")}
    found["curve"] = [{key: value for key, value in line.items() if key != "seconds"} for line in lines]
    for name in ("weights.npz", "test_embeddings.npz"):
        with np.load(run / name, allow_pickle=False) as archive:
            found |= {f"{name} {key}": archive[key].tobytes() for key in archive.files}
    found["left over"] = sorted(path.name for path in run.glob("*.tmp"))
    return found


def summary(faults: list[Fault], unequal: list[int]) -> tuple[list[list], dict]:
    """Return the table's rows, a kind and outcome each, and the figures."""
    counts = collections.Counter((fault.kind, fault.outcome or "NOT DOCUMENTED") for fault in faults)
    wrong = collections.Counter((faults[i].kind, faults[i].outcome or "NOT DOCUMENTED") for i in set(unequal))
    rows = [
        [kind, outcome, count, count - wrong[kind, outcome]]
        for (kind, outcome), count in sorted(counts.items(), key=lambda item: (KINDS.index(item[0][0]), item[0][1]))
    ]
    bad = set(unequal) | {index for index, fault in enumerate(faults) if fault.outcome is None}
    return rows, {"faults": len(faults), "kinds": len({fault.kind for fault in faults}), "lost_or_wrong": len(bad)}


def main(argv) -> None:
    """Make the faults, print the table and the figures."""
    del argv
    values, started = flags.FLAGS, time.monotonic()
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(values.keep or temporary).absolute()
        harness = Harness(folder, values.methods, values.seed, values.kinds)
        print(f"an undisturbed training takes {harness.seconds:.1f} s", flush=True)
        harness.run(values.faults, values.minutes)
    rows, figures = summary(harness.faults, harness.unequal)
    print_table(["fault", "its session", "count", "training ended bit for bit equal"], rows)
    print_figures({**figures, "runs": harness.num_runs, "seconds": round(time.monotonic() - started)})
    if figures["lost_or_wrong"]:
        sys.exit(1)


if __name__ == "__main__":
    flags.DEFINE_integer("faults", 100, "How many.", lower_bound=1)
    flags.DEFINE_float("minutes", math.inf, "No more faults after so many minutes.", lower_bound=0)
    flags.DEFINE_integer("seed", 0, "Of kinds and moments.")
    flags.DEFINE_list("kinds", list(KINDS), "Kinds of faults, in turn before they are shuffled.")
    flags.DEFINE_list("methods", list(METHODS), "Methods to train, in turn.")
    flags.DEFINE_string("keep", None, "Folder to keep everything in; by default a temporary one.")
    os.environ.setdefault("TF_NUM_INTRAOP_THREADS", "1")
    app.run(main)
