"""A unit's own process: its environment, and its end when it is asked to stop.

Nothing but the standard library is imported here: on a cluster, this runs beside each unit and takes memory there.
"""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
from collections.abc import Mapping, Sequence

THREAD_VARIABLES = ("TF_NUM_INTRAOP_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")
SECONDS_TO_END = 30.0  # of a process that was asked to stop
INTERPRETER = (sys.executable,)  # of units; read when one starts


def start_worker(
    arguments: Sequence[str],
    log: pathlib.Path,
    changes: Mapping[str, str],
    interpreter: Sequence[str],
    folder: str | os.PathLike | None = None,
) -> subprocess.Popen:
    """Starts a unit in a session of its own, so that signals reach it through its launcher alone.

    Args:
        arguments: of the interpreter: `-m`, the module, its flags.
        log: what the process writes is added to it.
        changes: of the environment.
        interpreter: the program that runs them.
        folder: where the process runs; None: here.
    """
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
    """Asks processes to stop by SIGTERM, waits for them, and kills those that have not ended by then.

    Args:
        processes: which; some may have ended already.
        seconds: that all of them have together.
    """
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


def thread_variables(threads: int | None, given: Mapping[str, str]) -> dict[str, str]:
    """The environment that gives every library of a unit so many threads.

    Args:
        threads: of one operation; None: what is in the environment already.
        given: the environment; without `threads`, a variable that is set there keeps its value.
    """
    return (
        {} if threads is None else {name: str(threads) for name in THREAD_VARIABLES if given.get(name) != str(threads)}
    )
