"""Claims of the thesis beside recorded studies of the planned comparisons.

Regenerates: nothing printed: each planned comparison (`--id=planned`, `--id=arms`) on every recorded data set, its mean
    over sets and a verdict by the rule of docs/results/claims.md; and a forest plot of each plan.
Expected: the signs and sizes of thesis tables 3.1 and 5.1, which are printed beside ours.
"""

from __future__ import annotations

import dataclasses
import os
import pathlib
import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from absl import flags

from common.errors import InvalidInput, check_given
from experiments import reports
from experiments.parts.datasets import traits_of
from experiments.plans.study_command import refuse_all_but
from experiments.published.values import fair_published
from experiments.reports.comparisons import compare
from experiments.reports.plots import picture
from experiments.reports.scores import complete_repeats, method_difference, scores_of_trainings
from experiments.reports.tables import cell, kind_notes
from experiments.rows.rows import CLOSED_FORM, TRAINING, UNTRAINED, VALIDATED_BEFORE, Row
from experiments.rows.store import RECORDED, ROWS, StudyRows
from experiments.settings.method_names import parse_method
from experiments.settings.run_settings import WHITENING
from experiments.studies import arms, planned
from experiments.studies.planned import Claim
from experiments.studies.tables import CLAIMS_ID

_PRINTED_SETS = ("SOP", "In-shop", "CUB", "Cars196")
PLANS = {"planned": planned.CLAIMS, "arms": arms.CLAIMS}  # by the first word of a study's name
_TITLES = {"caltech101": "Caltech-101", "cars196": "half of Cars196", "emoji_clutter_32": "cluttered emoji"}
_OTHER = "_mobilenet_v2"
_HOW = (
    "All differences are in per cent of the baseline's test MAP@R, paired by fold and test class, with 95 % intervals "
    "for new folds and families of classes. Star: significant in its study, by Holm. Studies of one data set are "
    "averaged first. Mean: over data sets, with Student's interval. Thesis: its printed cells, lowest to highest."
)
_COLUMNS = 4  # of the picture
_PERCENTS = (-100, -30, -10, 0, 10, 30, 100)  # ticks
_FEWEST = 0.01  # MAP@R of a baseline, below which it has hardly learned and a relative difference says nothing
_NEAR_BEST, _STALLED = 0.9, 3  # share of the best validation; validations without improvement
_CONVERGED = 2  # problems of an alternation
_OBJECTIONS = {
    "a": "the baseline has a MAP@R below 1 %, or does not beat the untrained and the whitened features.",
    "b": "in some run the method began before the loss alone had 90 % of its best validation or had gone three "
    "validations without improvement.",
    "c": "some run has fewer than two problems that ended by convergence, so it did not alternate.",
}
_STARS = (
    "Stars follow Holm over the comparisons. Detectable: the smallest true difference that has a star in 80 % of "
    "studies. Features: MAP@R of the untrained and of the whitened ones. Begun: validation of the loss when the method "
    "began, in per cent of its best, over the runs; 0: none before. Problems: how many ended by convergence, over the "
    "runs."
)


class Evidence(NamedTuple):
    """Decides whether a study counts for a claim."""

    learned: tuple[float, ...]  # MAP@R of the baseline, of untrained and of whitened features; fewer: not recorded
    begun: tuple[float, ...] | None  # validation at the start, over the loss's best, of each run that had not stalled
    converged: tuple[int, ...] | None  # problems of each run; None: the claim is not on alternation

    @property
    def objections(self) -> str:
        """The letters of the reasons why the study does not count."""
        own, *before = self.learned
        is_found = {
            "a": len(before) < 2 or own <= max(before),
            "b": self.begun is not None and min(self.begun, default=1.0) < _NEAR_BEST,
            "c": self.converged is not None and min(self.converged) < _CONVERGED,
        }
        return "".join(letter for letter, found in is_found.items() if found)


class Found(NamedTuple):
    """Difference of a claim in one study."""

    study: str  # its name without that of its plan
    dataset: str  # with which it counts as one set
    cell: reports.TableCell  # a fraction, tested together with the study's other planned comparisons
    baseline: float  # its test MAP@R, a fraction
    evidence: Evidence

    @property
    def title(self) -> str:
        """The data set, and the network if it is not EfficientNet-lite0."""
        name = self.study.removesuffix(_OTHER)
        return _TITLES.get(name, name) + (", MobileNetV2" if name != self.study else "")

    @property
    def relative(self) -> tuple[float, float, float]:
        """The difference and its interval's ends, as fractions of the baseline."""
        bounds = check_given("interval", self.cell.bounds)
        return bounds.estimate / self.baseline, bounds.low / self.baseline, bounds.high / self.baseline

    @property
    def objections(self) -> str:
        """The letters of `_OBJECTIONS` that apply; empty if the study counts for a verdict."""
        found = self.evidence.objections
        return found if "a" in found or self.baseline >= _FEWEST else f"a{found}"


