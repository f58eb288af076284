"""Outcome of searches: a table, a recipe and pictures."""

from __future__ import annotations

import dataclasses
import itertools
import math
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from common.files import write_json
from experiments.recipes.tuned_recipe import TunedRecipe
from experiments.reports import Table
from experiments.reports.plots import picture
from experiments.tuning.search import Search, in_words, optuna, was_pruned
from experiments.tuning.search_space import Parameter


@dataclasses.dataclass(frozen=True)
class Outcome:
    """The searches of one command."""

    searches: Sequence[Search]
    recipe: str
    trials: int
    folder: pathlib.Path

    def write(self, recipe_file: pathlib.Path) -> str:
        """Write everything atomically; return the text for the terminal."""
        summary, trials = self._summary(), self._trials()
        for table, name in ((summary, "tuned"), (trials, "trials"), (self._best_of(), "best_of")):
            table.write(self.folder, name)
        draw_history(self.searches, self.folder / "history.png")
        drawn = [draw_parameters(search, self.folder / f"{search.config.name}.png") for search in self.searches]
        lines = [
            summary.as_text(),
            f"Trials: {self.folder / 'trials.csv'}; best of k trials: best_of.csv; pictures: history.png",
        ]
        lines[-1] += "".join(f", {path.name}" for path in drawn if path is not None)
        best = {
            search: best
            for search in self.searches
            if (best := search.best()) and len(search.finished()) >= self.trials
        }
        if best:
            write_json(recipe_file, self._recipe(best).as_dict())
            names = ",".join(search.config.name for search in best)
            lines.append(f"Recipe: {recipe_file}. With it: --recipe={recipe_file} --methods={names}")
        return "\n".join(lines)

    def _recipe(self, best: Mapping[Search, Any]) -> TunedRecipe:
        first = next(iter(best))
        found = {
            "dataset": first.config.dataset,
            "trials": self.trials,
            "rules": dataclasses.asdict(first.rules),
            "validation": {search.config.name: trial.value for search, trial in best.items()},
            "spaces": {search.config.name: search.ranges() for search in best},
        }
        return TunedRecipe(self.recipe, {search.config.name: trial.params for search, trial in best.items()}, found)

    def _summary(self) -> Table:
        metric = self.searches[0].config.monitor
        header = ["method", "trials", "pruned", f"recipe's {metric} (%)", f"best {metric} (%)", "settings"]
        lines = []
        for search in self.searches:
            best, ended = search.best(), search.finished()
            recipe = {name: getattr(search.config, name) for name in search.space}
            is_known = ended and not was_pruned(ended[0]) and ended[0].params == recipe
            lines.append(
                [
                    search.config.name,
                    str(len(ended)),
                    str(sum(map(was_pruned, ended))),
                    _percent(ended[0].value if is_known else None),
                    _percent(best.value if best else None),
                    in_words(best.params) if best else "",
                ]
            )
        folds = self.searches[0].rules.folds
        notes = [
            f"Validation classes of the first {'fold' if folds == 1 else f'{folds} folds'}; test classes have no part "
            "in it. The best of several trials is ahead by some luck: compare methods on the test classes, by the "
            "recipe.",
            *(note for search in self.searches for note in _notes(search)),
        ]
        return Table(f"Settings of {self.searches[0].config.dataset}", header, lines, tuple(notes))

    def _trials(self) -> Table:
        metric = self.searches[0].config.monitor
        lines = [
            [
                search.config.name,
                str(trial.number),
                in_words(trial.params),
                _state(trial),
                _percent(trial.value),
                trial.user_attrs.get("run", ""),
            ]
            for search in self.searches
            for trial in search.finished()
        ]
        header = ["method", "trial", "settings", "ended", f"validation {metric} (%)", "run"]
        note = (
            "Complete: the mean over folds of the best validation. Pruned: the last validation, on the fold it was on."
        )
        return Table("Trials", header, lines, (note,))

    def _best_of(self) -> Table:
        curves = {search.config.name: expected_best(search) for search in self.searches}
        numbers = [str(number + 1) for number in range(max(map(len, curves.values())))]
        lines = [[name, *map(_percent, curve), *[""] * (len(numbers) - len(curve))] for name, curve in curves.items()]
        return Table("Expected best validation (%) on the first fold of so many trials", ["method", *numbers], lines)


def expected_best(search: Search) -> list[float]:
    """Return the expected best validation of k trials, by k.

    The ended trials are drawn without replacement. Each counts with its best validation on the first fold, so far as
    it came there.
    """
    values = sorted(map(search.best_of_fold, search.finished()))
    return [
        sum(math.comb(below, k - 1) * value for below, value in enumerate(values)) / math.comb(len(values), k)
        for k in range(1, len(values) + 1)
    ]


def _notes(search: Search) -> list[str]:
    """Return caveats about the best settings."""
    best = search.best()
    edges = [name for name, parameter in search.space.items() if best and parameter.at_edge(best.params[name])]
    note = f"{search.config.name}: the best {', '.join(edges)} lies at an end of its range: widen it."
    return [note] if edges else []


