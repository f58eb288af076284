"""A unit's own process: its environment, and its end on request.

It imports only the standard library, to save memory: on a cluster, it runs beside each unit.
"""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
from collections.abc import Mapping, Sequence

SECONDS_TO_END = 30.0  # of a process that was asked to stop
INTERPRETER = (sys.executable,)  # of units; read when one starts


def start_worker(
    arguments: Sequence[str],
    log: pathlib.Path,
    changes: Mapping[str, str],
    interpreter: Sequence[str],
    folder: str | os.PathLike | None = None,
) -> subprocess.Popen:
    """Start a unit in its own session; only its launcher signals it."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with open(log, "ab") as output:
        return subprocess.Popen(
            [*interpreter, *arguments],
            cwd=folder,
            env={**os.environ, **changes},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def end_workers(processes: Sequence[subprocess.Popen], seconds: float = SECONDS_TO_END) -> None:
    """Send SIGTERM to processes, wait for all together, and kill those still running."""
    for process in processes:
        process.terminate()
    try:
        for process in processes:
            process.wait(seconds)
    except subprocess.TimeoutExpired:
        pass
    finally:  # also after a second Ctrl-C
        for process in processes:
            if process.poll() is None:
                process.kill()
                process.wait()


def thread_variables(threads: int) -> dict[str, str]:
    """Return environment variables that set the threads of one operation of a unit's libraries."""
    return dict.fromkeys(("TF_NUM_INTRAOP_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), str(threads))
