"""Definition of a table or figure: the runs that it needs, and how finished ones become files.

A study is entered in `FIGURES` of `experiments/figure.py` or `TABLES` of `experiments/table.py` as a function from
`StudyOptions` to a `Study`. Everything else (listing, running, resuming, flags) is the same for all.
"""

from __future__ import annotations

import abc
import dataclasses
import hashlib
import itertools
import pathlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from common.data import Dataset
from common.errors import InvalidInput, invalid
from common.files import write_text
from experiments.reports import PlainTable, UnitRun
from experiments.rows.extras import Extras, no_extras
from experiments.settings.config import ExperimentConfig
from experiments.settings.recipes import resolve, unused_overrides


@dataclasses.dataclass(frozen=True)
class Cell:
    """One run that a study needs; a unit of the fair protocol, whose run directory it shares.

    Attributes:
        label: what it is, for people.
        config: the configuration.
        fold, repeat: which unit of it.
    """

    label: str
    config: ExperimentConfig
    fold: int = 0
    repeat: int = 0


class RecordedMethod(NamedTuple):
    """Finished units for the rows of a recorded study.

    Attributes:
        units: of one configuration where there is a label or more to keep.
        label: what their configuration is called in tables; None: what follows from it.
        extras: what its rows keep beside what was measured, JSON values by name.
        measured: what the row of each unit keeps beside, and the arrays that its picture needs.
    """

    units: tuple[UnitRun, ...]
    label: str | None = None
    extras: Mapping[str, object] = {}
    measured: Callable[[UnitRun], Extras] = no_extras


class FinishedCells(Protocol):
    """What has been trained, and on what; `dataset` is None where nothing was loaded."""

    @property
    def dataset(self) -> Dataset | None:
        """What was loaded."""

    @property
    def cache_dir(self) -> str | None:
        """The folder for prepared images, or None for the default."""

    def unit(self, cell: Cell) -> UnitRun | None:
        """The finished unit of a cell, or None."""


class Study(abc.ABC):
    """A table or figure.

    Attributes:
        title: what it is, in one line.
        notes: what a reader must know, such as what a small budget leaves out.
        num_cells: how many runs the complete study has.
        needs_data: whether it reads the data set that the flags name.
        protocol: which runs each configuration has, and how many the thesis has; empty where there is no more to
            say than the cells do.
    """

    title: str
    notes: tuple[str, ...]
    num_cells: int
    needs_data: bool = True
    protocol: str = ""

    @abc.abstractmethod
    def cells(self, finished: FinishedCells) -> list[Cell]:
        """The cells that are known, in the order of running; a search knows its next ones from finished ones alone.

        It must be a pure function of the finished cells, so that a study that was stopped resumes as it would have.
        """

    def recorded(self, finished: FinishedCells) -> list[RecordedMethod]:
        """What `--record` keeps: by default every finished cell."""
        return [RecordedMethod(tuple(finished_units(self.cells(finished), finished)))]

    @abc.abstractmethod
    def render(self, finished: FinishedCells, folder: pathlib.Path, name: str) -> str:
        """Writes `<name>.md`, `.csv`, `.png`, ... of at least one finished cell; returns the text for the terminal."""


