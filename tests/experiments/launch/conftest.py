"""Units of some milliseconds."""

import pathlib
import shlex

import pytest

from experiments.plans.launched_cells import RunTask

PROGRAM = pathlib.Path(__file__).with_name("small_unit.py")


@pytest.fixture
def small_task(tmp_path):
    """Makes a task by its name, and the arguments of `small_unit.py` after the folder."""

    def make(name: str, *arguments: object) -> RunTask:
        folder = tmp_path / "runs" / "method-0123" / name
        words = [str(PROGRAM), str(folder), *map(str, arguments)]
        return RunTask(name, shlex.join(["python", *words]), folder)

    return make


@pytest.fixture
def steps_of():
    """The steps that a log says its unit has begun at."""

    def read(log: pathlib.Path) -> list[int]:
        return [int(line.split()[3]) for line in log.read_text().splitlines() if line.startswith("begins at step")]

    return read
