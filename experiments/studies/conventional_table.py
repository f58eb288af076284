"""Tables of the conventional protocol: best of three on test, beside unbiased figures.

Regenerates: thesis tables 3.2a, 3.2b (CCP; BN-Inception and ResNet-50 with 512-D) and 5.2a, 5.2b (GSP on top of XBM;
    BN-Inception with 512-D, ResNet-50 with 128-D and 512-D). The best of three stop on the test set.
Command: python -m experiments.table --id=3.2a --dataset=glyphs --budget=demo --run; likewise --id=3.2b, --id=5.2a and
    --id=5.2b
Expected: the printed cells, beside ours in the table itself. Rows that the thesis quotes from other papers are below
    it; those of losses available here are trained on request (`--loss=panchor`).
Cost: `--budget=demo` on glyphs 18 runs for table 3.2a and 12 for 5.2a, about a minute each on 2 CPU cores;
    `--budget=full` on SOP 18 runs of 15 hours (table 3.2a), 18 of 27 hours (3.2b), 12 of 13 hours (5.2a) and 24 of
    24 hours (5.2b) on an RTX 2080 Ti (estimated); half of them stop on held-out classes, unlike the thesis
    (`--monitor=test_set` leaves them out); `--budget=smoke` some minutes.
"""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Mapping, Sequence

from common.errors import check_choice, check_given, invalid
from experiments import reports
from experiments.plans.study import Cell, FinishedCells, Study, StudyOptions, finished_units
from experiments.protocols.conventional import MONITORS
from experiments.protocols.conventional_report import ConventionalReport, write_report
from experiments.runs.unit import unit_label
from experiments.settings.build import parse_method
from experiments.settings.config import ExperimentConfig
from experiments.settings.thesis_values import PHOTOGRAPHS

_BACKBONES = {"a": "bn_inception", "b": "resnet50"}


@dataclasses.dataclass(frozen=True)
class ConventionalRow:
    """Row of the thesis' own runs, or one that it quotes.

    Attributes:
        method: as `build.parse_method` reads it.
        embedding_dim: of the row.
        is_quoted: whether the thesis quotes it from another paper; such rows are trained on request.
    """

    method: str
    embedding_dim: int = 512
    is_quoted: bool = False


def _ccp_rows(options: StudyOptions, *quoted: ConventionalRow) -> list[ConventionalRow]:
    """Return CCP's and quoted rows; the published code adds maximum pooling."""
    pooling = "gap+gmp" if options.recipe == "published_code" else "gap"
    return [*(ConventionalRow(f"{loss}+ccp+{pooling}") for loss in ("c1", "c2", "ms")), *quoted]


def ccp_bn_inception(options: StudyOptions) -> ConventionalTable:
    """Return the study of table 3.2a."""
    quoted = [ConventionalRow(method, is_quoted=True) for method in ("c1+xbm+gap", "panchor+gap", "softtriple+gap")]
    return ConventionalTable("3.2a", _ccp_rows(options, *quoted), options)


def ccp_resnet50(options: StudyOptions) -> ConventionalTable:
    """Return the study of table 3.2b."""
    quoted = [ConventionalRow(method, is_quoted=True) for method in ("panchor+gap", "pnca+gap")]
    return ConventionalTable(
        "3.2b", _ccp_rows(options, ConventionalRow("c1+xbm+gap", 128, is_quoted=True), *quoted), options
    )


def gsp_bn_inception(options: StudyOptions) -> ConventionalTable:
    """Return the study of table 5.2a."""
    rows = [ConventionalRow("c1+xbm+gap+gmp"), ConventionalRow("c1+xbm+gmp+gsp")]
    return ConventionalTable("5.2a", [*rows, ConventionalRow("panchor+gap+gmp", is_quoted=True)], options)


def gsp_resnet50(options: StudyOptions) -> ConventionalTable:
    """Return the study of table 5.2b."""
    own = [ConventionalRow(f"c1+xbm+{pooling}", dim) for dim in (128, 512) for pooling in ("gap+gmp", "gmp+gsp")]
    quoted = [ConventionalRow(f"{loss}+gap+gmp", is_quoted=True) for loss in ("panchor", "pnca")]
    return ConventionalTable("5.2b", [*own, *quoted], options)


