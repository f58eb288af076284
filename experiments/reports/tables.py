"""Tables of measured and printed figures: terminal, Markdown, LaTeX and CSV.

Files have all details. A method has one line of figures as in the thesis: percent with two decimals, mean +- std over
collections. Below it are lines for the interval, the printed figure, the interval of measured minus printed, the
verdict with its margin, the p values of a difference, and the smallest detectable difference. Empty lines are omitted.
The terminal gets figures, differences with intervals and stars (without differences, figures with intervals), then each
published figure with its verdict.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from experiments.published.values import PublishedValue
from experiments.reports.comparisons import Comparison, Pair, compare
from experiments.reports.intervals import BOTH, CLASSES, FAMILIES, FEWEST_CLASSES, SAME_SPLITS, TRAININGS, Interval
from experiments.reports.plain_tables import Table
from experiments.reports.verdicts import Target, Verdict, judge

Column = tuple[str, str]  # (embedding size, metric), e.g. ("128-D", "MAP@R")
_CSV_HEADER = (
    *("method", "size", "metric", "mean", "std", "low", "high", "class_error", "training_error"),
    *("published", "published_std", "published_table", "published_note"),
    *("difference", "difference_low", "difference_high", "margin", "verdict", "interval_of", "p", "p_holm"),
    "detectable",
)
MARKS = {BOTH: "", SAME_SPLITS: "§", CLASSES: "†", TRAININGS: "‡"}  # of intervals, by kind
SPREAD_NOTE = (
    "± is the spread over collections of one model per fold, as the thesis prints it (conventional: over repeats). The "
    "collections (81 of three repeats in four folds) share their few models and are not independent: of R repeats, ± "
    "shows sqrt((R - 1)/R) of the spread of a fresh collection, must not be divided by the root of "
    "their number, and does not include the choice of test classes."
)
KIND_NOTES = {
    BOTH: "Intervals without a mark are for new test classes and new runs.",
    SAME_SPLITS: "§ Interval for new test classes and new runs on the same splits; other splits may differ by more.",
    CLASSES: "† Interval for new test classes only: nothing was trained twice, so the spread of training is unknown.",
    TRAININGS: "‡ Interval for new runs on this test set only.",
}
FAMILIES_NOTE = (
    "Test classes count by family (such as a letter and its accented forms), since classes of one family succeed and "
    "fail together."
)
FEW_CLASSES_NOTE = (
    f"Few classes: with fewer than {FEWEST_CLASSES} test classes (or families) the intervals may be too short, by an "
    "unknown amount."
)
SIGNIFICANT_NOTE = (
    "Starred: differences that are significant at 5 % after Holm's correction for all {count} of this table; p values "
    "are given before and after the correction. Differences with an unknown spread of training (†) are not tested."
)
UNTESTED_NOTE = "No difference is tested: the spread of training is unknown (†)."
VERDICT_NOTE = (
    "minus published: measured minus printed with its 90 % interval for new runs on this test set and the thesis' "
    "own error. Verdict: reproduced when that lies within the margin (half of the printed effect, .5 points without "
    "one), above or below when it excludes zero, else inconclusive."
)
SHORT_VERDICT_NOTE = "Verdicts compare the 90 % interval of ours minus published with a margin; the report has both."
CUT_NOTE = "Intervals are cut off at 0 and 100 (of differences: at -100 and 100), beyond which no figure can lie."
DETECTABLE_NOTE = (
    "detectable: the smallest true difference that would be starred in 80 % of studies of this design. The design is "
    "these test classes, folds and repeats. The figure has the digits that its degrees of freedom allow. Smaller "
    "differences may go undetected."
)


@dataclass(frozen=True)
class TableCell:
    """A measured figure, in fractions, and the target of its comparison."""

    mean: float
    std: float | None = None  # the thesis' spread over collections (see `statistics`); `None` without collections
    bounds: Interval | None = None  # the displayed interval; `None` without per-query scores
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
    def verdict(self) -> Verdict | None:
        """The verdict, from the displayed interval."""
        return judge(self.mean, self.bounds, self.target) if self.target else None

    @property
    def ends(self) -> tuple[float, float] | None:
        """The displayed ends of the interval, in fractions, or `None`; see `Interval.ends`."""
        return self.bounds.ends(of_difference=self.is_difference) if self.bounds else None

    @property
    def is_significant(self) -> bool:
        """True if starred: significant among the table's differences, with runs taking part."""
        return self.comparison is not None and self.comparison.is_significant

    @property
    def figure(self) -> str:
        """Percent, with the spread over collections; starred if significant, a dash if missing."""
        if math.isnan(self.mean):
            return "-"
        figure = f"{100 * self.mean:{'+' if self.is_difference else ''}.2f}{'*' if self.is_significant else ''}"
        return figure + (f" ± {100 * self.std:.2f}" if self.std is not None else "")

    @property
    def interval(self) -> str:
        """The displayed interval in percent, with the mark of its kind; empty without one."""
        return bracketed(*self.ends, self.bounds.kind) if self.bounds and self.ends else ""

    @property
    def printed(self) -> str:
        """The printed figure in words; empty without one."""
        published = self.published
        if published is None:
            return ""
        if published.value is None:
            return published.status
        spread = f" ± {published.std:.2f}" if published.std is not None else ""
        text = f"{published.value:{'+' if self.is_difference else ''}.2f}{spread}"
        return text if published.is_target else f"{text} ({published.status})"

    @property
    def gap(self) -> str:
        """Measured minus printed, with the verdict's interval; empty without a verdict."""
        said = self.verdict
        if said is None or said.gap is None:
            return ""
        return f"{said.gap:+.2f}" + ("" if said.low is None else f" [{said.low:.2f}, {said.high:.2f}]")

    @property
    def margin(self) -> str:
        """The margin that the verdict rests on; empty without one."""
        said = self.verdict
        return f"{said.margin:.2f}" if said and said.margin is not None else ""

    @property
    def p_values(self) -> str:
        """P values of a tested difference, single and after Holm; empty if untested."""
        found = self.comparison
        if found is None or found.p is None or not found.detectable:
            return ""
        return f"{_p(found.p)}, {'-' if found.p_holm is None else _p(found.p_holm)}"

    @property
    def detectable(self) -> str:
        """The smallest difference that the design could have detected; empty if untested."""
        return self.comparison.detectable_text if self.comparison else ""


