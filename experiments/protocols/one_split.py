"""Studies on one split: configurations and seeds in one table with intervals.

Units are those of the fair protocol's first fold (a data set with a validation set of its own, such as the collages,
trains on all its training classes there), so that a study and `fair_eval` share their run directories.
"""

from __future__ import annotations

import pathlib

from common.data import Dataset
from common.files import write_text
from experiments import reports
from experiments.protocols.fair import FairProtocol
from experiments.reports.collect import UnitRun
from experiments.settings.config import ExperimentConfig
from experiments.settings.places import Places


def trained_units(
    dataset: Dataset,
    configs: list[ExperimentConfig],
    places: Places,
    *,
    repeats: int,
    checkpoint_seconds: float = 30.0,
    report_only: bool = False,
) -> list[list[UnitRun]]:
    """Train the missing units; return each configuration's finished ones, one per repeat.

    Args:
        dataset: as loaded.
        configs: all on this data set.
        places: see `UnitRuns`.
        repeats: runs of each configuration, with different seeds.
        checkpoint_seconds: shortest time between two checkpoints.
        report_only: train nothing.
    """
    protocol = FairProtocol(dataset, configs, places, repeats=repeats)
    if not report_only:
        protocol.run(fold=0, checkpoint_seconds=checkpoint_seconds)
    units = []
    for config in configs:
        finished = reports.collect_method(protocol.runs.method_dir(config)).finished
        units.append([finished[0, repeat] for repeat in range(repeats) if (0, repeat) in finished])
    return units


def write_tables(rows: list[reports.TableRow], folder: pathlib.Path, name: str, title: str, notes=()) -> str:
    """Write `<name>.md` and `<name>.csv` with notes; return the terminal's text."""
    renderings = {f"{name}.md": reports.render_markdown(rows, title, notes), f"{name}.csv": reports.render_csv(rows)}
    for file_name, text in renderings.items():
        write_text(folder / file_name, text)
    return reports.render_text(rows, title, notes)
