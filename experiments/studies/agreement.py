"""Agreement of a benchmark's ranking of methods with the printed tables.

Regenerates: nothing printed: recorded studies (`results/`) beside thesis tables 3.1 and 5.1 and table 2.2 of
    the "Revisiting" benchmark. Rank correlations with intervals, the ceiling (the printed data sets among each other),
    and the signs of paired effects (memory, CCP, GSP, regularisation).
Command: python -m experiments.table --id=agreement --study=results/table_5_1
Expected: a stand-in ranks as the printed data sets rank among each other: Spearman .28 to .71 over the 15 rows of table
    5.1 (128-D MAP@R). The rule of the verdict is in `experiments/studies/study_agreement.py`, and below the table.
Cost: no training; seconds on 2 CPU cores.
"""

from __future__ import annotations

import pathlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

from absl import flags

from common.errors import InvalidInput, check_given
from experiments import reports
from experiments.plans.study_command import refuse_training
from experiments.reports.plots import picture
from experiments.reports.tables import FEW_CLASSES_NOTE, kind_notes
from experiments.rows.store import ROWS, StudyRows
from experiments.settings import flags as experiment_flags
from experiments.studies.study_agreement import (
    ALL,
    NO_CEILING,
    NO_STAND_IN,
    OPEN,
    STAND_IN,
    Bounds,
    Effect,
    RankAgreement,
    TableAgreement,
    study_agreement,
)
from experiments.studies.tables import AGREEMENT

if TYPE_CHECKING:
    from matplotlib.artist import Artist

_TITLE = "Rank correlation of benchmarks with printed tables"
_SIGNS_TITLE = "Paired effects of benchmarks and of printed tables"
_RESULTS = "results"
_COEFFICIENT_NOTE = (
    "Spearman's coefficient and Kendall's tau-b between the mean test figure of the single models here and the printed "
    "figure (128-D), over the methods that both have. In brackets: 95 % percentile bootstrap over methods and "
    "runs. Of R repeats of a fold R - 1 are drawn; of runs that were not repeated, folds are drawn. Test classes are "
    "not resampled. A loss and all its variants (memory, CCP, GSP, mining, regularisation) are drawn together; the "
    "number of losses is in parentheses."
)
_CEILING_NOTE = (
    "Ceiling: the same coefficient between this printed data set and the other printed ones, over the same methods: "
    "mean, and lowest to highest. Row all: the mean over data sets, over the methods that all of them have."
)
_RULE_NOTE = (
    "Rule: a stand-in has Spearman's coefficient above half of the mean ceiling, no stand-in has it below, both at 5 % "
    "after Holm's correction over the rows of one printed table (Holm's p); anything else is inconclusive."
)
_SIGNS_NOTE = (
    "Points of test MAP@R (beside Revisiting 2.2: of P@1), the method minus the same without the change; differences "
    "are paired class by class and run by run, and starred if they are significant after Holm's correction over those "
    "of one printed table. Agrees, contradicts: the difference is starred, and all printed differences have its sign "
    "or none has; mixed: some have; open: it is not starred."
)


def run_agreement(values: flags.FlagValues) -> None:
    """Compare the `--study` studies, or all comparable ones, with printed tables."""
    refuse_training(values, AGREEMENT)
    agreements = _given_agreements(values.study) if values["study"].present else _found_agreements()
    folder = pathlib.Path(values.runs_dir) / "tables" / AGREEMENT
    print(ranking_table(agreements, _TITLE).write(folder, "table_agreement"))
    if any(of.effects for of in agreements):
        print(sign_table(agreements, _SIGNS_TITLE).write(folder, "table_agreement_signs"))
    draw_agreements(agreements, folder / "table_agreement.png", _TITLE)
    print(f"Folder: {folder}")


def _given_agreements(folders: Sequence[str]) -> list[TableAgreement]:
    """Compare the given studies with the printed tables."""
    if not folders:
        raise InvalidInput("Invalid --study: received an empty list, expected folders such as results/table_5_1.")
    experiment_flags.check_distinct("--study", [str(pathlib.Path(folder)) for folder in folders])
    return [agreement for folder in folders for agreement in study_agreement(StudyRows(folder))]


