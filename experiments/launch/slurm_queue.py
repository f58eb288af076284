"""Slurm's queue: the states of this user's jobs, which need no accounting."""

from __future__ import annotations

import getpass
import subprocess

from common.errors import InvalidInput

UNDER_WAY = frozenset(
    (
        *("PENDING", "CONFIGURING", "RUNNING", "COMPLETING", "STAGE_OUT", "SIGNALING", "SUSPENDED", "STOPPED"),
        *("REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "SPECIAL_EXIT", "RESIZING", "RESV_DEL_HOLD"),
    )
)
GONE = "GONE"  # Slurm forgets jobs some minutes after their end
STARTED_AGAIN = frozenset(("PREEMPTED", "NODE_FAIL", "BOOT_FAIL", "TIMEOUT", "DEADLINE", "REVOKED", GONE))


def queued_jobs(name: str) -> dict[str, str]:
    """Return the states of this user's jobs with a name.

    Args:
        name: of the jobs.

    Returns:
        States such as `RUNNING` by job number (`12`, or `12_3` of an array), including jobs that ended minutes ago.

    Raises:
        InvalidInput: the queue cannot be read.
    """
    command = ["squeue", "--noheader", "--array", "--states=all", f"--user={getpass.getuser()}", f"--name={name}"]
    try:
        finished = subprocess.run(
            [*command, "--format=%i %T"],
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
            stdin=subprocess.DEVNULL,
        )
    except FileNotFoundError as error:
        raise InvalidInput("Slurm's program squeue is missing.") from error
    except subprocess.TimeoutExpired as error:
        raise InvalidInput("Slurm's queue cannot be read: squeue did not answer within a minute.") from error
    except subprocess.CalledProcessError as error:
        raise InvalidInput(f"Slurm's queue cannot be read: {error.stderr.strip()}") from error
    return {parts[0]: parts[1] for line in finished.stdout.splitlines() if len(parts := line.split()) == 2}
