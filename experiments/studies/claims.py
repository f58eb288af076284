"""Claims of the thesis beside recorded studies of the planned comparisons.

Regenerates: nothing printed: each planned comparison (`--id=planned`) on every recorded data set, its mean over sets
    and a verdict by the rule of docs/results/plan.md; and a forest plot.
Command: python -m experiments.table --id=claims --study=results/planned_emoji
Expected: the signs and sizes of thesis tables 3.1 and 5.1, which are printed beside ours.
Cost: no training; seconds on 2 CPU cores.
"""

from __future__ import annotations

import dataclasses
import os
import pathlib
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from absl import flags

from common.errors import InvalidInput, check_given
from experiments import reports
from experiments.plans.study_command import refuse_training
from experiments.published.values import fair_published
from experiments.reports.comparisons import compare
from experiments.reports.plots import picture
from experiments.reports.tables import kind_notes
from experiments.rows.rows import TRAINING
from experiments.rows.scores import cell, complete_repeats, method_difference, scores_of_trainings
from experiments.rows.store import ROWS, StudyRows
from experiments.settings.build import parse_method
from experiments.studies.planned import CLAIMS, Claim
from experiments.studies.tables import CLAIMS_ID

_PRINTED_SETS = ("SOP", "In-shop", "CUB", "Cars196")
_PREFIX = "planned_"
_HOW = (
    "Relative difference: test MAP@R of the method minus that of its baseline, in per cent of the baseline, "
    "paired by fold and test class. Its 95 % interval is for new folds and classes. Studies of one set are averaged "
    "first. Mean: over data sets, with Student's interval. Thesis: the same from its printed cells, lowest to highest."
)

_PERCENTS = (-100, -30, -10, -5, 0, 5, 10, 30, 100)  # ticks
_FEWEST = 0.01  # MAP@R of a baseline, below which it has hardly learned and a relative difference says nothing
_NOT_COUNTED = "In parentheses: the baseline has a MAP@R below 1 %, so the study does not count for the claim."
_STARS = (
    "Stars follow Holm over the planned comparisons of a study. Detectable: the smallest true difference that has a "
    "star in 80 % of studies."
)


class Found(NamedTuple):
    """Difference of a claim in one study."""

    study: str  # its name without "planned_"
    dataset: str  # with which it counts as one set
    cell: reports.TableCell  # a fraction, tested together with the study's other planned comparisons
    baseline: float  # its MAP@R, a fraction

    @property
    def relative(self) -> tuple[float, float, float]:
        """The difference and its interval's ends, as fractions of the baseline."""
        bounds = check_given("interval", self.cell.bounds)
        return bounds.estimate / self.baseline, bounds.low / self.baseline, bounds.high / self.baseline

    @property
    def counts(self) -> bool:
        """True if the baseline has learned enough for a verdict."""
        return self.baseline >= _FEWEST


class Held(NamedTuple):
    """A claim, with what the thesis prints and what the studies found."""

    claim: Claim
    printed: Sequence[float]  # relative to the baseline, a fraction of each printed data set
    found: tuple[Found, ...]  # of each study with every fold of both methods

    @property
    def counted(self) -> list[Found]:
        """The studies that count for the verdict."""
        return [of for of in self.found if of.counts]

    @property
    def by_set(self) -> dict[str, list[Found]]:
        """The counted studies of each data set."""
        names = dict.fromkeys(of.dataset for of in self.counted)
        return {name: [of for of in self.counted if of.dataset == name] for name in names}

    @property
    def summary(self) -> reports.SetSummary | None:
        """The mean over data sets; None without a study that counts."""
        means = [float(np.mean([of.relative[0] for of in group])) for group in self.by_set.values()]
        return reports.summary_over_sets(means) if means else None

    @property
    def verdict(self) -> str:
        """The verdict on the claim, by the rule of the plan."""
        smallest = min(self.printed, default=0.0)
        losses = [of.cell.is_significant and of.cell.estimate.mean < 0 for of in self.counted]
        return reports.claim_verdict(self.summary, any(losses), smallest)