def _found_agreements() -> list[TableAgreement]:
    """Compare all comparable studies below `results`."""
    found, reasons = [], []
    for path in sorted(pathlib.Path(_RESULTS).glob(f"*/{ROWS}")):
        try:
            found += study_agreement(StudyRows(path.parent))
        except InvalidInput as error:
            reasons.append(str(error))
    if not found:
        seen = "\n".join(reasons) or f"There is no {_RESULTS}/<study>/{ROWS}: give --study=FOLDER."
        raise InvalidInput(f"No recorded study can be compared with a printed table.\n{seen}")
    return found


def ranking_table(agreements: Sequence[TableAgreement], title: str = "") -> reports.PlainTable:
    """Tabulate rank correlations and ceilings, with the verdicts in a line below."""
    lines = []
    for of in agreements:
        for dataset, ranks in of.ranks.items():
            spearman = [_interval(ranks.spearman), _ceiling(ranks.spearman_ceiling)]
            kendall = [_interval(ranks.kendall), _ceiling(ranks.kendall_ceiling)]
            name = f"{of.study}: {of.table}, {dataset}"
            methods = f"{ranks.num_methods} ({ranks.num_losses})"
            p = "-" if ranks.p is None else f"{ranks.p:.3f}"
            lines.append([name, methods, *spearman, *kendall, p, ranks.verdict])
    header = ["benchmark: published table", "methods", "Spearman", "Spearman's ceiling", "Kendall", "Kendall's ceiling"]
    header += ["Holm's p", "verdict"]
    notes = [*(verdict_line(of) for of in agreements), _RULE_NOTE, _COEFFICIENT_NOTE, _CEILING_NOTE]
    return reports.PlainTable(title, header, lines, [*notes, *_left_out(agreements)])


def verdict_line(of: TableAgreement) -> str:
    """State for which printed data sets a study is a stand-in."""
    datasets = {
        verdict: [name for name, ranks in of.ranks.items() if ranks.verdict == verdict and name != ALL]
        for verdict in (STAND_IN, NO_STAND_IN, OPEN, NO_CEILING)
    }
    clauses = [f"{STAND_IN} for {', '.join(datasets.pop(STAND_IN)) or 'none'}"]
    clauses += [f"{verdict} for {', '.join(names)}" for verdict, names in datasets.items() if names]
    clauses += [f"together: {of.ranks[ALL].verdict}"] if ALL in of.ranks else []
    return f"Verdict on {of.study} beside {of.table} ({len(of.labels)} methods): {'; '.join(clauses)}."


def sign_table(agreements: Sequence[TableAgreement], title: str = "") -> reports.PlainTable:
    """Tabulate paired effects here and as published."""
    datasets = list(dict.fromkeys(name for of in agreements for effect in of.effects for name in effect.printed))
    lines, notes = [], []
    for of in agreements:
        for effect in of.effects:
            text = reports.cell_text(effect.cell)
            printed = [f"{effect.printed[name]:+.2f}" if name in effect.printed else "-" for name in datasets]
            name = f"{of.study}: {of.table}, {effect.label} - {effect.baseline}"
            same = sum(effect.agrees_on(dataset) for dataset in effect.printed)
            counted = f"{same} of {len(effect.printed)}"
            lines.append([name, effect.kind, f"{text.figure} {text.interval}", *printed, counted, sign_word(effect)])
        notes.append(_counts(of))
    header = ["benchmark: published table, effect", "kind", "here", *datasets, "same sign", "in short"]
    bounds = [check_given("interval", effect.cell.bounds) for of in agreements for effect in of.effects]
    few = [FEW_CLASSES_NOTE] if any(of.has_few_classes for of in bounds) else []
    return reports.PlainTable(
        title, header, lines, [*notes, _SIGNS_NOTE, *kind_notes({of.kind for of in bounds}), *few]
    )


def sign_word(effect: Effect) -> str:
    """Return `agrees`, `contradicts`, `mixed` or `open`; see the table's note."""
    if not effect.cell.is_significant:
        return "open"
    same = [effect.agrees_on(dataset) for dataset in effect.printed]
    return "agrees" if all(same) else "mixed" if any(same) else "contradicts"


def _interval(found: Bounds) -> str:
    return f"{found.value:+.2f} [{found.low:+.2f}, {found.high:+.2f}]"


