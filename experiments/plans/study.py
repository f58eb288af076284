"""Definition of a table or figure: its runs, and its files from finished ones.

A study is entered in `FIGURES` of `experiments/figure.py` or `TABLES` of `experiments/table.py` as a function from
`StudyOptions` to a `Study`. Everything else (listing, running, resuming, flags) is the same for all.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import itertools
import pathlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from common.data import Dataset
from common.errors import InvalidInput, invalid
from experiments.recipes import resolve, unused_overrides
from experiments.recipes.tuned_recipe import named_and_tuned
from experiments.reports.plain_tables import Table
from experiments.rows.rows import Row
from experiments.rows.store import StudyRows
from experiments.settings.config import ExperimentConfig
from experiments.settings.method_names import parse_method


@dataclasses.dataclass(frozen=True)
class Cell:
    """Run of a study: a unit of the fair protocol, with its run directory."""

    label: str
    config: ExperimentConfig
    fold: int = 0
    repeat: int = 0


class FinishedCells(Protocol):
    """Trained cells and their data; `dataset` is None if none was loaded."""

    @property
    def dataset(self) -> Dataset | None:
        """The loaded data set."""

    @property
    def cache_dir(self) -> str | None:
        """The folder for prepared images, or None for the default."""

    def row(self, cell: Cell) -> Row | None:
        """Return the row of a finished cell, or None."""

    def dataset_of(self, name: str) -> Dataset | None:
        """Return the loaded data set of this name: a variant, or `dataset`."""


@dataclasses.dataclass(eq=False)
class Study:
    """Table or figure: its cells, with the table and the pictures of their rows.

    A study that needs more than that is a subclass.

    Attributes:
        title: in one line.
        groups: all cells, by row, point or method, if no result decides on them.
        tabulate: makes the table of recorded rows, from these, the title and the notes.
        pictures: draw recorded rows, by the end of the picture's name; from these, the path and the title.
        notes: for the reader, such as the reductions of a small budget.
        keep: names a group's rows, and measures what the study shows; from its place, the group and its scored rows.
        protocol: runs of each configuration here and in the thesis; empty if the cells already show them.
        needs_data: whether it reads the data set of the flags.
        variants: other data sets that cells use, beside the one of the flags.
    """

    title: str
    groups: Mapping[Any, Sequence[Cell]]
    tabulate: Callable[[StudyRows, str, Sequence[str]], Table]
    pictures: Mapping[str, Callable[[StudyRows, pathlib.Path, str], None]]
    notes: tuple[str, ...] = ()
    keep: Callable[[int, Any, list[Row], FinishedCells], list[Row]] | None = None
    protocol: str = ""
    needs_data: bool = True
    variants: Sequence[str] = ()

    def prepared(self, runs: Any, *, train: bool) -> Study:
        """Return this study with what its cells begin with: found among `runs`, or trained."""
        return self

    @functools.cached_property
    def num_cells(self) -> int:
        """The number of runs of the complete study."""
        return sum(map(len, self.groups.values()))

    def cells(self, finished: FinishedCells) -> list[Cell]:
        """Return the known cells, in the order of running: those of all groups.

        A search derives its next cells from finished ones alone. This must be a pure function of the finished cells, so
        that a stopped study resumes identically.
        """
        return [cell for cells in self.groups.values() for cell in cells]

    def recorded(self, finished: FinishedCells) -> StudyRows:
        """Return the rows of the finished cells, as `--record` keeps them."""
        rows = []
        for place, (group, cells) in enumerate(self.groups.items()):
            of_group = [row.scored() for row in finished_rows(cells, finished)]
            rows += self.keep(place, group, of_group, finished) if self.keep else of_group
        return StudyRows.of_rows(rows)

    def render(self, finished: FinishedCells, folder: pathlib.Path, name: str) -> str:
        """Write `<name>.md`, `.csv`, `.png`, ... of finished cells (>= 1); return terminal text."""
        study = self.recorded(finished)
        text = self.tabulate(study, self.title, self.notes).write(folder, name)
        paths = [folder / f"{name}{ending}.png" for ending in self.pictures]
        for path, draw in zip(paths, self.pictures.values()):
            draw(study, path, self.title)
        return f"{text}Figure{'s' * (len(paths) > 1)}: {', '.join(map(str, paths))}"


@dataclasses.dataclass(frozen=True)
class StudyOptions:
    """Options of a study, from the flags.

    Attributes:
        dataset, recipe, budget, pooling: as in `ExperimentConfig`.
        losses: replace the study's own losses; empty: its own.
        repeats: runs of each fold, with different seeds.
        fold: the validating block of classes, if one validates; None: the first.
        monitors: of `experiments.protocols.conventional.MONITORS`, for tables of that protocol; empty: all.
        starts: where the networks of figure 5.5 start; empty: everywhere.
        overrides: configuration fields set by hand; they hold for all methods with such fields.
    """

    dataset: str
    budget: str
    recipe: str = "thesis"
    pooling: str = "gap"
    losses: tuple[str, ...] = ()
    repeats: int = 1
    fold: int | None = None
    monitors: tuple[str, ...] = ()
    starts: tuple[str, ...] = ()
    overrides: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def configuration(
        self,
        loss: str,
        method: str = "plain",
        *,
        settings: Mapping[str, Any] | None = None,
        protocol: str | None = None,
        **varied,
    ) -> ExperimentConfig:
        """Return the configuration of one method.

        Args:
            settings: the study's own values; flags override them, and methods without such a field ignore them.
            **varied: fields that the study varies; a flag for the same field is an error.
        """
        clash = sorted(set(varied) & set(self.overrides))
        if clash:
            raise InvalidInput(f"--{clash[0]} is what this study varies by itself. Remove the flag.")
        named, _, tuned = named_and_tuned(self.recipe, loss, method, self.pooling)
        if hidden := sorted(tuned.keys() & {**(settings or {}), **varied}.keys()):
            received = f"{self.recipe}, which sets {', '.join(hidden)}"
            raise invalid("--recipe", received=received, expected=f"{named}, since this study sets that by itself")
        values = {"chapter": 3, **(settings or {}), **self.overrides, **varied}
        method_of = (self.dataset, loss, self.pooling, self.recipe, self.budget)
        recipe = resolve(*method_of, {"chapter": values["chapter"]}, method, protocol)
        unused = set(unused_overrides(recipe.as_dict(), values)) - set(varied)
        used = {name: value for name, value in values.items() if name not in unused}
        return resolve(*method_of, used, method, protocol)

    def of_method(self, name: str, **given: Any) -> ExperimentConfig:
        """Return a method's `configuration` by its name in reports."""
        loss, method, pooling = parse_method(name)
        return self.with_pooling(pooling).configuration(loss, method, **given)

    def only_loss(self, default: str) -> str:
        """Return the loss of a study of one loss: the one given, or `default`."""
        if len(self.losses) > 1:
            raise invalid("--loss", received=", ".join(self.losses), expected="one loss for this study")
        return self.losses[0] if self.losses else default

    def with_pooling(self, pooling: str) -> StudyOptions:
        """Return these options with the study's pooling; `--pooling` may not be given."""
        if self.pooling != "gap":
            raise InvalidInput(f"--pooling={self.pooling} would have no effect: this study has its own. Remove it.")
        return dataclasses.replace(self, pooling=pooling)

    def cells(
        self, label: str, config: ExperimentConfig, *, all_folds: bool = False, one_split: bool = False
    ) -> list[Cell]:
        """List a configuration's folds and repeats; one fold below the full budget.

        Args:
            label: fold and repeat are added if there are several.
            all_folds: at any budget, for studies that concatenate their models.
            one_split: one fold at any budget, for studies that tune hyper-parameters.
        """
        several_folds = all_folds or (self.budget == "full" and not one_split)
        folds = range(config.num_folds) if several_folds else [self.fold or 0]
        if self.fold is not None and several_folds:
            raise InvalidInput("--fold would have no effect: this study trains every fold. Remove it.")
        if folds[-1] >= config.num_folds:
            raise invalid("--fold", received=self.fold, expected=f"a number from 0 to {config.num_folds - 1}")
        several = len(folds) > 1 or self.repeats > 1
        return [
            Cell(f"{label}, fold {fold}, repeat {repeat}" if several else label, config, fold, repeat)
            for fold, repeat in itertools.product(folds, range(self.repeats))
        ]

    def budget_notes(self, reductions: str) -> tuple[str, ...]:
        """Describe the reductions of a small budget."""
        if self.budget == "full":
            return ()
        return (f"Budget {self.budget}: {reductions}. It shows a direction, not the thesis' figures.",)

    def one_split_protocol(self, num_folds: int, thesis_repeats: int, section: str) -> str:
        """Describe a hyper-parameter study's runs beside the thesis' repeats."""
        return (
            f"Each configuration: one split (block {(self.fold or 0) + 1} of {num_folds} of the training classes "
            f"validates), {trainings(self.repeats)}; thesis section {section}: one split, {trainings(thesis_repeats)}."
        )

    def digest(self) -> str:
        """Return ten hexadecimal digits that identify the options."""
        values = {**dataclasses.asdict(self), "overrides": sorted(self.overrides.items())}
        rarely_given = {name for name in ("fold", "monitors", "starts") if values[name] in (None, ())}
        text = repr(sorted((name, value) for name, value in values.items() if name not in rarely_given))
        return hashlib.sha256(text.encode()).hexdigest()[:10]


Studies = Mapping[str, Callable[[StudyOptions], Study]]  # by number in the thesis, or name


def trainings(count: int) -> str:
    """Format a count as `1 run` or `3 runs`."""
    return f"{count} run" if count == 1 else f"{count} runs"


def finished_rows(cells: Sequence[Cell], finished: FinishedCells) -> list[Row]:
    """Return the rows of the finished cells, in their order."""
    return [row for cell in cells if (row := finished.row(cell)) is not None]


def best_validation(rows: Sequence[Row], metric: str = "MAP@R") -> list[float]:
    """Return the best validation metric of each run, as fractions."""
    return [row["validation"][metric] for row in rows]