def held_claims(studies: Sequence[StudyRows]) -> list[Held]:
    """Compare each planned claim with the studies that have both methods."""
    found = [_differences(study) for study in studies]
    held = [Held(claim, _printed(claim), tuple(of[claim] for of in found if claim in of)) for claim in CLAIMS]
    if not any(of.found for of in held):
        names = ", ".join(str(study.folder) for study in studies) or "no study"
        raise InvalidInput(
            f"No planned comparison can be made: received {names}, expected every fold of a method and its baseline, "
            f"such as {CLAIMS[0].method} and {CLAIMS[0].baseline}. Train them: python -m experiments.table "
            "--id=planned --dataset=emoji --run --record=results/planned_emoji"
        )
    return held


def _differences(study: StudyRows) -> dict[Claim, Found]:
    """Return a study's planned differences, tested together."""
    complete = [claim for claim in CLAIMS if all(complete_repeats(study, name) for name in claim.methods)]
    keys = {claim: ("MAP@R", claim.methods) for claim in complete}
    tested = compare({key: method_difference(study, *claim.methods) for claim, key in keys.items()})
    name, dataset, found = study.name.removeprefix(_PREFIX), _data_set(study), {}
    for claim, key in keys.items():
        difference = cell(tested[key].bounds, is_difference=True, baseline=claim.baseline)
        compared = dataclasses.replace(difference, comparison=tested[key])
        found[claim] = Found(name, dataset, compared, _mean(study, claim.baseline))
    return found


def _data_set(study: StudyRows) -> str:
    row = next((row for row in study.rows if row["kind"] == TRAINING), {"dataset": ""})
    return row["data"] if row["dataset"] in ("folder", "manifest") else row["dataset"].partition("_clutter")[0]


def _mean(study: StudyRows, label: str) -> float:
    scores = scores_of_trainings(study, label, complete_repeats(study, label))
    return float(scores.class_scores("MAP@R").means.mean())


def _printed(claim: Claim) -> list[float]:
    """Return the relative differences that the thesis prints of a claim."""
    if claim.chapter is None:
        return []
    cells = [[_printed_cell(name, of, claim.chapter) for of in claim.methods] for name in _PRINTED_SETS]
    return [first / second - 1 for first, second in cells if first and second]


def _printed_cell(dataset: str, method: str, chapter: int) -> float | None:
    loss, kind, pooling = parse_method(method.partition(",")[0])
    found = fair_published(dataset, loss, pooling, kind, 128, "MAP@R", chapter=chapter)
    return found.value if found is not None and found.is_target else None


def claims_table(held: Sequence[Held], title: str = "") -> reports.PlainTable:
    """Tabulate claims: thesis, studies, mean over data sets, verdict."""
    names = list(dict.fromkeys(found.study for of in held for found in of.found))
    lines = []
    for of in held:
        if not of.found:
            continue
        figures = {found.study: _figure(found) for found in of.found}
        mean = _percent(of.summary.mean, of.summary.low, of.summary.high) if of.summary else "-"
        lines.append([of.claim.text, _printed_range(of), *(figures.get(name, "-") for name in names), mean, of.verdict])
    num_missing = sum(not of.found for of in held)
    header = ["claim", "thesis (%)", *(f"{name} (%)" for name in names), "mean over sets (%)", "verdict"]
    missing = [f"Not yet run: {num_missing} of {len(held)} planned comparisons."] if num_missing else []
    missing += [_NOT_COUNTED] if any(len(of.counted) < len(of.found) for of in held) else []
    return reports.PlainTable(title, header, lines, [*missing, _HOW, reports.CLAIM_RULE])


def differences_table(held: Sequence[Held], title: str = "") -> reports.PlainTable:
    """Tabulate each claim's difference in points in each study."""
    lines = []
    for of in held:
        for found in of.found:
            text, name = reports.cell_text(found.cell), f"{of.claim.method} - {of.claim.baseline}"
            figures = [f"{100 * found.baseline:.2f}", f"{text.figure} {text.interval}", text.detectable]
            lines.append([name, found.study, *figures])
    header = ["difference", "study", "MAP@R of the baseline", "difference, MAP@R", "detectable"]
    bounds = [found.cell.bounds for of in held for found in of.found if found.cell.bounds]
    return reports.PlainTable(title, header, lines, [_STARS, *kind_notes({of.kind for of in bounds})])