class Held(NamedTuple):
    """A claim, with what the thesis prints and what the studies found."""

    claim: Claim
    printed: Sequence[float]  # relative to the baseline, a fraction of each printed data set
    found: tuple[Found, ...]  # of each study with every fold of both methods

    @property
    def counted(self) -> list[Found]:
        """The studies that count for the verdict."""
        return [of for of in self.found if not of.objections]

    def summary(self, without: str = "") -> reports.SetSummary | None:
        """Average over data sets, perhaps without a study; None without a study that counts."""
        by_set: dict[str, list[float]] = {}
        for of in self.counted:
            if of.study != without:
                by_set.setdefault(of.dataset, []).append(of.relative[0])
        return reports.summary_over_sets([float(np.mean(of)) for of in by_set.values()]) if by_set else None

    def verdict(self, without: str = "") -> str:
        """Judge the claim, perhaps without a study."""
        return reports.claim_verdict(self.summary(without), min(self.printed, default=0.0))


def held_claims(studies: Sequence[StudyRows], plan: str = "planned") -> list[Held]:
    """Compare each claim of a plan with the studies that have both methods."""
    found, claims = [_differences(study, PLANS[plan]) for study in studies], PLANS[plan]
    held = [Held(claim, _printed(claim), tuple(of[claim] for of in found if claim in of)) for claim in claims]
    if not any(of.found for of in held):
        names = ", ".join(str(study.folder) for study in studies) or "no study"
        raise InvalidInput(
            f"No planned comparison can be made: received {names}, expected every fold of a method and its baseline, "
            f"such as {claims[0].method} and {claims[0].baseline}. Train them: python -m experiments.table "
            f"--id={plan} --dataset=emoji --run --record=docs/results/rows/{plan}_emoji"
        )
    return held


def _differences(study: StudyRows, claims: Sequence[Claim]) -> dict[Claim, Found]:
    """Return a study's planned differences, tested together."""
    complete = [claim for claim in claims if all(complete_repeats(study, name) for name in claim.methods)]
    keys = {claim: ("MAP@R", claim.methods) for claim in complete}
    tested = compare({key: method_difference(study, *claim.methods) for claim, key in keys.items()})
    name, dataset, found = study.name.removeprefix(f"{_plan_of(study)}_"), _data_set(study), {}
    for claim, key in keys.items():
        difference = cell(tested[key].bounds, is_difference=True, baseline=claim.baseline)
        compared = dataclasses.replace(difference, comparison=tested[key])
        found[claim] = Found(name, dataset, compared, _mean(study, claim.baseline), _evidence(study, claim))
    return found


def _evidence(study: StudyRows, claim: Claim) -> Evidence:
    rows = _rows_of(study, claim.method)
    begun = converged = None
    if claim.alone is not None:
        best = {place: row["validation"]["MAP@R"] for place, row in _rows_of(study, claim.alone).items()}
        shares = [_share_at_start(row, best.get(place)) for place, row in rows.items()]
        begun = tuple(share for share in shares if share is not None)
    if claim.is_alternation:
        outcomes = [[of["outcome"] for of in row["extras"].get("problems", [])] for row in rows.values()]
        converged = tuple(of.count("converged") for of in outcomes)
    return Evidence(_learned([*_rows_of(study, claim.baseline).values()]), begun, converged)


def _rows_of(study: StudyRows, label: str) -> dict[tuple[int, int], Row]:
    """Return a method's runs by fold and repeat."""
    rows = [row for row in study.rows if row["kind"] == TRAINING and row["label"] == label]
    return {(row["fold"], row["repeat"]): row for row in rows}


def _learned(rows: Sequence[Row]) -> tuple[float, ...]:
    """Average MAP@R of runs, of their untrained and their whitened features.

    All are of validation classes, or of test classes if the rows have those alone.
    """
    on_validation = all(VALIDATED_BEFORE in row["extras"] for row in rows)
    moment = "validation" if on_validation else "test"
    found = [[row[moment]["MAP@R"] for row in rows]]
    for name in (UNTRAINED, WHITENING):
        if on_validation:
            before = [row["extras"][VALIDATED_BEFORE] for row in rows]
        else:
            before = [{UNTRAINED: row.get(UNTRAINED), **row["extras"].get(CLOSED_FORM, {})} for row in rows]
        found.append([figures[name]["MAP@R"] for figures in before if figures.get(name)])
    return tuple(float(np.mean(values)) for values in found if values)