class ConventionalTable(Study):
    """Rows of the conventional protocol, each with its unbiased counterpart.

    Args:
        table: the thesis' number.
        rows: in the thesis' order; `--loss` selects those of some losses, including quoted ones.
        options: of the study; the best is of `repeats` runs. Without the monitor `held_out` the table has only the
            thesis' own runs.

    Raises:
        InvalidInput: a pooling, chapter or size given by hand, a loss that no row has, or monitors without `test_set`.
    """

    def __init__(self, table: str, rows: Sequence[ConventionalRow], options: StudyOptions):
        self.repeats, chapter = options.repeats, int(table[0])
        self._monitored = [MONITORS[check_choice("--monitor", name, MONITORS)] for name in options.monitors or MONITORS]
        if MONITORS["test_set"] not in self._monitored:
            raise invalid("--monitor", received=",".join(options.monitors), expected="test_set, or both")
        self._pairs: list[tuple[ExperimentConfig, ExperimentConfig]] = []
        for row in _rows_of(rows, options.losses):
            loss, method, pooling = parse_method(row.method)
            settings = {"backbone": _BACKBONES[table[-1]]} if options.dataset in PHOTOGRAPHS else {}
            chosen = options.with_pooling(pooling)
            varied = {"chapter": chapter, "embedding_dim": row.embedding_dim}
            biased, unbiased = (
                chosen.configuration(loss, method, settings=settings, protocol=protocol, **varied)
                for protocol in MONITORS.values()
            )
            self._pairs.append((biased, unbiased))
        self.groups = {
            config: self._cells_of(config) for pair in self._pairs for config in pair if self._is_trained(config)
        }
        self.num_cells = sum(map(len, self.groups.values()))
        self.title = f"Conventional evaluation on {options.dataset}, best of {self.repeats} (thesis table {table})"
        self.notes = (*_quoted_cells(table, options.dataset), *_budget_notes(options))

    def render(self, finished: FinishedCells, folder: pathlib.Path, name: str) -> str:
        """Write the table of complete rows and the curves; summarize the rest."""
        methods = [
            ConventionalReport(
                pair[0],
                pair[1],
                check_given("runs", self._runs(pair[0], finished)),
                self._runs(pair[1], finished),
                self.repeats,
            )
            for pair in self._pairs
            if any(finished_units(self.groups.get(config, ()), finished) for config in pair)
        ]
        return write_report(methods, folder, self.title, name=name, notes=self.notes)

    def _cells_of(self, config: ExperimentConfig) -> list[Cell]:
        label = f"{config.name} {config.embedding_dim}-D"
        return [Cell(f"{label}, {unit_label(config, 0, repeat)}", config, 0, repeat) for repeat in range(self.repeats)]

    def _is_trained(self, config: ExperimentConfig) -> bool:
        return config.protocol in self._monitored

    def _runs(self, config: ExperimentConfig, finished: FinishedCells) -> reports.MethodRuns | None:
        if not self._is_trained(config):
            return None
        units = finished_units(self.groups[config], finished)
        path = units[0].path.parent if units else pathlib.Path()
        return reports.MethodRuns(path, str(config.protocol), config.dataset, config.name, "", tuple(units))


def _rows_of(rows: Sequence[ConventionalRow], losses: Sequence[str]) -> list[ConventionalRow]:
    """Select the thesis' own rows, or all rows of some losses."""
    known = [parse_method(row.method)[0] for row in rows]
    for loss in losses:
        check_choice("--loss", loss, list(dict.fromkeys(known)))
    return [row for row, loss in zip(rows, known) if (loss in losses if losses else not row.is_quoted)]


def _quoted_cells(table: str, dataset: str) -> tuple[str, ...]:
    """List a data set's printed R@1, for rows that are not trained here."""
    cells: Mapping[str, str] = {
        f"{row['method']} ({row['dim']}-D)": row["value"]
        for row in reports.published_table(table)
        if row["dataset"] == reports.published_dataset(dataset) and row["metric"] == "R@1" and row["value"]
    }
    return (f"All printed R@1: {', '.join(f'{name} {value}' for name, value in cells.items())}.",) if cells else ()


def _budget_notes(options: StudyOptions) -> tuple[str, ...]:
    if options.budget == "full":
        return ()
    return (f"Budget {options.budget}: short runs. It shows a direction, not the thesis' figures.",)
