"""Tables of the conventional protocol: best of three on test, beside unbiased figures.

Regenerates: thesis tables 3.2a, 3.2b (CCP; BN-Inception and ResNet-50 with 512-D) and 5.2a, 5.2b (GSP on top of XBM;
    BN-Inception with 512-D, ResNet-50 with 128-D and 512-D). The best of three stop on the test set.
Expected: the printed cells, beside ours in the table itself. Rows that the thesis quotes from other papers are below
    it; those of losses available here are trained on request (`--loss=panchor`).
"""

from __future__ import annotations

import pathlib
from collections.abc import Mapping

from common.errors import check_choice, check_given, invalid
from experiments import reports
from experiments.parts.datasets import traits_of
from experiments.plans.study import Cell, FinishedCells, Study, StudyOptions, finished_rows
from experiments.protocols.conventional import MONITORS
from experiments.protocols.conventional_report import ConventionalReport
from experiments.protocols.report import write_report
from experiments.settings.config import ExperimentConfig
from experiments.settings.method_names import parse_method
from experiments.settings.splits import unit_label

_S2SD = "margin+distance+s2sd"
_BACKBONES = {"a": "bn_inception", "b": "resnet50"}
# Methods and sizes in the thesis' order: its own runs, and rows that it quotes from other papers, which are trained on
# request.
_OWN = {
    **dict.fromkeys(("3.2a", "3.2b"), [(f"{loss}+ccp+gap", 512) for loss in ("c1", "c2", "ms")]),
    "5.2a": [("c1+xbm+gap+gmp", 512), ("c1+xbm+gmp+gsp", 512)],
    "5.2b": [(f"c1+xbm+{pooling}", dim) for dim in (128, 512) for pooling in ("gap+gmp", "gmp+gsp")],
}
_QUOTED = {
    "3.2a": [("c1+xbm+gap", 512), ("panchor+gap", 512), ("softtriple+gap", 512), (f"{_S2SD}+gap", 512)],
    "3.2b": [("c1+xbm+gap", 128), ("panchor+gap", 512), ("pnca+gap", 512), (f"{_S2SD}+gap", 512)],
    "5.2a": [("panchor+gap+gmp", 512), (f"{_S2SD}+gap+gmp", 512)],
    "5.2b": [("panchor+gap+gmp", 512), ("pnca+gap+gmp", 512), (f"{_S2SD}+gap+gmp", 512)],
}


class ConventionalTable(Study):
    """Rows of the conventional protocol, each with its unbiased counterpart.

    The best is of `repeats` runs. `--loss` selects rows of some losses, including quoted ones. Without the monitor
    `held_out` the table has only the thesis' own runs.
    """

    def __init__(self, table: str, options: StudyOptions):
        self.repeats, chapter = options.repeats, int(table[0])
        monitored = [MONITORS[check_choice("--monitor", name, MONITORS)] for name in options.monitors or MONITORS]
        if MONITORS["test_set"] not in monitored:
            raise invalid("--monitor", received=",".join(options.monitors), expected="test_set, or both")
        self._pairs: list[tuple[ExperimentConfig, ExperimentConfig]] = []
        for name, dim in _rows_of(table, options):
            settings = {"backbone": _BACKBONES[table[-1]]} if traits_of(options.dataset).photographs else {}
            varied = {"chapter": chapter, "embedding_dim": dim}
            biased, unbiased = (
                options.of_method(name, settings=settings, protocol=protocol, **varied)
                for protocol in MONITORS.values()
            )
            self._pairs.append((biased, unbiased))
        self.groups = {
            config: [
                Cell(f"{config.name} {config.embedding_dim}-D, {unit_label(config, 0, repeat)}", config, 0, repeat)
                for repeat in range(self.repeats)
            ]
            for pair in self._pairs
            for config in pair
            if config.protocol in monitored
        }
        self.title = f"Conventional evaluation on {options.dataset}, best of {self.repeats} (thesis table {table})"
        self.notes = (*_quoted_cells(table, options.dataset), *options.budget_notes("short runs"))

    def render(self, finished: FinishedCells, folder: pathlib.Path, name: str) -> str:
        """Write the table of complete rows and the curves; summarize the rest."""
        methods = []
        for pair in self._pairs:
            biased, unbiased = (
                finished_rows(self.groups[config], finished) if config in self.groups else None for config in pair
            )
            if biased or unbiased:
                methods.append(ConventionalReport(*pair, check_given("runs", biased), unbiased, self.repeats))
        return write_report(methods, folder, self.title, name=name, notes=self.notes)


def _rows_of(table: str, options: StudyOptions) -> list[tuple[str, int]]:
    """Select the thesis' own rows, or all of some losses.

    The published code adds maximum pooling to the rows of CCP.
    """
    adds_maximum = options.recipe == "published_code" and table in ("3.2a", "3.2b")
    own = [(f"{name}+gmp", dim) if adds_maximum else (name, dim) for name, dim in _OWN[table]]
    known = {row: parse_method(row[0])[0] for row in [*own, *_QUOTED[table]]}
    for loss in options.losses:
        check_choice("--loss", loss, list(dict.fromkeys(known.values())))
    return [row for row, loss in known.items() if loss in options.losses] if options.losses else own


def _quoted_cells(table: str, dataset: str) -> tuple[str, ...]:
    """List a data set's printed R@1, for rows that are not trained here."""
    cells: Mapping[str, str] = {
        f"{row['method']} ({row['dim']}-D)": row["value"]
        for row in reports.published_table(table)
        if row["dataset"] == reports.published_dataset(dataset) and row["metric"] == "R@1" and row["value"]
    }
    return (f"All printed R@1: {', '.join(f'{name} {value}' for name, value in cells.items())}.",) if cells else ()