def _share_at_start(row: Row, best: float | None) -> float | None:
    """Return the best validation before a method began, over the loss's best.

    0: unknown; None: the loss had stalled.
    """
    extras = row["extras"]
    problems, curve = extras.get("problems"), extras.get("validation_curve", [])
    if problems is None:
        start, reached = row["configuration"].get("memory_start", 0), None
    else:
        start, reached = (problems[0]["start_step"], problems[0]["best_before"]) if problems else (0, None)
    values = [value for step, value in curve if step <= start]
    if values and len(values) - 1 - int(np.argmax(values)) >= _STALLED:
        return None
    reached = max(values, default=0.0) if reached is None else reached
    return reached / best if best else 0.0


def _data_set(study: StudyRows) -> str:
    row = next((row for row in study.rows if row["kind"] == TRAINING), {"dataset": ""})
    return row["data"] if traits_of(row["dataset"]).custom else re.split("_clutter|_on_photographs", row["dataset"])[0]


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


def claims_table(held: Sequence[Held], title: str = "") -> reports.Table:
    """Tabulate claims: verdict, mean over data sets, thesis, studies."""
    num_planned = len(held)
    held = [of for of in held if of.found]
    titles = _titles(held)
    lines = []
    for of in held:
        figures = {found.title: _figure(found) for found in of.found}
        summary = of.summary()
        mean = _percent(summary.mean, summary.low, summary.high) if summary else "-"
        sets = str(len(summary.differences) if summary else 0)
        line = [of.claim.text, of.verdict(), sets, mean, _left_out(of), _printed_range(of)]
        lines.append([*line, *(figures.get(name, "-") for name in titles)])
    header = ["claim", "verdict", "sets", "mean", "without a study", "thesis", *titles]
    letters = {letter for of in held for found in of.found for letter in found.objections}
    objections = [f"{letter}: {why}" for letter, why in _OBJECTIONS.items() if letter in letters]
    notes = [f"In parentheses, not counted. {' '.join(objections)}"] if objections else []
    num_missing = num_planned - len(held)
    notes += [f"Not yet run: {num_missing} of {num_planned} planned comparisons."] if num_missing else []
    return reports.Table(title, header, lines, [*notes, _HOW, reports.CLAIM_RULE])


def differences_table(held: Sequence[Held], title: str = "") -> reports.Table:
    """Tabulate differences in points, with the evidence on whether they count."""
    lines = []
    for of in held:
        for found in of.found:
            cell, evidence = found.cell, found.evidence
            figures = [f"{cell.figure} {cell.interval}", cell.detectable, f"{100 * found.baseline:.2f}"]
            before = ", ".join(f"{100 * value:.2f}" for value in evidence.learned[1:]) or "not recorded"
            begun = "-" if evidence.begun is None else _range([round(100 * of) for of in evidence.begun]) or "stalled"
            problems = "-" if evidence.converged is None else _range(evidence.converged)
            counts = f"no: {', '.join(found.objections)}" if found.objections else "yes"
            lines.append([of.claim.text, found.title, *figures, before, begun, problems, counts])
    header = [
        "claim",
        "study",
        "difference, MAP@R",
        "detectable",
        "baseline",
        "features",
        "begun",
        "problems",
        "counts",
    ]
    bounds = [found.cell.bounds for of in held for found in of.found if found.cell.bounds]
    return reports.Table(title, header, lines, [_STARS, *kind_notes({of.kind for of in bounds})], keys=2)


