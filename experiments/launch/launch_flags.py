"""Flags of a launch, and checks of their combinations before anything starts."""

from __future__ import annotations

import importlib.util
import pathlib
import shutil
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from absl import flags

from common.errors import InvalidInput, check_choice, check_positive, invalid
from experiments.launch.local_workers import LocalWorkers
from experiments.launch.slurm_array import SlurmArray, UnitNeeds

flags.disclaim_key_flags()  # they belong to the command that asks for them, whose --help lists them

LAUNCHES = ("local", "slurm")
FOLDER = "launch"  # below that of the results
READ_BY = {  # which launches read a flag
    "workers": ("local",),
    "cpus": LAUNCHES,
    "memory_gb": ("slurm",),
    "gpus": ("slurm",),
    "minutes": ("slurm",),
    "partition": ("slurm",),
    "slurm_options": ("slurm",),
    "retries": ("slurm",),
}


Launcher: TypeAlias = LocalWorkers | SlurmArray  # of many units at once


def define_launch_flags() -> None:
    """Define `--launch` and the resources of its workers or jobs."""
    needs = UnitNeeds()
    flags.DEFINE_string(
        "launch",
        None,
        "Many units at once, each in a process of its own: local (on this machine) or slurm (an array of jobs). "
        "Default: one after another in this process.",
    )
    flags.DEFINE_integer("workers", 2, "local: units at once.", lower_bound=1)
    flags.DEFINE_integer(
        "cpus",
        None,
        "Cores of each unit, and threads of one operation (default: local, the cores divided by --workers; slurm, "
        f"{needs.cpus}).",
        lower_bound=1,
    )
    flags.DEFINE_float("memory_gb", needs.memory_gb, "slurm: main memory of each unit, in GB; in (0, inf).")
    flags.DEFINE_integer("gpus", needs.gpus, "slurm: GPUs of each unit.", lower_bound=0)
    flags.DEFINE_integer(
        "minutes",
        needs.minutes,
        "slurm: time limit of each unit, in minutes; 90 seconds before it, the job goes back into the queue.",
        lower_bound=1,
    )
    flags.DEFINE_string("partition", None, "slurm: partition (default: the cluster's).")
    flags.DEFINE_list("slurm_options", [], "slurm: other options of sbatch, such as account=vision,qos=low.")
    flags.DEFINE_integer(
        "retries",
        needs.retries,
        "slurm: how often a unit starts again after its time limit or a lost node; requeued ones always do.",
        lower_bound=0,
    )


def launcher_from_flags(values: flags.FlagValues, results: str, has_units: bool, because: str) -> Launcher | None:
    """Return the launcher chosen by flags; None to work in this process.

    Args:
        results: folder of the units' results; logs go into `FOLDER` below it.
        has_units: whether the other flags leave units to start.
        because: the reason if they do not.

    Raises:
        InvalidInput: a flag without effect, or a launcher that this machine lacks.
    """
    given = [name for name in READ_BY if values[name].present]
    check_launch(values.launch, given, has_units, because)
    folder = pathlib.Path(results) / FOLDER
    if values.launch == "local":
        return LocalWorkers(values.workers, values.cpus, folder)
    if values.launch == "slurm":
        check_positive("--memory_gb", values.memory_gb)
        check_slurm()
        names = ("memory_gb", "gpus", "minutes", "partition", "retries")
        needs: dict[str, Any] = {name: values[name].value for name in names}
        options = slurm_options(values.slurm_options)
        return SlurmArray(UnitNeeds(cpus=values.cpus or UnitNeeds.cpus, options=options, **needs), folder)
    return None


def check_launch(launch: str | None, given: Sequence[str], has_units: bool, because: str) -> None:
    """Refuse combinations of flags that have no effect."""
    if launch is not None:
        check_choice("--launch", launch, LAUNCHES)
    for name in given:
        if launch not in READ_BY[name]:
            wanted = " or ".join(f"--launch={one}" for one in READ_BY[name])
            raise InvalidInput(f"--{name} would have no effect without {wanted}. Add that, or remove --{name}.")
    if launch is not None and not has_units:
        raise InvalidInput(f"--launch={launch} would have no effect: {because}.")


def check_slurm() -> None:
    """Raise `InvalidInput` if submitit or Slurm's programs are missing."""
    if importlib.util.find_spec("submitit") is None:
        raise InvalidInput(
            "--launch=slurm needs submitit, which is missing. Install it: pip install submitit, or the extra slurm of "
            "this package; or --launch=local."
        )
    missing = [name for name in ("sbatch", "squeue", "srun") if shutil.which(name) is None]
    if missing:
        raise InvalidInput(
            f"--launch=slurm needs Slurm's {', '.join(missing)}, which this machine does not have. Run the command "
            "where jobs are submitted (a login node), or give --launch=local."
        )


def slurm_options(entries: Sequence[str]) -> Mapping[str, str]:
    """Return options of sbatch by name from entries `NAME=VALUE`."""
    options = dict(entry.split("=", 1) for entry in entries if entry.find("=") > 0)
    if len(options) != len(entries):
        raise invalid("--slurm_options", received=",".join(entries), expected="NAME=VALUE,NAME=VALUE, each name once")
    return options
