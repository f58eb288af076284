"""Figures with commands of their own, listed and run by `experiments.figure`.

Regenerates: thesis figures 3.2 (`experiments.mnist_study`), 5.5 (`experiments.collage_study`) and 5.9
    (`experiments.studies.transport_time`).
Command: python -m experiments.figure --id=3.2 --data_dir=mnist --run; likewise --id=5.5 and --id=5.9
Expected: as stated by these commands; their tables have the printed figures and the verdicts.
Cost: as stated by these commands and the list of cells; `--budget=smoke` one to three minutes each on 2 CPU cores.
"""

from __future__ import annotations

import dataclasses
import hashlib
import pathlib
import shlex
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from absl import flags

from common.errors import InvalidInput, check_choice
from common.files import write_text
from experiments.launch.launch_flags import READ_BY
from experiments.runs.cost import duration
from experiments.settings import flags as experiment_flags
from experiments.settings.parts import all_settings
from experiments.settings.run_settings import BUDGETS
from experiments.settings.tracker_flags import TRACKER_FLAGS
from experiments.studies.collages import GLYPHS, STARTS, start_notes, starts_of

_PLACES = (*experiment_flags.PLACE_FLAGS, "record", "replace", "details", *experiment_flags.UNIT_FLAGS)
_CONFIGURATION = tuple(each.name for each in all_settings())
_CIFAR_TAKES = 11.5  # resnet20 on 64 x 64 pixels, as `cost` has it, over resnet10 on glyphs


class Conditions(NamedTuple):
    """What a user's flags change."""

    impossible: Sequence[str] = ()  # labels of cells that they rule out
    slower: float = 1.0  # factor on the time of a cell
    notes: Sequence[str] = ()


@dataclasses.dataclass(frozen=True)
class FigureOfCommand:
    """Figure that another module makes."""

    title: str
    module: str  # run with `python -m`; resumes if it trains anything
    cells: Mapping[str, str]  # labels, each with the flag that selects it alone (empty: no such flag)
    minutes: Mapping[str, float]  # of all cells on 2 CPU cores, by budget
    forwarded: Sequence[str]  # flags of `experiments.figure` that the module shares
    flags_of: Mapping[str, str]  # by budget; `{folder}` stands for the figure's folder
    # maps the user's flags to what they change
    under: Callable[[Mapping[str, Any]], Conditions] = lambda given: Conditions()

    def command(self, budget: str, given: Mapping[str, str], folder: pathlib.Path, cell: str = "") -> list[str]:
        """Return the module and flags that make the figure, or one of its cells."""
        alone = [self.cells[cell]] if cell and self.cells[cell] else []
        own = [word.format(folder=folder) for word in self.flags_of[budget].split()]
        return [self.module, *own, *given.values(), *alone]


def _of_collages(given: Mapping[str, Any]) -> Conditions:
    dataset, weights = given.get("dataset", GLYPHS), given.get("weights")
    possible = starts_of(dataset, weights)
    impossible = [f"start {start}" for start in STARTS if start not in possible]
    return Conditions(impossible, 1.0 if dataset == GLYPHS else _CIFAR_TAKES, start_notes(dataset, weights))