NO_CELL = TableCell(math.nan)


def cell(
    figure: Interval | float, target: Target | None = None, *, is_difference: bool = False, baseline: str = ""
) -> TableCell:
    """Make a table's cell of an interval or a fraction."""
    bounds = figure if isinstance(figure, Interval) else None
    mean = figure.estimate if isinstance(figure, Interval) else float(figure)
    return TableCell(mean, None, bounds, target, is_difference, baseline)


@dataclass(frozen=True)
class TableRow:
    """One method's figures by column; a dash stands for a missing cell."""

    method: str
    cells: Mapping[Column, TableCell]

    def __getitem__(self, column: Column) -> TableCell:
        return self.cells.get(column, NO_CELL)


def compared(rows: Sequence[TableRow]) -> list[TableRow]:
    """Attach the tests of their differences to rows of a table not yet compared."""
    cells = [(row.method, column, cell) for row in rows for column, cell in row.cells.items() if cell.is_difference]
    if any(cell.comparison for _, _, cell in cells):
        return list(rows)
    found = compare({_key(*each): interval for each in cells if (interval := each[-1].bounds)})

    def tested(method: str, column: Column, cell: TableCell) -> TableCell:
        known = found.get(_key(method, column, cell)) if cell.is_difference else None
        return dataclasses.replace(cell, comparison=known)

    return [
        TableRow(of.method, {place: tested(of.method, place, of.cells[place]) for place in of.cells}) for of in rows
    ]


def _key(method: str, column: Column, cell: TableCell) -> tuple[str, Pair]:
    return " ".join(column), (method, cell.baseline or column[0])