def _state(trial: Any) -> str:
    if "diverged" in trial.user_attrs:
        return "diverged"
    return "pruned" if was_pruned(trial) else "complete"


def _percent(value: float | None) -> str:
    return "" if value is None or math.isnan(value) else f"{100 * value:.2f}"


_STYLES = (("#0072B2", "o"), ("#D55E00", "s"), ("#009E73", "^"), ("#CC79A7", "D"), ("#56B4E9", "v"), ("#E69F00", "P"))
_FEWEST_FOR_IMPORTANCE = 8  # complete trials; fewer are too few for a forest


def draw_history(searches: Sequence[Search], path: pathlib.Path) -> None:
    """Plot validations by trial, and the expected best of k trials."""
    with picture(path, 10.2, 4.2, columns=2) as (_, (axes, of_k)):
        for search, (color, marker) in zip(searches, itertools.cycle(_STYLES)):
            ended = search.finished()
            complete = [(place, 100 * trial.value) for place, trial in enumerate(ended) if not was_pruned(trial)]
            pruned = [(place, 100 * at) for place, trial in enumerate(ended) if (at := _pruned_at(trial)) is not None]
            if complete:
                places, values = zip(*complete)
                axes.scatter(places, values, s=22, color=color, marker=marker, alpha=0.7, linewidths=0)
                best = list(itertools.accumulate(values, max))
                end = (len(ended) - 1, best[-1])
                axes.step([*places, end[0]], [*best, end[1]], where="post", color=color, label=search.config.name)
            if pruned:
                places, values = zip(*pruned)
                axes.scatter(places, values, s=22, color=color, marker="x", linewidths=1, alpha=0.7)
            expected = [100 * value for value in expected_best(search)]
            of_k.plot(range(1, len(expected) + 1), expected, color=color, marker=marker, markersize=4)
        axes.set(xlabel="trial", ylabel=f"validation {searches[0].config.monitor} (%)")
        of_k.set(xlabel="k", title="Expected best of k random ones of these trials, first fold")
        of_k.title.set_fontsize("small")
        for each in (axes, of_k):
            each.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.set_title("Best so far (line); crosses: pruned, at their last validation", fontsize="small")
        if axes.get_legend_handles_labels()[0]:
            of_k.legend(*axes.get_legend_handles_labels(), frameon=False, fontsize="small")  # it has no dots to hide


def draw_parameters(search: Search, path: pathlib.Path) -> pathlib.Path | None:
    """Plot validation by setting; return None before two trials are complete."""
    complete = [trial for trial in search.finished() if not was_pruned(trial)]
    best = search.best()
    if best is None or len(complete) < 2:
        return None
    shares = _importances(search, len(complete))
    with picture(path, 3.4 * len(search.space), 3.4, columns=len(search.space)) as (figure, panels):
        for axes, (name, parameter) in zip(panels, search.space.items()):
            tried = [trial.params[name] for trial in complete]
            names = list(dict.fromkeys([*parameter.choices, *tried])) if parameter.choices else []
            values = [names.index(value) if names else value for value in tried]
            axes.scatter(values, [100 * trial.value for trial in complete], s=26, color="#0072B2", alpha=0.7, lw=0)
            ring = values[[trial.number for trial in complete].index(best.number)], 100 * best.value
            axes.scatter(*ring, s=90, facecolors="none", edgecolors="#D55E00", linewidths=1.5)
            show_range(axes, parameter, names)
            axes.set_xlabel(name + (f"\nimportance {shares[name]:.2f}" if name in shares else ""))
            if axes is not panels[0]:
                axes.sharey(panels[0])
                axes.tick_params(labelleft=False)
        panels[0].set_ylabel(f"validation {search.config.monitor} (%)")
        title = f"{search.config.name} on {search.config.dataset}: {len(complete)} complete trials"
        figure.suptitle(title, fontsize="medium")
    return path


def show_range(axes: Axes, parameter: Parameter, names: Sequence[Any]) -> None:
    """Show a number's range with a margin, or choices side by side."""
    low, high = parameter.low, parameter.high
    if names:
        axes.set_xticks(range(len(names)), [str(name) for name in names])
        axes.set_xlim(-0.5, len(names) - 0.5)
        return
    axes.set_xscale("log" if parameter.log else "linear")
    margin = (high - low) / 20
    axes.set_xlim(*((low / 1.2, high * 1.2) if parameter.log else (low - margin, high + margin)))


def _pruned_at(trial: Any) -> float | None:
    """Return the last validation of a pruned trial, None without any."""
    if not was_pruned(trial) or not trial.intermediate_values:
        return None
    return trial.intermediate_values[max(trial.intermediate_values)]


def _importances(search: Search, num_complete: int) -> dict[str, float]:
    """Return each setting's share of the validation variance (functional ANOVA, random forest)."""
    if num_complete < _FEWEST_FOR_IMPORTANCE or len(search.space) < 2:
        return {}
    evaluator = optuna().importance.FanovaImportanceEvaluator(seed=search.rules.seed)
    return optuna().importance.get_param_importances(search.study, evaluator=evaluator)
