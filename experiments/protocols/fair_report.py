"""The fair protocol's report: published values, verdicts and a picture of validation curves."""

from __future__ import annotations

import dataclasses
import functools
import shlex
from collections.abc import Collection, Sequence
from typing import ClassVar

from common.data import Dataset
from common.deployment.untrained import UntrainedNetwork
from experiments import reports
from experiments.protocols.report import COMPARED, MethodReport, trained_and_untrained
from experiments.published.values import DISSERTATION, dissertation_value, fair_published
from experiments.reports.choice import StudyChoice, choice_of
from experiments.reports.scores import Scores
from experiments.reports.tables import cell
from experiments.reports.training_effect import training_did_not_help
from experiments.reports.verdicts import HALF_DIGIT, half_effect, published_difference
from experiments.rows.rows import Row, collection_rows
from experiments.settings.config import ExperimentConfig

_UNTRAINED = UntrainedNetwork()  # with what `dml export --backbone=...` takes for missing flags


@dataclasses.dataclass(frozen=True)
class FairReport(MethodReport):
    """One method's runs under the fair protocol, and their report."""

    title: ClassVar[str] = "Fair"
    without: ClassVar[str] = "--fold"
    config: ExperimentConfig
    runs: Sequence[Row]
    repeats: int  # how many repeats a complete study has
    label: str | None = None  # its name in the table; by default the configuration's
    # (table, row label) of the published row for comparison; by default what `fair_published` finds
    printed: tuple[str, str] | None = None
    settings: Collection[str] = ()  # fields with which that row differs from the recipe

    @property
    def name(self) -> str:
        """The method's name in the table."""
        return self.label or self.config.name

    @property
    def column(self) -> str:
        """The name of the columns of single models."""
        return f"single {self.config.embedding_dim}-D"

    def rows(self, reference: MethodReport | None = None, called: str = "") -> list[reports.TableRow]:
        """Build a complete method's row, with its paired MAP@R difference from the `reference`.

        Verdicts are on the figures and, where the thesis has both rows, on the difference.
        """
        if not self.is_complete:
            return []
        cells = {
            (f"{kind} {size}-D", metric): scores.over_collections(metric, self._target(size, metric, reference))
            for kind, (size, scores) in self._scores.items()
            for metric in scores.metrics
        }
        chosen = [self.choice.row(self.name, self.column)] if self.choice else []
        if not isinstance(reference, FairReport):
            return [reports.TableRow(self.name, cells), *chosen]
        for kind, (size, scores) in self._scores.items():
            interval = scores.difference(reference._scores[kind][1], COMPARED)
            printed = self._target_of_difference(size, reference)
            column = f"{kind} minus {called or reference.name}", COMPARED
            cells[column] = cell(interval, printed, is_difference=True, baseline=reference.name)
        return [reports.TableRow(self.name, cells), *chosen]

    @functools.cached_property
    def choice(self) -> StudyChoice | None:
        """Choice of validation, if all runs have measured the way to their weights."""
        return choice_of(self.counted, self.config.num_folds) if self.is_complete else None

    def first_sentences(self) -> list[str]:
        """Say what was chosen, and why."""
        return [f"{self.name}: {self.choice.sentence}"] if self.choice else []

    def explanations(self) -> list[str]:
        """Repeat the choice below the table in files."""
        return self.first_sentences()

    def _target(self, size: int, metric: str, reference: MethodReport | None) -> reports.Target:
        """Return the printed cell; its margin is half the effect on `reference`."""
        published = self.published(metric, size)
        margin = half_effect(published, reference.published(metric, size) if reference else None)
        error = reports.error_of_collections(published.std) if published else None
        return reports.Target(published, margin, tuple(self._reasons(published)), error)

    def _target_of_difference(self, size: int, reference: FairReport) -> reports.Target | None:
        """Return the printed difference of two rows, if both are printed."""
        own, other = self.published(COMPARED, size), reference.published(COMPARED, size)
        published = published_difference(own, other)
        if published is None:
            return None
        reasons = tuple(dict.fromkeys([*self._reasons(own), *reference._reasons(other)]))
        error = reports.error_of_collections(published.std)
        return reports.Target(published, half_effect(own, other), reasons, error, rounding=2 * HALF_DIGIT)

    def _reasons(self, published: reports.PublishedValue | None) -> list[str]:
        """List why a printed row cannot be compared.

        The row's own settings, and parts of GSP, may depart from the recipe.
        """
        parts = {"zero_shot_weight": 0, "transport_ratio": 1}
        row = {*self.settings, *(name for name, value in parts.items() if getattr(self.config, name) == value)}
        return self.reasons(published, reports.conditions_of(published) if published else {}, row)

    def published(self, metric: str, size: int | None = None) -> reports.PublishedValue | None:
        """Return the printed cell for embeddings of a size; None: of the single models."""
        size = size or self.config.embedding_dim
        config = self.config
        if self.printed is not None:
            table, row = self.printed
            if table.startswith(DISSERTATION):
                is_single = size == config.embedding_dim
                return dissertation_value(table, config.dataset, row, metric) if is_single else None
            return reports.published_value(table, config.dataset, row, size, metric)
        averages = config.pooling == "gsp" and config.transport_ratio == 1
        method = (config.loss, "gap" if averages else config.pooling, config.method)
        zero_shot = bool(config.zero_shot_weight)
        return fair_published(config.dataset, *method, size, metric, chapter=config.chapter, zero_shot=zero_shot)

    @functools.cached_property
    def _scores(self) -> dict[str, tuple[int, Scores]]:
        """Sizes and scores of the runs and of the concatenated models."""
        runs = self.counted
        dim, folds = self.config.embedding_dim, self.config.num_folds
        return {"single": (dim, Scores(runs)), "concatenated": (dim * folds, Scores(collection_rows(runs, folds)))}