def _ceiling(found: Bounds | None) -> str:
    return f"{found.value:+.2f} ({found.low:+.2f} to {found.high:+.2f})" if found else "-"


def _counts(of: TableAgreement) -> str:
    """Count the effects with the published sign, by data set and by kind."""
    if not of.effects:
        return (
            f"{of.study} beside {of.table}: no method is there with and without a memory, CCP, GSP or regularisation."
        )
    by_dataset = []
    for dataset in of.ranks:
        signs = [effect.agrees_on(dataset) for effect in of.effects if dataset in effect.printed]
        by_dataset += [f"{sum(signs)} of {len(signs)} on {dataset}"] if signs else []
    words = [sign_word(effect) for effect in of.effects]
    counted = ", ".join(f"{words.count(word)} {word}" for word in dict.fromkeys(words))
    return f"{of.study} beside {of.table}, signs as published: {', '.join(by_dataset)}; {counted}."


def _left_out(agreements: Sequence[TableAgreement]) -> list[str]:
    because = "left out for a method closer to the same printed row"
    notes = [f"Of {of.study}, beside {of.table}, {because}: {', '.join(of.twins)}." for of in agreements if of.twins]
    incomplete = {of.study: of.incomplete for of in agreements if of.incomplete}
    return notes + [f"Of {study}, without every fold: {', '.join(labels)}." for study, labels in incomplete.items()]


_COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7")  # Okabe and Ito, "Color universal design", 2008
_CEILING = "0.85"


def draw_agreements(agreements: Sequence[TableAgreement], path: pathlib.Path, title: str) -> None:
    """Draw Spearman's coefficient and interval over the ceiling's range (atomic PNG).

    Filled dots are stand-ins by the rule of `study_agreement`; the dotted tick is its threshold.
    """
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    lines = [(of.study, f"{of.table}, {name}", ranks) for of in agreements for name, ranks in of.ranks.items()]
    studies = list(dict.fromkeys(study for study, _, _ in lines))
    with picture(path, 7.5, 1.9 + 0.3 * len(lines)) as (figure, (axes,)):
        for place, (study, _, ranks) in enumerate(lines):
            _draw_line(axes, place, ranks, _COLORS[studies.index(study) % len(_COLORS)])
        axes.axvline(0, color="0.5", linewidth=0.8)
        axes.set_yticks(range(len(lines)), [f"{name} ({ranks.num_methods})" for _, name, ranks in lines])
        axes.set(xlim=(-1.03, 1.03), ylim=(len(lines) - 0.4, -0.6), xlabel="Spearman's coefficient, 95 % interval")
        axes.set_ylabel("printed figures (methods)")
        axes.set_title(title, fontsize="medium")
        axes.grid(axis="x", alpha=0.3)
        axes.set_axisbelow(True)
        marks: list[Artist] = [
            Line2D([], [], color=_COLORS[index % len(_COLORS)], marker="o", markerfacecolor="white", label=study)
            for index, study in enumerate(studies)
        ]
        marks += [
            Line2D([], [], color="black", marker="o", linestyle="", label="filled: stand-in"),
            Patch(color=_CEILING, label="ceiling, published against published: range and mean"),
            Line2D([], [], color="black", linestyle=":", label="half of the mean ceiling"),
        ]
        figure.legend(handles=marks, loc="outside lower center", frameon=False, fontsize="small", ncols=2)


def _draw_line(axes, place: int, agreement: RankAgreement, color: str) -> None:
    ceiling, found = agreement.spearman_ceiling, agreement.spearman
    if ceiling is not None:
        axes.barh(place, ceiling.high - ceiling.low, left=ceiling.low, height=0.72, color=_CEILING)
        axes.plot([ceiling.value] * 2, [place - 0.36, place + 0.36], color="0.45", linewidth=1.5)
    if agreement.threshold is not None:
        axes.plot([agreement.threshold] * 2, [place - 0.36, place + 0.36], color="black", linewidth=1.2, linestyle=":")
    axes.plot([found.low, found.high], [place] * 2, color=color, linewidth=1.6)
    inside = color if agreement.verdict == STAND_IN else "white"
    axes.plot(found.value, place, "o", color=color, markerfacecolor=inside, markersize=6)
