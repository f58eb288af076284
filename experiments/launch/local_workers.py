"""Units in worker processes on this machine, several at once."""

from __future__ import annotations

import collections
import dataclasses
import os
import pathlib
import re
import subprocess
import time
from collections.abc import Mapping, Sequence

from common.progress import write_notice
from experiments.launch import worker_process
from experiments.launch.unit_task import Failure, UnitTask, last_words

SECONDS_BETWEEN_LOOKS = 0.2
SECONDS_BETWEEN_LOCKS = 2.0  # looks at units of another process


@dataclasses.dataclass
class _Running:
    task: UnitTask
    process: subprocess.Popen
    slot: int
    began: float


class LocalWorkers:
    """Launcher of units in `workers` processes at once.

    Args:
        threads: of one operation of each process; None: as in the environment, or else the processor's cores divided
            by `workers`.
    """

    def __init__(self, workers: int, threads: int | None, logs: pathlib.Path):
        self.workers, self.logs = workers, logs
        self.threads = threads_of_each(workers, threads, os.environ)
        self.gpus: list[str] = []
        self._waiting: collections.deque[UnitTask] = collections.deque()
        self._held: dict[UnitTask, float] = {}
        self._running: list[_Running] = []
        self._failures: list[Failure] = []
        self._count = self._ended = self._peak_bytes = 0

    def run(self, tasks: Sequence[UnitTask]) -> list[Failure]:
        """Start every unit without a result; wait for units of other processes.

        No worker survives this call: Ctrl-C and SIGTERM are passed on to all of them first.
        """
        self._waiting.extend(task for task in tasks if not task.is_finished())
        self._failures, self._count, self._ended = [], len(self._waiting), 0
        if not self._waiting:
            return []
        self.gpus = visible_gpus(os.environ)
        write_notice(f"{self._count} units, {self.workers} at once, {self._resources()}; logs: {self.logs}")
        try:
            while self._waiting or self._held or self._running:
                self._start_some()
                time.sleep(SECONDS_BETWEEN_LOOKS)
                self._collect()
                self._look_at_held()
        finally:
            worker_process.end_workers([each.process for each in self._running])
        if self._peak_bytes:
            one, all_of_them = self._peak_bytes / 1e9, self.workers * self._peak_bytes / 1e9
            write_notice(
                f"Memory: the largest process took {one:.1f} GB; {self.workers} at once, up to {all_of_them:.1f} GB."
            )
        return self._failures

    def _resources(self) -> str:
        threads = "threads as the environment says" if self.threads is None else f"{self.threads} thread(s) each"
        return threads + (f", GPUs {','.join(self.gpus)} in turn" if self.gpus else "")

    def _start_some(self) -> None:
        while self._waiting and len(self._running) < self.workers:
            task = self._waiting.popleft()
            if task.is_finished():
                self._tell("done", task, "by another process")
                continue
            if task.is_held():
                write_notice(f"{task.label}: another process works on it; waiting for that one")
                self._held[task] = time.monotonic()
                continue
            slot = min(set(range(self.workers)) - {each.slot for each in self._running})
            threads = {} if self.threads is None else worker_process.thread_variables(self.threads)
            changes = threads | gpu_variables(slot, self.workers, self.gpus)
            log = self.logs / task.log_name
            process = worker_process.start_worker(task.arguments, log, changes, worker_process.INTERPRETER)
            self._running.append(_Running(task, process, slot, time.monotonic()))
            write_notice(f"started  {task.label}")

    def _collect(self) -> None:
        self._peak_bytes = max([self._peak_bytes, *(peak_memory(each.process.pid) for each in self._running)])
        for each in [each for each in self._running if each.process.poll() is not None]:
            self._running.remove(each)
            log, code = self.logs / each.task.log_name, each.process.returncode
            if not each.task.is_finished() and each.task.is_held():
                self._held[each.task] = time.monotonic()  # another process was faster
            elif each.task.is_finished() and code == 0:
                self._tell("done", each.task, f"{time.monotonic() - each.began:.0f} s")
            else:
                self._failures.append(Failure(each.task, _reason(code, log), log))
                self._tell("failed", each.task, self._failures[-1].reason)

    def _look_at_held(self) -> None:
        for task, looked in list(self._held.items()):
            if time.monotonic() - looked < SECONDS_BETWEEN_LOCKS:
                continue
            self._held[task] = time.monotonic()
            if not task.is_held():
                del self._held[task]
                self._waiting.append(task)

    def _tell(self, what: str, task: UnitTask, detail: str) -> None:
        self._ended += 1
        write_notice(f"{what:<8} {task.label} ({detail}) [{self._ended}/{self._count}]")


def threads_of_each(workers: int, threads: int | None, environment: Mapping[str, str]) -> int | None:
    """Return the threads of each worker; None if the environment sets them."""
    if threads is not None:
        return threads
    if environment.get("TF_NUM_INTRAOP_THREADS"):
        return None
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, cores // workers)


def visible_gpus(environment: Mapping[str, str]) -> list[str]:
    """Return this process's GPUs by their names in `CUDA_VISIBLE_DEVICES`."""
    import tensorflow as tf

    count = len(tf.config.list_physical_devices("GPU"))
    names = [name for name in environment.get("CUDA_VISIBLE_DEVICES", "").split(",") if name]
    return names[:count] if names else [str(index) for index in range(count)]


def gpu_variables(slot: int, workers: int, gpus: Sequence[str]) -> dict[str, str]:
    """Return variables for one GPU; workers that share one take memory as needed."""
    if not gpus:
        return {}
    shared = {"TF_FORCE_GPU_ALLOW_GROWTH": "true"} if workers > len(gpus) else {}
    return {"CUDA_VISIBLE_DEVICES": gpus[slot % len(gpus)], **shared}


def peak_memory(number: int) -> int:
    """Return a process's peak memory in bytes, 0 if unknown."""
    try:
        status = pathlib.Path(f"/proc/{number}/status").read_text(encoding="ascii", errors="replace")
    except OSError:
        return 0
    found = re.search(r"^VmHWM:\s+(\d+) kB$", status, re.MULTILINE)
    return 1024 * int(found[1]) if found else 0


def _reason(code: int, log: pathlib.Path) -> str:
    if code == 0:
        return "its process left no result"
    if code < 0:
        return f"killed by signal {-code}" + (", perhaps for too little memory" if code == -9 else "")
    return f"exit code {code}: {last_words(log)}"