def figures_table(
    rows: Sequence[TableRow], title: str = "", notes: Sequence[str] = (), *, explanations: Sequence[str] = ()
) -> Table:
    """Tabulate figures with all details, and footnotes below.

    A terminal gets a short table, without the `explanations`. CSV has a cell per line, in unrounded percent.
    """
    rows = compared(rows)
    columns = list(dict.fromkeys(column for row in rows for column in row.cells))
    reasons: list[str] = []  # of verdicts, numbered in order of appearance
    groups = [_group(row, columns, reasons) for row in rows]
    lines = [line for group in groups for line in group]
    heads = set(itertools.accumulate([0, *map(len, groups)]))
    hanging = [index for index in range(len(lines)) if index not in heads]
    values = [
        [row.method, size, metric, *_csv_figures(cell)] for row in rows for (size, metric), cell in row.cells.items()
    ]
    return Table(
        title,
        _header(columns),
        lines,
        [*footnotes(rows, reasons), *explanations, *notes],
        hanging,
        short=_short_tables(rows, title, notes),
        values=[_CSV_HEADER, *values],
    )


def _short_tables(rows: Sequence[TableRow], title: str, notes: Sequence[str]) -> list[Table]:
    """Tabulate figures, then published values with verdicts, if any."""
    columns = _by_kind(row.cells for row in rows)
    cells = [cell for row in rows for cell in row.cells.values()]
    bracketed = [cell for cell in cells if cell.is_difference] or cells  # those shown with an interval
    lines = [[row.method, *(_short(row[column], bracketed) for column in columns)] for row in rows]
    beside, hanging = _beside_published(rows, columns)
    header = [name.replace("concatenated", "concat.") for name in _header(columns)]
    notes = [*_short_notes(bracketed), *notes]
    if not beside:
        return [Table(title, header, lines, notes)]
    names, notes = ["figure", "ours", "published", "verdict"], [SHORT_VERDICT_NOTE, *notes]
    return [Table(title, header, lines), Table("", names, beside, notes, hanging)]


def _csv_figures(cell: TableCell) -> list[object]:
    published, bounds, said = cell.published, cell.bounds, cell.verdict
    ours = [cell.mean, cell.std]
    ours += [*cell.ends, bounds.class_error, bounds.training_error] if bounds and cell.ends else [None] * 4
    theirs = [published.value, published.std, published.table, published.note] if published else [None] * 4
    verdict = [said.gap, said.low, said.high, said.margin, str(said)] if said else [None] * 5
    found, kind = cell.comparison, bounds.kind if bounds else None
    tests = [found.p, found.p_holm, 100 * found.detectable or None] if found else [None] * 3
    return [*(None if figure is None else 100 * figure for figure in ours), *theirs, *verdict, kind, *tests]


def _header(columns: Sequence[Column]) -> list[str]:
    return ["method", *(" ".join(column) for column in columns)]


def _by_kind(cells: Iterable[Mapping[Column, TableCell]]) -> list[Column]:
    """List the columns in order, those of one kind ("single", "concatenated") side by side."""
    columns = list(dict.fromkeys(column for of_row in cells for column in of_row))
    kinds = [size.split(" ")[0] for size, _ in columns]
    return [column for _, column in sorted(zip(kinds, columns), key=lambda pair: kinds.index(pair[0]))]


def _short(cell: TableCell, bracketed: Sequence[TableCell]) -> str:
    """Format a figure without its spread.

    Its interval follows if it is among those bracketed.
    """
    figure = cell.figure.split(" ")[0]
    return f"{figure} {cell.interval}".rstrip() if cell in bracketed else figure


def _beside_published(rows: Sequence[TableRow], columns: Sequence[Column]) -> tuple[list[list[str]], list[int]]:
    """List each method's figures with published values and verdicts.

    Also returns which lines hang below another.
    """
    lines: list[list[str]] = []
    hanging: list[int] = []
    for row in rows:
        printed = {" ".join(column): row[column] for column in columns if row[column].published}
        lines += [[row.method, "", "", ""]] if printed else []
        hanging += range(len(lines), len(lines) + len(printed))
        for name, cell in printed.items():
            word = cell.verdict.word if cell.verdict else ""
            lines.append([f"  {name}", cell.figure.split(" ")[0], cell.printed, word])
    return lines, hanging


