"""A Slurm of one node on this machine's loopback, for as long as a `with` block: munged, slurmctld and slurmd.

python -m tests.support.slurm_cluster COMMAND ARGUMENT...   # runs a command with such a cluster, and ends it again
"""

from __future__ import annotations

import contextlib
import getpass
import os
import pathlib
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "squeue", "scontrol", "srun")
INSTALL = "apt-get install slurm-wlm munge"
SECONDS_TO_START = 30
SYSTEM_FOLDERS = "/usr/sbin:/sbin"  # where Debian has the daemons, which are not on every user's path
CONFIGURATION = """\
ClusterName=tests
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller_port}
SlurmdPort={node_port}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
SchedulerType=sched/backfill
SchedulerParameters=sched_min_interval=100000,batch_sched_delay=0
MpiDefault=none
SwitchType=switch/none
ReturnToService=2
JobRequeue=1
KillWait=5
MinJobAge=300
NodeName={host} NodeAddr=127.0.0.1 CPUs={cpus} RealMemory={memory} State=UNKNOWN
PartitionName=short Nodes={host} Default=YES MaxTime=INFINITE State=UP
"""


def why_not() -> str | None:
    """Why there can be no such cluster here, and what to install; None where there can."""
    missing = [name for name in PROGRAMS if shutil.which(name, path=search_path()) is None]
    if missing:
        return f"{', '.join(missing)} not installed (Debian: {INSTALL})"
    if os.geteuid() != 0:
        return "slurmd starts jobs as other users, which only root may do"
    return None


def search_path() -> str:
    """Of programs, with the folders of daemons."""
    return f"{os.environ.get('PATH', os.defpath)}:{SYSTEM_FOLDERS}"


@contextlib.contextmanager
def slurm_cluster(cpus: int = 2, memory_mb: int = 4000) -> Iterator[dict[str, str]]:
    """Starts the daemons, gives the environment in which Slurm's commands find them, and ends them and their jobs.

    Args:
        cpus, memory_mb: of the node; Slurm counts them, nothing here enforces them.

    Raises:
        RuntimeError: a daemon has not come up, with the end of its log.
    """
    folder = pathlib.Path(tempfile.mkdtemp(prefix="slurm"))
    environment = {**os.environ, "PATH": search_path(), "SLURM_CONF": str(folder / "slurm.conf")}
    daemons: list[subprocess.Popen] = []
    try:
        _write_files(folder, cpus, memory_mb)
        for arguments in _daemons(folder):
            daemons.append(subprocess.Popen(arguments, env=environment, stdin=subprocess.DEVNULL))
            if arguments[0] == "munged":
                _wait(lambda: (folder / "munge.socket").exists(), folder, "munged")
        _wait(lambda: _node_state(environment) == "idle", folder, "slurmctld")
        yield environment
    finally:
        if len(daemons) == 3:
            subprocess.run(["scancel", "--full", "--state=RUNNING"], env=environment, timeout=30, check=False)
            with contextlib.suppress(TimeoutError):
                _poll(lambda: not _lines(environment, "squeue", "--noheader", "--states=RUNNING,COMPLETING"), 20)
        for daemon in reversed(daemons):
            daemon.terminate()
        for daemon in reversed(daemons):
            try:
                daemon.wait(20)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()
        shutil.rmtree(folder, ignore_errors=True)


def _write_files(folder: pathlib.Path, cpus: int, memory_mb: int) -> None:
    folder.chmod(0o755)  # munged refuses a socket that not everybody can reach
    for name in ("state", "spool", "munge"):
        (folder / name).mkdir(mode=0o755)
    key = folder / "munge" / "key"
    key.write_bytes(secrets.token_bytes(128))
    key.chmod(0o400)
    (folder / "munge").chmod(0o700)
    text = CONFIGURATION.format(
        host=socket.gethostname().partition(".")[0],
        user=getpass.getuser(),
        folder=folder,
        cpus=cpus,
        memory=memory_mb,
        controller_port=_free_port(),
        node_port=_free_port(),
    )
    (folder / "slurm.conf").write_text(text)


def _daemons(folder: pathlib.Path) -> list[list[str]]:
    munge = ["munged", "--foreground", "--force", "--num-threads=2", f"--socket={folder}/munge.socket"]
    munge += [f"--{name}-file={folder}/munge/{name}" for name in ("key", "pid", "log", "seed")]
    return [munge, ["slurmctld", "-D", "-c"], ["slurmd", "-D", "-c"]]


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def _lines(environment: dict[str, str], *command: str) -> list[str]:
    finished = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=30, check=False)
    return finished.stdout.split()


def _node_state(environment: dict[str, str]) -> str:
    return "".join(_lines(environment, "sinfo", "--noheader", "--format=%t")).strip("*")


def _wait(is_true, folder: pathlib.Path, daemon: str) -> None:
    try:
        _poll(is_true, SECONDS_TO_START)
    except TimeoutError:
        logs = [path.read_text(errors="replace")[-2000:] for path in folder.rglob("*log") if path.is_file()]
        raise RuntimeError(f"{daemon} did not come up:\n" + "\n".join(logs)) from None


def _poll(is_true, seconds: float) -> None:
    end = time.monotonic() + seconds
    while not is_true():
        if time.monotonic() > end:
            raise TimeoutError
        time.sleep(0.1)


if __name__ == "__main__":
    if reason := why_not():
        sys.exit(reason)
    with slurm_cluster() as found:
        sys.exit(subprocess.run(sys.argv[1:], env=found, check=False).returncode)
