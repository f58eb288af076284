"""Token selection by GSP: bags of tokens, half common to all classes, against GAP.

Regenerates: thesis figure 5.4 (tokens, samples and class hulls in the plane, (a) GAP, (b) GSP).
Command: python -m experiments.figure --id=5.4 --budget=full --run
Expected: thesis section 6.2: 70 points of MAP@R above GAP; hulls of classes overlap under GAP and are apart under GSP.
    The figures of the two sides, the loss, m, mu and epsilon are not printed; ours are in `SETTINGS`.
    With `--repeats=20` (of the first fold below `full`) the table also gives the number of selecting runs and the
    spread of MAP@R over them.
Cost: `--budget=full` 12 runs, each until 30 validations without improvement, about an hour on 2 CPU cores
    (estimated); `--budget=demo` 3 runs of ten seconds (at ten times the learning rate, for a tenth of the steps);
    `--budget=smoke` half a minute.
"""

from __future__ import annotations

import pathlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from common.data.synthetic_tokens import NUM_CLASS_TOKENS, TOKENS_PER_CLASS
from common.errors import invalid
from experiments import reports
from experiments.plans.study import FinishedCells, Study, StudyOptions, finished_units, write_table
from experiments.protocols.token_plane import plane_of
from experiments.reports import PlainTable
from experiments.reports.selection_plot import SelectionPoint, selection_plot
from experiments.reports.tables import MARKS, kind_notes
from experiments.reports.token_panels import TokenPanel, token_panels
from experiments.rows.scores import Scores, labels_of, scores_of_trainings
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
_METHODS: dict[str, tuple[str, dict[str, Any]]] = {  # name: pooling, values that the study sets
    "GAP": ("gap", {}),
    "GSP": ("gsp", {"zero_shot_weight": 0.0}),
    "GSP + L_ZS": ("gsp", {}),
}


class TokenSelection(Study):
    """Study of one loss under GAP, GSP, and GSP with the zero-shot prediction loss.

    Args:
        options: of the study; one loss, and the data of tokens.

    Raises:
        InvalidInput: another data set, or more than one loss.
    """

    def __init__(self, options: StudyOptions):
        if options.dataset != DATASET:
            raise invalid("--dataset", received=options.dataset, expected=f"{DATASET}, which this figure is of")
        self.loss = options.only_loss("c2")
        self.groups, length = {}, _LENGTHS[options.budget]
        for name, (pooling, values) in _METHODS.items():
            chosen = options.with_pooling(pooling)
            config = chosen.configuration(self.loss, settings={**SETTINGS, **length, "chapter": 5}, **values)
            self.groups[name] = options.cells(f"{self.loss}, {name}", config)
        self.num_cells = sum(map(len, self.groups.values()))
        self.title = "Bags of tokens, half of which belong to all classes (thesis figure 5.4)"
        self.notes = (
            "Weight on own tokens: what pooling gives to the tokens of a sample's class, of which it has about half; a "
            f"run selects if that is at least {100 * SELECTS_FROM:.0f} %. Lowest, median, highest: test MAP@R of "
            "runs. In other hulls: test samples inside the convex hull of another class' test samples.",
        )

    def render(self, finished: FinishedCells, folder: pathlib.Path, name: str) -> str:
        """Write the verdict table, a panel of each method's first run, and the spread."""
        units = {method: found for method, cells in self.groups.items() if (found := finished_units(cells, finished))}
        methods, panels = {}, []
        for method, of_method in units.items():
            states = [plane_of(unit, finished.dataset, finished.cache_dir) for unit in of_method]
            points = [
                SelectionPoint(state.weight_on_own, unit.measured["test"]["MAP@R"])
                for state, unit in zip(states, of_method)
            ]
            places = [(unit.fold, unit.repeat) for unit in of_method]
            methods[method] = TokenMethod(
                Scores.of_runs(of_method), places, points, [state.in_other_hulls for state in states]
            )
            first = states[0]
            panels.append(token_panel(method, places[0], points[0].map_at_r, first.tokens, first.samples, first.labels))
        text = write_table(selection_table(self.title, methods, self.notes), folder, name)
        token_panels(panels, folder / f"{name}.png", title=self.title)
        points_of = {method: of.points for method, of in methods.items()}
        selection_plot(points_of, folder / f"{name}_selection.png", threshold=SELECTS_FROM, title=self.title)
        return f"{text}Figures: {folder / f'{name}.png'}, {folder / f'{name}_selection.png'}"


class TokenScores(Protocol):
    """Scores of a method's runs, such as `Scores` of runs on disk."""

    def estimate(self, metric: str) -> reports.Interval:
        """Return the mean with its interval."""

    def difference(self, reference: Any, metric: str) -> reports.Interval:
        """Return the mean of self - reference, paired, with its interval."""


