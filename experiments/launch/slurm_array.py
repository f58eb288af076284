"""Units as one array of Slurm jobs: submitted, followed, restarted after a preemption."""

from __future__ import annotations

import contextlib
import dataclasses
import getpass
import hashlib
import os
import pathlib
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence

from common.errors import InvalidInput
from common.files import hold_lock, read_json, write_json
from common.progress import write_notice
from experiments.launch import worker_process
from experiments.launch.unit_job import UnitJob
from experiments.launch.unit_task import Failure, UnitTask, last_words

SECONDS_BETWEEN_LOOKS = 5.0
LOOKS_AT_A_LATE_RESULT = 3  # on a shared disk, results may appear seconds after the job's end
UNREAD_QUEUES = 60  # consecutive ones, after which the launch gives up
UNDER_WAY = frozenset(
    (
        *("PENDING", "CONFIGURING", "RUNNING", "COMPLETING", "STAGE_OUT", "SIGNALING", "SUSPENDED", "STOPPED"),
        *("REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "SPECIAL_EXIT", "RESIZING", "RESV_DEL_HOLD"),
    )
)
GONE = "GONE"  # Slurm forgets jobs some minutes after their end
STARTED_AGAIN = frozenset(("PREEMPTED", "NODE_FAIL", "BOOT_FAIL", "TIMEOUT", "DEADLINE", "REVOKED", GONE))


@dataclasses.dataclass(frozen=True)
class UnitNeeds:
    """The resources that one unit requests from the cluster, as `--help` describes the flags of their names."""

    cpus: int = 4
    memory_gb: float = 16.0
    gpus: int = 1
    minutes: int = 1440
    partition: str | None = None
    options: Mapping[str, str] = dataclasses.field(default_factory=dict)
    retries: int = 3


@dataclasses.dataclass
class _Followed:
    job: str | None = None  # None: another process works on the unit
    state: str = ""
    restarts: int = 0
    late_looks: int = 0


class SlurmArray:
    """Launcher of units as jobs of a Slurm cluster with shared folders.

    Args:
        folder: for logs, submitit's files and `slurm_jobs.json`, the job of each unit: the same command
            follows the active jobs listed there instead of submitting again.
    """

    def __init__(self, needs: UnitNeeds, folder: pathlib.Path):
        self.needs, self.folder = needs, folder.resolve()
        self.name = f"units-{hashlib.sha256(str(self.folder).encode()).hexdigest()[:8]}"
        self._followed: dict[UnitTask, _Followed] = {}
        self._failures: list[Failure] = []
        self._count = 0

    def run(self, tasks: Sequence[UnitTask]) -> list[Failure]:
        """Submit all units neither finished nor active, and follow all of them.

        Ctrl-C and SIGTERM only stop the following; the jobs stay in the queue.

        Raises:
            InvalidInput: Slurm refuses the jobs or does not answer.
        """
        missing = [task for task in tasks if not task.is_finished()]
        self._followed, self._failures, self._count = {}, [], len(missing)
        if not missing:
            return []
        self._begin(missing)
        try:
            self._follow()
        except BaseException:
            jobs = sorted({each.job.partition("_")[0] for each in self._followed.values() if each.job})
            if jobs:
                write_notice(
                    f"Jobs {', '.join(jobs)} stay in the queue. The same command follows them; scancel ends them."
                )
            raise
        return self._failures

    def _begin(self, missing: Sequence[UnitTask]) -> None:
        with self._record() as jobs:
            states = queued_jobs(self.name)
            for task in missing:
                job = jobs.get(task.log_name)
                if job is not None and states.get(job) in UNDER_WAY:
                    self._followed[task] = _Followed(job)
                    write_notice(f"{task.label}: job {job} is under way already")
                elif task.is_held():
                    self._followed[task] = _Followed()
                    write_notice(f"{task.label}: another process works on it; waiting for that one")
            self._submit([task for task in missing if task not in self._followed], jobs)

    @contextlib.contextmanager
    def _record(self) -> Iterator[dict[str, str]]:
        """Lock and yield the job of each unit's log; save it at the end."""
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / "slurm_jobs.json"
        with hold_lock(self.folder / "lock"):
            jobs = read_json(path) or {}
            try:
                yield jobs
            finally:
                write_json(path, jobs)

    def _submit(self, tasks: Sequence[UnitTask], jobs: dict[str, str]) -> None:
        if not tasks:
            return
        where = self.needs.cpus, tuple(worker_process.INTERPRETER), os.getcwd()
        functions = [UnitJob(task.arguments, self.folder / task.log_name, *where) for task in tasks]
        numbers = submit(functions, self.needs, self.folder / "submitit", self.name)
        for task, number in zip(tasks, numbers):
            jobs[task.log_name] = number
            self._followed.setdefault(task, _Followed()).job = number
        write_notice(f"submitted {len(tasks)} unit(s) as job {numbers[0].partition('_')[0]}; logs: {self.folder}")

    def _follow(self) -> None:
        unread = 0
        while self._followed:
            time.sleep(SECONDS_BETWEEN_LOOKS)
            try:
                states, unread = queued_jobs(self.name), 0
            except InvalidInput as error:
                unread += 1
                write_notice(f"warning: {error}")
                if unread == UNREAD_QUEUES:
                    raise
                continue
            again = [task for task, each in list(self._followed.items()) if self._is_to_start(task, each, states)]
            if again:
                with self._record() as jobs:
                    self._submit(again, jobs)

    def _is_to_start(self, task: UnitTask, each: _Followed, states: Mapping[str, str]) -> bool:
        """Report changes of one unit; return whether it needs a job."""
        if each.job is None:
            if task.is_finished():
                self._end(task, "done", "by another process")
                return False
            return not task.is_held()
        state = states.get(each.job, GONE)
        if state in UNDER_WAY:
            if each.state not in ("", "PENDING") and state == "PENDING":
                write_notice(f"requeued {task.label} (job {each.job})")
            elif state == "RUNNING" and each.state != state:
                write_notice(f"running  {task.label} (job {each.job})")
            each.state, each.late_looks = state, 0
            return False
        if task.is_finished() and state != "FAILED":
            self._end(task, "done", f"job {each.job}")
            return False
        each.late_looks += 1
        if each.late_looks < LOOKS_AT_A_LATE_RESULT or task.is_held():
            return False
        each.late_looks = 0
        if state in STARTED_AGAIN and each.restarts < self.needs.retries:
            each.restarts += 1
            retry = f"{each.restarts} of {self.needs.retries} retries"
            write_notice(f"again    {task.label}: job {each.job} ended as {state}; {retry}")
            return True
        log = self.folder / task.log_name
        detail = f": {last_words(log)}" if state in ("FAILED", "COMPLETED") else f" ended as {state}"
        self._failures.append(Failure(task, f"job {each.job}{detail}", log))
        self._end(task, "failed", self._failures[-1].reason)
        return False

    def _end(self, task: UnitTask, what: str, detail: str) -> None:
        del self._followed[task]
        write_notice(f"{what:<8} {task.label} ({detail}) [{self._count - len(self._followed)}/{self._count}]")


def submit(functions: Sequence[UnitJob], needs: UnitNeeds, folder: pathlib.Path, name: str) -> list[str]:
    """Submit one array of jobs."""
    import submitit  # an extra

    executor = submitit.SlurmExecutor(folder, max_num_timeout=needs.retries)
    executor.update_parameters(
        job_name=name,
        cpus_per_task=needs.cpus,
        mem=f"{round(needs.memory_gb * 1024)}MB",
        gpus_per_node=needs.gpus or None,
        time=needs.minutes,
        partition=needs.partition,
        additional_parameters={"requeue": True, **needs.options},
    )
    try:
        with executor.batch():
            jobs = [executor.submit(function) for function in functions]
    except submitit.core.utils.FailedJobError as error:
        raise InvalidInput(f"Slurm refuses the jobs: {str(error).strip()}") from error
    return [str(job.job_id) for job in jobs]


def queued_jobs(name: str) -> dict[str, str]:
    """Return the queue's states of this user's jobs with a name.

    The queue needs no accounting.

    Returns:
        States such as `RUNNING` by job number (`12`, or `12_3` of an array), including jobs that ended minutes ago.
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
    except (OSError, subprocess.SubprocessError) as error:
        reason = error.stderr.strip() if isinstance(error, subprocess.CalledProcessError) else error
        raise InvalidInput(f"Slurm's queue cannot be read: {reason}") from error
    return {parts[0]: parts[1] for line in finished.stdout.splitlines() if len(parts := line.split()) == 2}
