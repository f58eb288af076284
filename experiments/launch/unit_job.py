"""The Slurm job of one unit: its process, its signals and its requeueing.

It imports only the standard library and submitit, to save memory: it runs beside each unit.
"""

from __future__ import annotations

import dataclasses
import pathlib
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

from experiments.launch import worker_process

if TYPE_CHECKING:
    from submitit.helpers import DelayedSubmission


@dataclasses.dataclass
class UnitJob:
    """A unit as a function that submitit calls on a node.

    SIGTERM (a preemption, `scontrol requeue`) ends the unit's process cleanly. Before the time limit, submitit calls
    `checkpoint` and requeues the job. In both cases a run resumes from its last checkpoint.
    """

    arguments: tuple[str, ...]
    log: pathlib.Path
    threads: int
    interpreter: tuple[str, ...]
    folder: str
    _process: subprocess.Popen | None = dataclasses.field(default=None, init=False)

    def __call__(self) -> int:
        """Run the unit's command."""
        signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
        variables = worker_process.thread_variables(self.threads)
        self._process = worker_process.start_worker(self.arguments, self.log, variables, self.interpreter, self.folder)
        try:
            code = self._process.wait()
        finally:
            self._end()
        if code:
            raise RuntimeError(f"the unit ended with exit code {code}; see {self.log}")
        return code

    def checkpoint(self) -> DelayedSubmission:
        """End the unit's process and return the same job, to be requeued."""
        from submitit.helpers import DelayedSubmission  # an extra

        self._end()
        return DelayedSubmission(dataclasses.replace(self))

    def _end(self) -> None:
        if self._process is not None and self._process.poll() is None:
            worker_process.end_workers([self._process])