class TokenMethod(NamedTuple):
    """Runs of one way of pooling.

    Attributes:
        scores: of their test samples.
        places: fold and repeat of each.
        points: weight on own tokens and MAP@R of each.
        in_other_hulls: of each, the share of test samples inside another class' hull.
    """

    scores: TokenScores
    places: Sequence[tuple[int, int]]
    points: Sequence[SelectionPoint]
    in_other_hulls: Sequence[float]


def selection_table(title: str, methods: Mapping[str, TokenMethod], notes: Sequence[str] = ()) -> PlainTable:
    """Tabulate figure 5.4: MAP@R with interval and gain, spread and selection.

    Args:
        title: of the table.
        methods: by name; others are compared with `GAP` if the same runs are finished.
        notes: footnotes, below the verdicts.
    """
    lines, verdicts, kinds = [], [], set()
    for name, method in methods.items():
        estimate, gain = method.scores.estimate("MAP@R"), ["-", "-"]
        if name != "GAP" and "GAP" in methods and list(method.places) == list(methods["GAP"].places):
            difference = method.scores.difference(methods["GAP"].scores, "MAP@R")
            gain = [f"{100 * difference.estimate:+.2f}", _bounds(difference, difference.low, difference.high)]
            sentence = reports.gain_verdict(difference, PRINTED_GAIN)[1]
            verdicts.append(f"{name} over GAP. {sentence}")
        kinds.add(estimate.kind)
        figures = [f"{100 * estimate.estimate:.2f}", _bounds(estimate, *estimate.ends()), *gain]
        in_others = f"{100 * np.mean(method.in_other_hulls):.1f}"
        lines.append([name, *figures, *spread_of(method.points), in_others])
    header = ["pooling", "test MAP@R (%)", "95 % interval", "minus GAP", "95 % interval"]
    header += ["lowest", "median", "highest", "select", "weight on own tokens (%)", "in other hulls (%)"]
    return PlainTable(title, header, lines, [*verdicts, *kind_notes(kinds), *notes])


def token_panel(
    method: str, place: tuple[int, int], map_at_r: float, tokens: np.ndarray, samples: np.ndarray, labels: np.ndarray
) -> TokenPanel:
    """Return the panel of one run.

    Args:
        method: its name.
        place: fold and repeat.
        map_at_r: of the test samples, in [0, 1].
        tokens: `[tokens, 2]`.
        samples: of the test set `[samples, 2]`.
        labels: theirs `[samples]`.
    """
    places = np.arange(len(tokens))
    owners = np.where(places < NUM_CLASS_TOKENS, places // TOKENS_PER_CLASS, -1)
    title = f"{method}, fold {place[0]}, repeat {place[1]}: MAP@R {100 * map_at_r:.1f}"
    return TokenPanel(title, tokens, owners, samples, labels)


def spread_of(points: Sequence[SelectionPoint]) -> list[str]:
    """Describe MAP@R's range and median, selecting runs, mean weight on own tokens."""
    values = [100 * point.map_at_r for point in points]
    selecting = sum(point.weight_on_own >= SELECTS_FROM for point in points)
    weight = 100 * np.mean([point.weight_on_own for point in points])
    return [
        f"{min(values):.2f}",
        f"{np.median(values):.2f}",
        f"{max(values):.2f}",
        f"{selecting} of {len(points)}",
        f"{weight:.1f}",
    ]


def _bounds(of: reports.Interval, low: float, high: float) -> str:
    return f"[{100 * low:.2f}, {100 * high:.2f}]{MARKS[of.kind]}"


def token_table(study: StudyRows) -> PlainTable:
    """Tabulate figure 5.4 from rows."""
    return selection_table("", recorded_methods(study))


def draw_tokens(study: StudyRows, path: pathlib.Path, title: str) -> None:
    """Draw tokens, samples and hulls of each method's first run, from rows."""
    panels = []
    for label, method in recorded_methods(study).items():
        row = scores_of_trainings(study, label).rows[0]
        arrays = study.scored(row).arrays
        shown = (arrays["tokens"], arrays["samples"], arrays["labels"])
        panels.append(token_panel(label, method.places[0], row["test"]["MAP@R"], *shown))
    token_panels(panels, path, title=title)


def draw_selection(study: StudyRows, path: pathlib.Path, title: str) -> None:
    """Draw MAP@R of each run against the weight on own tokens, from rows."""
    points = {label: method.points for label, method in recorded_methods(study).items()}
    selection_plot(points, path, threshold=SELECTS_FROM, title=title)


def recorded_methods(study: StudyRows) -> dict[str, TokenMethod]:
    """Return the recorded runs by method."""
    methods = {}
    for label in labels_of(study):
        scores = scores_of_trainings(study, label)
        points = [SelectionPoint(row["extras"]["weight_on_own"], row["test"]["MAP@R"]) for row in scores.rows]
        in_others = [row["extras"]["in_other_hulls"] for row in scores.rows]
        methods[label] = TokenMethod(scores, scores.places, points, in_others)
    return methods