def _short_notes(cells: Sequence[TableCell]) -> list[str]:
    """Explain the brackets of these cells, and count the significant differences."""
    notes = kind_notes({cell.bounds.kind for cell in cells if cell.bounds})
    tested = [cell.comparison for cell in cells if cell.comparison and cell.comparison.p is not None]
    if not tested:
        return notes
    starred = sum(of.is_significant for of in tested)
    counts = f"{starred} of {len(tested)} tested differences"
    meaning = "Any other may be chance." if starred else "Any may be chance."
    return [*notes, f"* Significant at 5 % after Holm's correction: {counts}. {meaning}"]


def footnotes(rows: Sequence[TableRow], reasons: Sequence[str] = ()) -> list[str]:
    """Explain the verdicts, intervals and differences of these rows."""
    cells = [cell for row in compared(rows) for cell in row.cells.values()]
    notes = [f"[{number}] {reason}" for number, reason in enumerate(reasons, start=1)]
    notes += [SPREAD_NOTE] if any(cell.std is not None for cell in cells) else []
    bounds = [cell.bounds for cell in cells if cell.bounds]
    notes += kind_notes({bound.kind for bound in bounds})
    if any(bound.has_few_classes for bound in bounds):
        notes.append(FEW_CLASSES_NOTE)
    if any(cell.ends != (cell.bounds.low, cell.bounds.high) for cell in cells if cell.bounds):
        notes.append(CUT_NOTE)
    notes += _notes_of_tests([cell.comparison for cell in cells if cell.comparison])
    if any(cell.verdict and cell.verdict.gap is not None for cell in cells):
        notes.append(VERDICT_NOTE)
    return notes


def kind_notes(kinds: Collection[str]) -> list[str]:
    """Explain each kind of interval, with its mark in `MARKS`."""
    plain = {kind.removeprefix(FAMILIES) for kind in kinds}
    notes = [note for kind, note in KIND_NOTES.items() if kind in plain]
    return notes + ([FAMILIES_NOTE] if any(kind.startswith(FAMILIES) for kind in kinds) else [])


def _notes_of_tests(found: Sequence[Comparison]) -> list[str]:
    """Explain how the table's differences were tested."""
    if not found:
        return []
    count = sum(of.p is not None for of in found)
    notes = [SIGNIFICANT_NOTE.format(count=count) if count else UNTESTED_NOTE]
    return notes + ([DETECTABLE_NOTE] if any(of.detectable_text for of in found) else [])


def _group(row: TableRow, columns: Sequence[Column], reasons: list[str]) -> list[list[str]]:
    """List a method's lines: figures, interval, published, difference and verdict, if any."""
    cells = [row[column] for column in columns]
    bounds = [cell.bounds for cell in row.cells.values() if cell.bounds]
    group = [[row.method, *(cell.figure for cell in cells)]]
    if bounds:
        group.append([f"  {100 * bounds[0].confidence:g} % interval", *(cell.interval or "-" for cell in cells)])
    lines = {
        "published": [cell.printed for cell in cells],
        "minus published": [cell.gap for cell in cells],
        "verdict": [numbered(said.word, said.reason, reasons) if (said := cell.verdict) else "" for cell in cells],
        "margin": [cell.margin for cell in cells],
        "p, Holm's p": [cell.p_values for cell in cells],
        "detectable": [cell.detectable for cell in cells],
    }
    return group + [
        [f"  {label}", *(entry or "-" for entry in entries)] for label, entries in lines.items() if any(entries)
    ]


def bracketed(low: float, high: float, kind: str = "") -> str:
    """Format an interval's ends, fractions, in percent with the mark of its kind."""
    return f"[{100 * low:.2f}, {100 * high:.2f}]{MARKS.get(kind.removeprefix(FAMILIES), '')}"


def _p(value: float) -> str:
    return "<.001" if value < 0.001 else f"{value:.3f}".lstrip("0")


def numbered(verdict: str, reason: str, reasons: list[str]) -> str:
    """Append the number of its reason, if any, to a verdict; extend `reasons`."""
    if not reason:
        return verdict
    if reason not in reasons:
        reasons.append(reason)
    return f"{verdict} [{reasons.index(reason) + 1}]"