@dataclasses.dataclass(frozen=True)
class StudyOptions:
    """What the flags say about a study.

    Attributes:
        dataset, recipe, budget, pooling: as in `ExperimentConfig`.
        losses: losses to study instead of the study's own; empty: its own.
        repeats: runs of each fold, with different seeds.
        fold: which block of classes validates where one does; None: the first.
        monitors: of `experiments.protocols.conventional.MONITORS`, for tables of that protocol; empty: all.
        overrides: configuration fields set by hand; they hold wherever a method has them.
    """

    dataset: str
    budget: str
    recipe: str = "thesis"
    pooling: str = "gap"
    losses: tuple[str, ...] = ()
    repeats: int = 1
    fold: int | None = None
    monitors: tuple[str, ...] = ()
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
        """The configuration of one method.

        Args:
            loss, method: as in `ExperimentConfig`.
            settings: the study's own values; flags win over them, and a method without such a field passes them over.
            protocol: as in `ExperimentConfig`.
            **varied: what the study varies; a flag for the same field is an error.

        Raises:
            InvalidInput: names or values that `resolve` refuses, or a flag for what the study varies.
        """
        clash = sorted(set(varied) & set(self.overrides))
        if clash:
            raise InvalidInput(f"--{clash[0]} is what this study varies by itself. Remove the flag.")
        values = {"chapter": 3, **(settings or {}), **self.overrides, **varied}
        method_of = (self.dataset, loss, self.pooling, self.recipe, self.budget)
        recipe = resolve(*method_of, {"chapter": values["chapter"]}, method, protocol)
        unused = set(unused_overrides(recipe.as_dict(), values)) - set(varied)
        used = {name: value for name, value in values.items() if name not in unused}
        return resolve(*method_of, used, method, protocol)

    def only_loss(self, default: str) -> str:
        """The loss of a study that has one: the one given, or `default`.

        Raises:
            InvalidInput: several were given.
        """
        if len(self.losses) > 1:
            raise invalid("--loss", received=", ".join(self.losses), expected="one loss for this study")
        return self.losses[0] if self.losses else default

    def with_pooling(self, pooling: str) -> StudyOptions:
        """The same options with a pooling that the study chooses.

        Raises:
            InvalidInput: another one than the default was given.
        """
        if self.pooling != "gap":
            raise InvalidInput(f"--pooling={self.pooling} would have no effect: this study has its own. Remove it.")
        return dataclasses.replace(self, pooling=pooling)

    def cells(
        self, label: str, config: ExperimentConfig, *, all_folds: bool = False, one_split: bool = False
    ) -> list[Cell]:
        """All folds and repeats of a configuration; one fold alone below the full budget.

        Args:
            label: of the cells; fold and repeat are added where there are several.
            config: the configuration.
            all_folds: all folds whatever the budget, for studies that concatenate their models.
            one_split: one fold whatever the budget, for studies that tune hyper-parameters.

        Raises:
            InvalidInput: `--fold` is none of the folds, or all of them are trained.
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

    def one_split_protocol(self, num_folds: int, thesis_repeats: int, section: str) -> str:
        """What a study of hyper-parameters trains, beside what the thesis does.

        Args:
            num_folds: blocks of the training classes, of which one validates.
            thesis_repeats: of the thesis.
            section: of the thesis.
        """
        return (
            f"Each configuration: one split (block {(self.fold or 0) + 1} of {num_folds} of the training classes "
            f"validates), {trainings(self.repeats)}; thesis section {section}: one split, {trainings(thesis_repeats)}."
        )

    def digest(self) -> str:
        """Ten hexadecimal digits that differ whenever the options do."""
        values = {**dataclasses.asdict(self), "overrides": sorted(self.overrides.items())}
        rarely_given = {name for name in ("fold", "monitors") if values[name] in (None, ())}
        text = repr(sorted((name, value) for name, value in values.items() if name not in rarely_given))
        return hashlib.sha256(text.encode()).hexdigest()[:10]


def trainings(count: int) -> str:
    """`1 run` or `3 runs`."""
    return f"{count} run" if count == 1 else f"{count} runs"


def finished_units(cells: Sequence[Cell], finished: FinishedCells) -> list[UnitRun]:
    """The finished units among cells, in their order."""
    return [unit for cell in cells if (unit := finished.unit(cell)) is not None]


def best_validation(units: Sequence[UnitRun], metric: str = "MAP@R") -> list[float]:
    """The best validation metric of each unit, as fractions."""
    return [unit.measured["validation"]["best"][metric] for unit in units]


def write_table(table: PlainTable, folder: pathlib.Path, name: str, *, latex: bool = False) -> str:
    """Writes `<name>.md`, `<name>.csv` and, if wanted, `<name>.tex`; returns the text for the terminal."""
    renderings = {"md": table.as_markdown(), "csv": table.as_csv(), **({"tex": table.as_latex()} if latex else {})}
    for ending, text in renderings.items():
        write_text(folder / f"{name}.{ending}", text)
    return table.as_text()