def export_advice(methods: Sequence[MethodReport], dataset: Dataset, data_dir: str | None) -> str | None:
    """Name the command that gives the best model, by validation where that has chosen.

    Otherwise the better of trained and untrained by test MAP@R, of the method with the highest mean of single
    models; without a complete method with untrained figures, None. A network with random weights, or of other data than
    colour photos, has no use without training.
    """
    complete = [method for method in methods if isinstance(method, FairReport) and method.is_complete]
    chosen = [(method.choice, method) for method in complete if method.choice]
    if chosen:
        choice, best = max(chosen, key=lambda pair: pair[0].validation)
        of_several = ", whose MAP@R on validation classes is highest, by whatever margin" if len(chosen) > 1 else ""
        said, stays = f"To make the chosen model of {best.name}{of_several}:", choice.candidate.is_untrained
        run = next(row.folder.parent for row in best.runs if row.is_finished)
        command = ["dml", "train_final", f"--run={run}"]
    else:
        found = [(means, method) for method in complete if (means := trained_and_untrained(method.runs))]
        if not found:
            return None
        (trained, untrained), best = max(found, key=lambda pair: pair[0][0])
        stays = training_did_not_help(trained, untrained) is not None
        said = (
            f"MAP@R {100 * trained:.2f} trained ({best.name}), {100 * untrained:.2f} untrained. To export the better:"
        )
        run = next(row.folder for row in best.runs if row.is_finished)
        command = ["dml", "export", f"--run={run}"]
    config = best.config
    command += [f"--data_dir={data_dir}"] if data_dir else []
    is_exportable = config.weights != "none" and dataset.kind == "image_files" and dataset.channels == 3
    if stays and is_exportable:
        names = ["weights", "image_size", "output_stride", *(["pooling"] if chosen else [])]
        stated = {name: getattr(config, name) for name in names if getattr(config, name) != getattr(_UNTRAINED, name)}
        flags = {"backbone": config.backbone, **stated}
        command = ["dml", "export", *(f"--{name}={value}" for name, value in flags.items())]
    command += [] if command[1] == "train_final" else ["--output=exported/model.keras"]
    return f"{said}\n{shlex.join(command)}"