_BUDGETS = {budget: f"--budget={budget}" for budget in BUDGETS}
MNIST_FLAGS = (
    "learning_rate",
    "negative_margin",
    "samples_per_class",
    "steps_per_evaluation",
    "max_steps",
    "seed",
    "repeats",
)
EXTERNAL_FIGURES = {
    "3.2": FigureOfCommand(
        title="MNIST in the plane before and after each projection problem (thesis figure 3.2)",
        module="experiments.mnist_study",
        cells={"proxies": "--anchors=proxies", "samples": "--anchors=samples"},
        minutes={"full": 40, "demo": 24, "smoke": 1},
        forwarded=(
            *("data_dir", "runs_dir", "record", "replace", "details"),
            *experiment_flags.SESSION_FLAGS,
            *MNIST_FLAGS,
        ),
        flags_of=_BUDGETS,
    ),
    "5.5": FigureOfCommand(
        title="One image that matters among three that do not (thesis figure 5.5)",
        module="experiments.collage_study",
        cells={f"start {start}": f"--starts={start}" for start in STARTS},
        minutes={"full": 300, "demo": 25, "smoke": 2},
        forwarded=(*_PLACES, *_CONFIGURATION, "repeats"),
        flags_of=_BUDGETS,
        under=_of_collages,
    ),
    "5.9": FigureOfCommand(
        title="Time of the transport over the number of iterations (thesis figure 5.9)",
        module="experiments.studies.transport_time",
        cells={"closed form and autodiff at 8 numbers of iterations": ""},
        minutes={"full": 1, "demo": 1, "smoke": 1},
        forwarded=("repeats",),
        flags_of={
            budget: f"{repeats} --curve={{folder}}/picture.png"
            for budget, repeats in {"full": "", "demo": "--repeats=10", "smoke": "--repeats=2"}.items()
        },
    ),
}


def run_external_figure(values: flags.FlagValues) -> None:
    """List a figure's cells, or with `--run` run its command and keep its output."""
    study_id, figure = values.id, EXTERNAL_FIGURES[values.id]
    check_choice("--budget", values.budget, BUDGETS)
    given = _given_flags(values, figure)
    identity = repr([figure.module, values.budget, sorted(given.items())])
    folder = pathlib.Path(values.runs_dir) / "figures" / study_id / hashlib.sha256(identity.encode()).hexdigest()[:10]
    said = folder / f"figure_{study_id.replace('.', '_')}.txt"
    if values.run and not said.exists():
        folder.mkdir(parents=True, exist_ok=True)
        write_text(said, _output_of(figure.command(values.budget, given, folder)))
    left_out, slower, notes = figure.under({name: values[name].value for name in given})
    cells = [cell for cell in figure.cells if cell not in left_out]
    seconds = 60 * figure.minutes[values.budget] * slower / len(figure.cells)
    if said.exists():
        lines = [f"{len(cells)} cells: {len(cells)} done, 0 missing.", *notes, *(f"done     {cell}" for cell in cells)]
    else:
        cost = f"about {duration(len(cells) * seconds)} on 2 CPU cores. --run runs what is missing."
        lines = [f"{len(cells)} cells: 0 done, {len(cells)} missing, {cost}", *notes]
        for cell in cells:
            command = shlex.join(["python", "-m", *figure.command(values.budget, given, folder, cell)])
            lines += [f"missing  {cell} (about {duration(seconds)})", f"         {command}"]
    lines += [f"left out {cell}: it needs a trained network, --weights=FILE.npz" for cell in left_out]
    print("\n".join([figure.title, *lines]))
    if said.exists():
        print(said.read_text(encoding="utf-8").rstrip())
        print(f"Folder: {folder}")


def _given_flags(values: flags.FlagValues, figure: FigureOfCommand) -> dict[str, str]:
    """Return the user's flags for the figure's command, as written; refuse others."""
    names = (*_CONFIGURATION, *_PLACES, "repeats", "fold", "monitor", "max_cells", "launch", *READ_BY, *TRACKER_FLAGS)
    present = [name for name in names if name in values and values[name].present and name != "budget"]
    unused = [f"--{name}" for name in present if name not in figure.forwarded and name != "runs_dir"]
    if unused:
        raise InvalidInput(f"{', '.join(unused)} would have no effect: {figure.module} does not have it. Remove it.")
    return {name: values[name].serialize() for name in present if name in figure.forwarded}


def _output_of(command: Sequence[str]) -> str:
    finished = subprocess.run([sys.executable, "-m", *command], stdout=subprocess.PIPE, text=True)
    if finished.returncode:
        raise SystemExit(finished.returncode)
    return finished.stdout
