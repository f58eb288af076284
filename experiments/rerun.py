"""A recorded or finished run again, old and new beside each other.

Regenerates: any row of `docs/results/rows`, from its recorded configuration.
Command: python -m experiments.rerun docs/results/rows/table_5_1#LABEL --fold=0
    (or the folder of a run)
Expected: the figures recorded and now, and what differs between the machines.
Cost: as the run took (column `train_seconds`); a second call only reports.
"""

from __future__ import annotations

import functools
import shlex

from absl import flags

from common.errors import invalid
from experiments.plans.launched_cells import unit_command
from experiments.plans.study import Cell
from experiments.protocols import run_pairs
from experiments.rows.run_folders import row_at
from experiments.runs.start_checks import checked_with_data
from experiments.runs.trained_model import stored_configuration
from experiments.runs.unit_runs import UnitRuns
from experiments.settings import build, flags as experiment_flags

_OF_ONE_RUN = ("--fold=", "--repeat=", "--repeats=", "--data_dir=")


def main(*places: str) -> None:
    """Train one run of a place again, unless it is finished, and compare it."""
    values = flags.FLAGS
    if len(places) != 1:
        raise invalid("places", received=" ".join(places) or "none", expected="one: of the run")
    wanted = {"fold": values.fold, "repeat": values.repeat}
    found = run_pairs.runs_of(places[0])
    chosen = [row for row in found if all(number in (None, row[name]) for name, number in wanted.items())]
    if not chosen:
        expected = ", ".join(f"fold {row['fold']} repeat {row['repeat']}" for row in found)
        raise invalid("--fold and --repeat", received=wanted, expected=f"one of: {expected}")
    old = chosen[0]
    config = stored_configuration(old["configuration"], old.source)
    if values.print_flags:
        words = shlex.split(unit_command(Cell("", config, *old.place)))[3:]
        print("\n".join(word for word in words if not word.startswith(_OF_ONE_RUN)))
        return
    load = functools.partial(build.load_dataset_of, config, values.data_dir, values.cache_dir)
    runs = UnitRuns(checked_with_data((), [config], load)[-1], experiment_flags.places_from(values))
    unit = (config, *old.place)
    runs.check([unit])
    if runs.fingerprint != old["data"]:
        fix = "Check --data_dir: the contents of all images, their labels and names have to be the same."
        raise invalid("data", received=runs.fingerprint, expected=f"{old['data']}, as recorded", fix=fix)
    runs.train(*unit, values.checkpoint_seconds)
    new = row_at(runs.unit_dir(*unit))
    names = ["recorded", "now"]
    print(run_pairs.settings_table(old, new, names).as_text())
    print(run_pairs.figures_table([old], [new], names).as_text())
    most = max(abs(value - new["test"][name]) for name, value in old["test"].items() if name in new["test"])
    print(f"Largest difference of a figure: {most:.2g}." if most else "All figures are equal in every digit.")


if __name__ == "__main__":
    experiment_flags.define_plugin_flag()
    for name in ("fold", "repeat"):
        flags.DEFINE_integer(name, None, f"The {name} of the run (default: the first that is recorded).", lower_bound=0)
    flags.DEFINE_boolean("print_flags", False, "Print the run's settings for --flagfile of other commands, and end.")
    experiment_flags.define(*experiment_flags.PLACE_FLAGS, *experiment_flags.UNIT_FLAGS)
    experiment_flags.run_command(main, takes_words=True)
