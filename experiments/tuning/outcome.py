"""Outcome of searches: a table, a recipe and pictures."""

from __future__ import annotations

import dataclasses
import math
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

from common.files import write_json, write_text
from experiments.reports import PlainTable
from experiments.settings.tuned_recipe import TunedRecipe
from experiments.tuning.pictures import draw_history, draw_parameters
from experiments.tuning.search import Search, in_words, was_pruned


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
        for table, name in ((summary, "tuned"), (trials, "trials")):
            for ending, text in {"md": table.as_markdown(), "csv": table.as_csv()}.items():
                write_text(self.folder / f"{name}.{ending}", text)
        draw_history(self.searches, self.folder / "history.png")
        drawn = [draw_parameters(search, self.folder / f"{search.config.name}.png") for search in self.searches]
        lines = [summary.as_text(), f"Trials: {self.folder / 'trials.csv'}; pictures: history.png"]
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

    def _summary(self) -> PlainTable:
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
        return PlainTable(f"Settings of {self.searches[0].config.dataset}", header, lines, tuple(notes))

    def _trials(self) -> PlainTable:
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
        return PlainTable("Trials", ["method", "trial", "settings", "ended", f"validation {metric} (%)", "run"], lines)


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