def draw_claims(held: Sequence[Held], path: str | os.PathLike, title: str = "") -> None:
    """Draw a forest plot: relative differences with intervals, the mean, the thesis' range."""
    shown = [of for of in held if of.counted]
    names = list(dict.fromkeys(found.study for of in shown for found in of.counted))
    heights = [len(of.counted) + (len(of.by_set) > 1) + 0.8 for of in shown]
    with picture(path, 7.5, 1.2 + 0.22 * sum(heights)) as (figure, (axes,)):
        top, ticks = 0.0, []
        for of, height in zip(shown, heights):
            ticks.append(top + (height - 1.8) / 2)
            if of.printed:
                ends = [100 * relative for relative in of.printed]
                band = {"color": "tab:gray", "alpha": 0.25, "linewidth": 0, "label": "thesis, lowest to highest"}
                axes.fill_betweenx([top - 0.5, top + height - 1.3], min(ends), max(ends), **band)
            for place, found in enumerate(of.counted):
                color = f"C{names.index(found.study)}"
                _draw_whisker(axes, found.relative, top + place, color, "o", found.study)
            if len(of.by_set) > 1 and of.summary is not None:
                over_sets = of.summary.mean, of.summary.low, of.summary.high
                _draw_whisker(axes, over_sets, top + len(of.counted), "black", "D", "mean over data sets")
            top += height
        axes.axvline(0.0, color="black", linewidth=0.8)
        shares = 100 * np.array([found.relative for of in shown for found in of.counted])
        room = 0.25 * (max(shares.max(), 0) - min(shares.min(), 0))  # an interval over two or three sets may be cut
        axes.set_xscale("symlog", linthresh=10)  # near zero, where most effects are, it is linear
        axes.set_xticks(_PERCENTS, [f"{percent:+d}" if percent else "0" for percent in _PERCENTS])
        axes.set_xlim(min(shares.min(), 0) - room, max(shares.max(), 0) + room)
        axes.set_yticks(ticks, [of.claim.text for of in shown])
        axes.invert_yaxis()
        axes.margins(y=0.01)
        axes.set_xlabel("difference, % of the baseline (logarithmic beyond 10 %)")
        axes.set_title(title, fontsize="medium")
        axes.grid(axis="x", alpha=0.3)
        axes.set_axisbelow(True)
        handles = dict(zip(*reversed(axes.get_legend_handles_labels())))
        figure.legend(handles.values(), handles, loc="outside lower center", frameon=False, fontsize="small", ncols=3)


def _draw_whisker(axes, ends: tuple[float, float, float], height: float, color: str, marker: str, label: str) -> None:
    """Draw an estimate and its interval, in per cent; dots without an end."""
    middle, low, high = (100 * end for end in ends)
    axes.plot([low, high], [height, height], color=color, linewidth=1.4)
    axes.plot(middle, height, marker, color=color, markersize=5, label=label, linestyle="none")


def _figure(found: Found) -> str:
    text = _percent(*found.relative) + ("*" if found.cell.is_significant else "")
    return text if found.counts else f"({text})"


def _percent(mean: float, low: float, high: float) -> str:
    return f"{100 * mean:+.1f}" + ("" if np.isnan(low) else f" [{100 * low:+.1f}, {100 * high:+.1f}]")


def _printed_range(of: Held) -> str:
    relative = [100 * each for each in of.printed]
    return f"{min(relative):+.1f} to {max(relative):+.1f}" if relative else "-"


def recorded_studies(folder: str | os.PathLike) -> list[StudyRows]:
    """Read the planned studies of a folder such as `results`, sorted by name."""
    return [StudyRows(path.parent) for path in sorted(pathlib.Path(folder).glob(f"{_PREFIX}*/{ROWS}"))]


def run_claims(values: flags.FlagValues) -> None:
    """Write the claims of the `--study` studies, or of all recorded planned ones."""
    refuse_training(values, CLAIMS_ID)
    held = held_claims([StudyRows(name) for name in values.study] if values.study else recorded_studies("results"))
    folder = pathlib.Path(values.runs_dir) / "tables" / CLAIMS_ID
    print(claims_table(held, "Claims of the thesis").write(folder, "table_claims"))
    differences_table(held, "Planned comparisons").write(folder, "table_claims_differences")
    draw_claims(held, folder / "table_claims.png", "Claims of the thesis")
    print(f"Differences in points and the picture: {folder}")
