"""Token selection by GSP: bags of tokens, half common to all classes, against GAP.

Regenerates: thesis figure 5.4 (tokens, samples and class hulls in the plane, (a) GAP, (b) GSP).
Expected: thesis section 6.2: 70 points of MAP@R above GAP; hulls of classes overlap under GAP and are apart under GSP.
    The figures of the two sides, the loss, m, mu and epsilon are not printed; ours are in `SETTINGS`.
    With `--repeats=20` (of the first fold below `full`) the table also gives the number of selecting runs and the
    spread of MAP@R over them.
"""

from __future__ import annotations

import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from common.data.synthetic_tokens import NUM_CLASS_TOKENS, TOKENS_PER_CLASS
from common.errors import invalid
from experiments import reports
from experiments.plans.study import FinishedCells, Study, StudyOptions, trainings
from experiments.protocols.extras import hull_order, token_extras
from experiments.reports import Table
from experiments.reports.plots import picture
from experiments.reports.scores import Scores, labels_of, scores_of_trainings
from experiments.reports.tables import bracketed, kind_notes
from experiments.rows.rows import Row
from experiments.rows.store import StudyRows

DATASET = "synthetic_tokens"
PRINTED_GAIN = 70.0  # points of MAP@R
SELECTS_FROM = 0.75  # of the weight on own tokens: halfway between what averaging gives them and all
# Ours. Sixteen points in a box of .6 are .2 apart at most; distances of tokens are small, so the smoothing is not.
SETTINGS: Mapping[str, object] = {"gsp_memory_features": "local_features", "smoothing": 50.0, "negative_margin": 0.2}
_LENGTHS = {
    "full": {},
    "demo": {"learning_rate": 1e-3, "max_steps": 800, "steps_per_evaluation": 100},  # a tenth, ten times as fast
    "smoke": {},
}
_STYLES = (("#0072B2", "o"), ("#D55E00", "s"), ("#009E73", "^"), ("#CC79A7", "D"))  # of methods' runs
_METHODS: dict[str, tuple[str, dict[str, Any]]] = {  # name: pooling, values that the study sets
    "GAP": ("gap", {}),
    "GSP": ("gsp", {"zero_shot_weight": 0.0}),
    "GSP + L_ZS": ("gsp", {}),
}


def token_selection(options: StudyOptions) -> Study:
    """Return the study of one loss under GAP, GSP, and GSP with L_ZS."""
    if options.dataset != DATASET:
        raise invalid("--dataset", received=options.dataset, expected=f"{DATASET}, which this figure is of")
    loss, groups, length = options.only_loss("c2"), {}, _LENGTHS[options.budget]
    for name, (pooling, values) in _METHODS.items():
        chosen = options.with_pooling(pooling)
        config = chosen.configuration(loss, settings={**SETTINGS, **length, "chapter": 5}, **values)
        groups[name] = options.cells(f"{loss}, {name}", config)
    notes = (
        "Weight on own tokens: what pooling gives to the tokens of a sample's class, of which it has about half; a "
        f"run selects if that is at least {100 * SELECTS_FROM:.0f} %. Lowest, median, highest: test MAP@R of "
        "runs. In other hulls: test samples inside the convex hull of another class' test samples.",
    )
    title = "Bags of tokens, half of which belong to all classes (thesis figure 5.4)"
    return Study(title, groups, token_table, {"": draw_tokens, "_selection": draw_selection}, notes, _measured)


def _measured(place: int, group: str, rows: list[Row], finished: FinishedCells) -> list[Row]:
    """Measure tokens, and keep those of a method's first run to draw."""
    data = finished.dataset, finished.cache_dir
    return [token_extras(row, *data, with_arrays=row is rows[0]) for row in rows]


