"""All poolings under the same training, with units of the fair protocol.

Regenerates: thesis figure 5.12 (bars of MAP@R of 17 poolings under C2 and PNCA: (a) Cifar Collage, (b) CUB, mean of
    four models).
Command: python -m experiments.figure --id=5.12 --dataset=glyph_collage --budget=demo --run
Expected: thesis section 5.3.5: GSP ahead of all others on Cifar Collage, GeMean next on CUB; the bars are not printed.
    Cifar Collage starts from a CIFAR-100 classifier there: --dataset=cifar_collage --weights=resnet20.npz.
Cost: `--budget=demo` on glyph_collage 38 runs, 25 minutes on 2 CPU cores; `--budget=full` on CUB 152 runs of
    19 minutes on an RTX 2080 Ti (estimated); `--budget=smoke` 2 runs, half a minute.
"""

from __future__ import annotations

import pathlib
from collections.abc import Sequence

from experiments import reports
from experiments.parts.datasets import traits_of
from experiments.plans.study import Cell, FinishedCells, Study, StudyOptions, finished_units
from experiments.reports.scores import figures_row, labels_of, scores_of_trainings
from experiments.reports.tables import write_table
from experiments.rows.store import RecordedMethod, StudyRows
from experiments.settings.build import MAP_POOLINGS
from experiments.settings.config import ExperimentConfig
from experiments.settings.recipes.small_images import COLLAGE_GSP
from experiments.studies.collages import start_notes

_METHODS = {  # budget: losses, poolings
    "full": (("c2", "pnca"), tuple(MAP_POOLINGS)),
    "demo": (("c2", "pnca"), tuple(MAP_POOLINGS)),
    "smoke": (("c2",), ("gap", "gsp")),
}


class Poolings(Study):
    """Study of every pooling under every loss."""

    def __init__(self, options: StudyOptions):
        losses, poolings = _METHODS[options.budget]
        self.groups: dict[str, list[Cell]] = {}
        for loss in options.losses or losses:
            for pooling in poolings:
                config = comparison_configuration(options.with_pooling(pooling), loss)
                self.groups[config.name] = options.cells(config.name, config)
        self.title = f"Poolings on {options.dataset} (thesis figure 5.12)"
        self.notes = tuple(start_notes(options.dataset, options.overrides.get("weights")))

    def naming(self, place: int, group: str) -> tuple[str, dict[str, object]]:
        """Return loss and pooling, held against average pooling under that loss."""
        config = self.groups[group][0].config
        held_against = None if config.pooling == "gap" else f"{config.loss}+gap"
        return group, {"place": place, "held against": held_against}

    def render(self, finished: FinishedCells, folder: pathlib.Path, name: str) -> str:
        """Write the table and the bars."""
        units = [finished_units(cells, finished) for cells in self.groups.values()]
        return report([cells[0].config for cells in self.groups.values()], units, folder, name, self.notes)


DEMO_STEPS = 480  # so that 38 runs take less than 25 minutes; an evaluation at half of it
DEMO_DELAY = 100  # steps before prototypes are chosen among local features


def comparison_configuration(options: StudyOptions, loss: str) -> ExperimentConfig:
    """Return a method's configuration; fields set by hand hold for poolings with them."""
    settings: dict[str, object] = {"chapter": 5}
    if traits_of(options.dataset).kind == "collages":
        settings |= {**COLLAGE_GSP, "gsp_memory_delay": DEMO_DELAY}
    if options.budget == "demo":
        settings |= {"max_steps": DEMO_STEPS, "steps_per_evaluation": DEMO_STEPS // 2}
    return options.configuration(loss, settings=settings)


def report(
    configs: list, runs: list, folder: pathlib.Path, name: str = "pooling_comparison", notes: Sequence[str] = ()
) -> str:
    """Write table and picture of finished units; return terminal text."""
    finished = {config.name: units for config, units in zip(configs, runs, strict=True) if units}
    study = StudyRows.of_methods(RecordedMethod(units, name) for name, units in finished.items())
    scores = {name: scores_of_trainings(study, name) for name in finished}
    missing = [config.name for config in configs if config.name not in finished]
    lines = [f"Not trained yet: {', '.join(missing)}."] if missing else []
    most = max(map(len, runs))
    fewer = [f"{name} ({len(units)} of {most})" for name, units in finished.items() if len(units) < most]
    lines += [f"Not all runs are finished: {', '.join(fewer)}."] if fewer else []
    if not scores:
        return "\n".join(lines)
    chosen = [config for config in configs if config.name in scores]
    rows = [
        figures_row(scores, of.name, {} if of.pooling == "gap" else {"minus gap": f"{of.loss}+gap"}) for of in chosen
    ]
    title = f"Poolings on {configs[0].dataset}, {configs[0].max_steps} steps at most, runs of each: {most}"
    text = write_table(rows, folder, name, title, notes)
    draw_recorded_poolings(study, folder / f"{name}.png", title)
    return "\n".join([text, *lines, f"Figure: {folder / f'{name}.png'}"])


def draw_recorded_poolings(study: StudyRows, path: pathlib.Path, title: str) -> None:
    """Draw bars of MAP@R by loss from rows."""
    estimates: dict[str, dict[str, reports.Interval]] = {}
    for label in labels_of(study):
        scores = scores_of_trainings(study, label)
        config = scores.rows[0]["configuration"]
        estimates.setdefault(config["loss"], {})[config["pooling"]] = scores.estimate("MAP@R")
    first = next(iter(estimates.values()))
    order = sorted(first, key=lambda pooling: first[pooling].estimate, reverse=True)
    groups = {loss: {name: found[name] for name in order if name in found} for loss, found in estimates.items()}
    reports.interval_bars(groups, path, title=title)