def draw_claims(held: Sequence[Held], path: str | os.PathLike) -> None:
    """Draw a panel for each claim: relative differences, their mean, the thesis' range."""
    shown = [of for of in held if of.found]
    names = _titles(shown)
    columns = min(_COLUMNS, len(shown))
    rows = -(-len(shown) // columns)
    with picture(path, 1.7 + 2.3 * columns, 1.0 + (0.7 + 0.2 * len(names)) * rows, rows=rows, columns=columns) as (
        figure,
        panels,
    ):
        for panel in panels[len(shown) :]:
            panel.set_visible(False)
        for place, (axes, of) in enumerate(zip(panels, shown)):
            _draw_claim(axes, of, names)
            if place % columns:
                axes.set_yticklabels([])
        handles: dict = {}
        for axes in panels[: len(shown)]:
            handles |= dict(zip(*reversed(axes.get_legend_handles_labels())))
        figure.supxlabel("difference, % of the baseline (logarithmic beyond 10 %)", fontsize="small")
        figure.legend(handles.values(), handles, loc="outside upper center", frameon=False, fontsize="small", ncols=4)


def _draw_claim(axes, of: Held, names: Sequence[str]) -> None:
    if of.printed:
        ends = [100 * relative for relative in of.printed]
        axes.axvspan(min(ends), max(ends), color="tab:gray", alpha=0.25, linewidth=0, label="thesis, lowest to highest")
    for found in of.found:
        look = ("tab:blue", "o", "study that counts") if not found.objections else ("tab:gray", "x", "does not count")
        _draw_whisker(axes, found.relative, names.index(found.title), *look)
    summary = of.summary()
    if summary is not None and len(summary.differences) > 1:
        over_sets = summary.mean, summary.low, summary.high
        _draw_whisker(axes, over_sets, len(names), "black", "D", "mean over data sets that count")
    axes.axvline(0.0, color="black", linewidth=0.8)
    axes.set_xscale("symlog", linthresh=10)  # near zero, where most effects are, it is linear
    axes.set_xticks(_PERCENTS, [f"{percent:+d}" if percent else "0" for percent in _PERCENTS])
    axes.set_xlim(-130, 130)  # an interval over two or three sets may be cut
    axes.set_yticks(range(len(names) + 1), [*names, "mean"])
    axes.set_ylim(len(names) + 0.6, -0.6)
    axes.tick_params(labelsize="x-small")
    axes.set_title(of.claim.text, fontsize="small")
    axes.grid(axis="x", alpha=0.3)
    axes.set_axisbelow(True)


def _draw_whisker(axes, ends: tuple[float, float, float], height: float, color: str, marker: str, label: str) -> None:
    """Draw an estimate and its interval, in per cent; dots without an end."""
    middle, low, high = (100 * end for end in ends)
    axes.plot([low, high], [height, height], color=color, linewidth=1.4)
    axes.plot(middle, height, marker, color=color, markersize=5, label=label, linestyle="none")


def _titles(held: Sequence[Held]) -> list[str]:
    """Return the titles of all studies, in the order of their folders."""
    titles = {found.study: found.title for of in held for found in of.found}
    return [titles[study] for study in sorted(titles)]


def _left_out(of: Held) -> str:
    """Count the verdicts without each study in turn, and name the studies that decide."""
    words = {found.title: of.verdict(without=found.study) for found in of.counted}
    if not words:
        return "-"
    same = sum(word == of.verdict() for word in words.values())
    others = [f"{word} without {name}" for name, word in words.items() if word != of.verdict()]
    return "; ".join([f"{of.verdict()} {same} of {len(words)}", *others])


def _range(values: Sequence[float]) -> str:
    """Write the lowest and the highest value; empty without values."""
    ends = dict.fromkeys([min(values), max(values)]) if values else ()
    return " to ".join(f"{end:g}" for end in ends)


def _figure(found: Found) -> str:
    text = _percent(*found.relative) + ("*" if found.cell.is_significant else "")
    return f"({text}) {found.objections}" if found.objections else text


def _percent(mean: float, low: float, high: float) -> str:
    return f"{100 * mean:+.1f}" + ("" if np.isnan(low) else f" [{100 * low:+.1f}, {100 * high:+.1f}]")


def _printed_range(of: Held) -> str:
    relative = [100 * each for each in of.printed]
    return f"{min(relative):+.1f} to {max(relative):+.1f}" if relative else "-"


def _plan_of(study: StudyRows) -> str:
    word = study.name.partition("_")[0]
    return word if word in PLANS else next(iter(PLANS))


def recorded_studies(folder: str | os.PathLike, plan: str = "planned") -> list[StudyRows]:
    """Read a plan's studies of a folder such as `results`, sorted by name."""
    return [StudyRows(path.parent) for path in sorted(pathlib.Path(folder).glob(f"{plan}_*/{ROWS}"))]


def run_claims(values: flags.FlagValues) -> None:
    """Write the claims of each plan, from the `--study` studies or all recorded ones."""
    refuse_all_but(values, ("study", "runs_dir"), because=f"--id={CLAIMS_ID} trains nothing and reads recorded studies")
    given = [StudyRows(name) for name in values.study or ()]
    folder = pathlib.Path(values.runs_dir) / "tables" / CLAIMS_ID
    found = {
        plan: [of for of in given if _plan_of(of) == plan] if given else recorded_studies(RECORDED, plan)
        for plan in PLANS
    }
    for plan, studies in found.items():
        if studies or not any(found.values()):  # none at all: an error says so
            held, name = held_claims(studies, plan), f"table_claims_{plan}"
            print(claims_table(held, f"Claims of the thesis, {plan} comparisons").write(folder, name))
            differences_table(held, f"Differences of {plan} comparisons").write(folder, f"{name}_differences")
            draw_claims(held, folder / f"{name}.png")
    print(f"Differences in points and pictures: {folder}")