def token_table(study: StudyRows, title: str = "", notes: Sequence[str] = ()) -> Table:
    """Tabulate figure 5.4: MAP@R with interval and gain, spread and selection.

    Methods are compared with `GAP` if the same runs are finished. Notes come below the verdicts.
    """
    lines, verdicts, kinds = [], [], set()
    methods = {label: scores_of_trainings(study, label) for label in labels_of(study)}
    for name, method in methods.items():
        estimate, gain = method.estimate("MAP@R"), ["-", "-"]
        if name != "GAP" and "GAP" in methods and method.places == methods["GAP"].places:
            difference = method.difference(methods["GAP"], "MAP@R")
            gain = [f"{100 * difference.estimate:+.2f}", bracketed(difference.low, difference.high, difference.kind)]
            sentence = reports.gain_verdict(difference, PRINTED_GAIN)[1]
            verdicts.append(f"{name} over GAP. {sentence}")
        kinds.add(estimate.kind)
        figures = [f"{100 * estimate.estimate:.2f}", bracketed(*estimate.ends(), estimate.kind), *gain]
        in_others = f"{100 * np.mean([row['extras']['in_other_hulls'] for row in method.rows]):.1f}"
        lines.append([name, *figures, *spread_of(points_of(method)), in_others])
    header = ["pooling", "test MAP@R (%)", "95 % interval", "minus GAP", "95 % interval"]
    header += ["lowest", "median", "highest", "select", "weight on own tokens (%)", "in other hulls (%)"]
    return Table(title, header, lines, [*verdicts, *kind_notes(kinds), *notes])


def points_of(scores: Scores) -> np.ndarray:
    """Return weight on own tokens and MAP@R, percent `[runs, 2]`."""
    return 100 * np.array([[row["extras"]["weight_on_own"], row["test"]["MAP@R"]] for row in scores.rows])


def spread_of(points: np.ndarray) -> list[str]:
    """Describe MAP@R's range and median, selecting runs, mean weight on own tokens."""
    weights, values = points.T
    spread = [f"{found:.2f}" for found in (values.min(), np.median(values), values.max())]
    return [*spread, f"{np.sum(weights >= 100 * SELECTS_FROM)} of {len(points)}", f"{weights.mean():.1f}"]


def draw_tokens(study: StudyRows, path: pathlib.Path, title: str) -> None:
    """Draw each method's first run: samples, hulls, own and shared tokens."""
    from matplotlib import colormaps

    labels = labels_of(study)
    with picture(path, 4.9 * len(labels), 5.6, columns=len(labels), dpi=120) as (figure, panels):
        for label, panel in zip(labels, panels):
            row = scores_of_trainings(study, label).rows[0]
            tokens, samples, classes = (row.arrays[name] for name in ("tokens", "samples", "labels"))
            colors = colormaps["turbo"](np.linspace(0.02, 0.98, int(classes.max()) + 1))
            for number, color in enumerate(colors):
                members = samples[classes == number]
                panel.fill(*members[hull_order(members)].T, color=color, alpha=0.3, linewidth=0)
                panel.scatter(*members.T, s=5, color=color, linewidths=0)
            own, shared = tokens[:NUM_CLASS_TOKENS], tokens[NUM_CLASS_TOKENS:]
            style = {"s": 24, "marker": "s", "edgecolors": "black", "linewidths": 0.6, "alpha": 0.8}
            panel.scatter(*own.T, c=colors[np.arange(len(own)) // TOKENS_PER_CLASS], **style)
            panel.scatter(*shared.T, s=70, marker="x", color="black", linewidths=2.2, zorder=4)
            name = f"{label}, fold {row['fold']}, repeat {row['repeat']}: MAP@R {100 * row['test']['MAP@R']:.1f}"
            panel.set_title(name, fontsize="small")
            panel.set_aspect("equal", adjustable="datalim")
        figure.suptitle(title, fontsize="medium")
        figure.supxlabel(
            "squares: tokens of a class; crosses: tokens of all; dots: samples, in their classes' hulls", size=8
        )


def draw_selection(study: StudyRows, path: pathlib.Path, title: str) -> None:
    """Draw MAP@R of each run against the weight on own tokens."""
    with picture(path, 6.4, 4.4) as (_, (axes,)):
        for label, (color, marker) in zip(labels_of(study), _STYLES):
            points = points_of(scores_of_trainings(study, label))
            name = f"{label} ({trainings(len(points))})"
            axes.scatter(*points.T, s=36, color=color, marker=marker, alpha=0.7, linewidths=0, label=name)
        axes.axvline(100 * SELECTS_FROM, color="0.6", linewidth=1, linestyle="--")
        axes.text(100 * SELECTS_FROM, 1, " selects", color="0.4", size=8)
        axes.set(xlim=(0, 102), ylim=(0, 102), xlabel="pooling weight on own tokens (%)", ylabel="test MAP@R (%)")
        axes.legend(frameon=False, fontsize="small", loc="upper left")
        axes.set_title(title, fontsize="medium")
