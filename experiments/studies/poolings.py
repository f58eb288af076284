"""All poolings under the same training: `experiments.pooling_comparison` with units of the fair protocol.

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

from experiments.plans.study import Cell, FinishedCells, RecordedMethod, Study, StudyOptions, finished_units
from experiments.settings.build import MAP_POOLINGS
from experiments.studies.collages import start_notes
from experiments.studies.pooling_comparison import comparison_configuration, report

_METHODS = {  # budget: losses, poolings
    "full": (("c2", "pnca"), tuple(MAP_POOLINGS)),
    "demo": (("c2", "pnca"), tuple(MAP_POOLINGS)),
    "smoke": (("c2",), ("gap", "gsp")),
}


class Poolings(Study):
    """Study of every pooling under every loss.

    Args:
        options: of the study.
    """

    def __init__(self, options: StudyOptions):
        losses, poolings = _METHODS[options.budget]
        self.groups: list[list[Cell]] = []
        for loss in options.losses or losses:
            for pooling in poolings:
                chosen = options.with_pooling(pooling)
                method = (chosen.dataset, loss, chosen.pooling, chosen.recipe, chosen.budget)
                config = comparison_configuration(*method, chosen.overrides)
                self.groups.append(options.cells(config.name, config))
        self.num_cells = sum(map(len, self.groups))
        self.title = f"Poolings on {options.dataset} (thesis figure 5.12)"
        self.notes = tuple(start_notes(options.dataset, options.overrides.get("weights")))

    def cells(self, finished: FinishedCells) -> list[Cell]:
        """Return all cells, finished or not."""
        del finished
        return [cell for cells in self.groups for cell in cells]

    def recorded(self, finished: FinishedCells) -> list[RecordedMethod]:
        """Return runs by loss and pooling, compared with average pooling under that loss."""
        methods = []
        for place, cells in enumerate(self.groups):
            units, config = tuple(finished_units(cells, finished)), cells[0].config
            held_against = None if config.pooling == "gap" else f"{config.loss}+gap"
            if units:
                methods.append(RecordedMethod(units, config.name, {"place": place, "held against": held_against}))
        return methods

    def render(self, finished: FinishedCells, folder: pathlib.Path, name: str) -> str:
        """Write the table and the bars."""
        units = [finished_units(cells, finished) for cells in self.groups]
        return report([cells[0].config for cells in self.groups], units, folder, name, self.notes)
