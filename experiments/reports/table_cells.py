"""Cells and rows of a table of results, with tests of differences."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from experiments.published.values import PublishedValue
from experiments.reports.comparisons import Comparison, Pair, compare
from experiments.reports.intervals import Interval
from experiments.reports.statistics import FairEstimate
from experiments.reports.verdicts import Target, Verdict, judge

Column = tuple[str, str]  # (embedding size, metric), e.g. ("128-D", "MAP@R")


@dataclass(frozen=True)
class TableCell:
    """A measured figure, in fractions, and the target of its comparison."""

    estimate: FairEstimate
    # the printed figure and the rule of the comparison; `None` where none is due (the untrained row)
    target: Target | None = None
    # of two methods: shown with its sign, tested, shown with the smallest detectable difference
    is_difference: bool = False
    baseline: str = ""  # of a difference: the row that was subtracted; empty: the one that the column is named after
    comparison: Comparison | None = None  # test results of a difference, see `compared`

    @property
    def published(self) -> PublishedValue | None:
        """The printed figure, if there is one."""
        return self.target.published if self.target else None

    @property
    def bounds(self) -> Interval | None:
        """The displayed interval; for a compared difference, with the pooled training part."""
        return self.comparison.bounds if self.comparison else self.estimate.interval

    @property
    def verdict(self) -> Verdict | None:
        """The verdict, from the displayed interval."""
        return judge(self.estimate.mean, self.bounds, self.target) if self.target else None

    @property
    def ends(self) -> tuple[float, float] | None:
        """The displayed ends of the interval, in fractions, or `None`; see `Interval.ends`."""
        return self.bounds.ends(of_difference=self.is_difference) if self.bounds else None

    @property
    def is_significant(self) -> bool:
        """True if starred: significant among the table's differences, with runs taking part."""
        return self.comparison is not None and self.comparison.is_significant


@dataclass(frozen=True)
class TableRow:
    """One method's figures by column; a dash stands for a missing cell."""

    method: str
    cells: Mapping[Column, TableCell]


def compared(rows: Sequence[TableRow]) -> list[TableRow]:
    """Attach the tests of their differences to rows of a table not yet compared."""
    cells = [(row.method, column, cell) for row in rows for column, cell in row.cells.items() if cell.is_difference]
    if any(cell.comparison for _, _, cell in cells):
        return list(rows)
    found = compare({_key(*each): interval for each in cells if (interval := each[-1].estimate.interval)})

    def tested(method: str, column: Column, cell: TableCell) -> TableCell:
        known = found.get(_key(method, column, cell)) if cell.is_difference else None
        return dataclasses.replace(cell, comparison=known)

    return [
        TableRow(of.method, {place: tested(of.method, place, of.cells[place]) for place in of.cells}) for of in rows
    ]


def _key(method: str, column: Column, cell: TableCell) -> tuple[str, Pair]:
    return " ".join(column), (method, cell.baseline or column[0])
