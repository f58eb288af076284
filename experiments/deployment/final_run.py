"""One model on all training classes, with the settings and steps that folds chose."""

from __future__ import annotations

import dataclasses
import os
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from common.backbones.initial_weights import is_file, weights_file
from common.backbones.network_names import CHANNELS
from common.data import Dataset
from common.errors import InvalidInput, invalid
from common.retrieval.metrics import TABLE_METRICS
from common.training.method import Final, whole_median
from common.training.trackers import TENSORBOARD, TrackerChoice
from experiments import reports
from experiments.deployment.run_model import RunModel
from experiments.deployment.writing import MODEL, Written, write_run
from experiments.reports.choice import StudyChoice, choice_of
from experiments.reports.scores import Scores
from experiments.reports.tables import FAMILIES_NOTE, bracketed
from experiments.rows.rows import Row, collection_rows
from experiments.rows.run_folders import collect_method, config_of, missing, row_at
from experiments.runs.closed_form import closed_form_dim
from experiments.runs.trained_model import data_of_run, stored_configuration
from experiments.runs.unit_runs import UnitRuns
from experiments.settings.config import ExperimentConfig
from experiments.settings.places import Places
from experiments.settings.run_settings import FINAL, HEAD_STARTS


class FinishedStudy(NamedTuple):
    """All folds of one method under the fair protocol."""

    path: pathlib.Path  # the method's folder, `<runs_dir>/fair/<data set>/<method>-<hash>`
    config: ExperimentConfig  # of the folds; `weights` of a file are its digest
    data: str
    runs: Sequence[Row]  # by fold and repeat

    @property
    def runs_dir(self) -> str:
        """The folder of all results in which this study is."""
        return os.fspath(self.path.parents[2])

    @property
    def selected_steps(self) -> list[int]:
        """Steps of each run's selected weights, by fold and repeat."""
        return [row["best_step"] for row in self.runs]

    @property
    def final(self) -> Final:
        """Choice of the folds for all training classes."""
        period = self.config.steps_per_evaluation
        steps = whole_median(self.selected_steps, period)
        of_methods = (method.final(self.runs, period) for method in self.config.methods)
        return next(filter(None, of_methods), Final(steps, "the median of those that validation chose there", {}))

    @property
    def choice(self) -> StudyChoice | None:
        """The model that validation chose, if the folds measured the way to it."""
        return choice_of(self.runs, self.config.num_folds)


def read_study(path: str | os.PathLike) -> FinishedStudy:
    """Read a finished method folder under the fair protocol."""
    folder = pathlib.Path(path)
    runs = collect_method(folder)
    stated = config_of(runs)
    if not stated:
        fix = "Give the folder of a method, such as runs/fair/glyphs/c2+gap-0123456789."
        raise invalid("--run", received=str(path), expected="a folder with the runs of all folds", fix=fix)
    config = stored_configuration(stated, folder)
    if config.protocol is not None:
        raise invalid("--run", received=f"a run of the protocol {config.protocol}", expected="one of the fair protocol")
    absent = missing(runs, config.num_folds, 1)
    if absent:
        names = ", ".join(str(fold) for fold, _ in absent)
        raise InvalidInput(f"{folder} is not complete: fold {names} has not finished. Finish the study first.")
    return FinishedStudy(folder, config, str(stated.get("data")), [row for row in runs if row.is_finished])


def final_configuration(study: FinishedStudy, weights: str | None) -> ExperimentConfig:
    """Return the folds' settings for all training classes and fixed steps.

    A choice without training takes a single period of steps, whose weights are not kept.
    """
    config, choice = study.config, study.choice
    steps, fixed = config.steps_per_evaluation, dict[str, Any]()
    if choice is None or choice.candidate.share:
        steps, fixed = study.final.steps, dict(study.final.arguments)
    else:
        config = dataclasses.replace(config, rate_drop_step=None, rate_drop_factor=None)
    if choice is not None:
        _, start, share = choice.candidate
        start = config.head_start if start is None else start
        config = dataclasses.replace(config, interpolation=None, kept_share=share, head_start=start)
    if not is_file(config.weights):
        if weights not in (None, config.weights):
            raise invalid("--weights", received=weights, expected=f"{config.weights}, as the folds began with")
        weights = config.weights
    elif weights is None or weights_file(weights).digest != config.weights:
        raise invalid(
            "--weights", received=weights, expected=f"the file that the folds began with ({config.weights[:32]}...)"
        )
    owners = [part for part in config.parts if fixed.keys() <= part.arguments().keys()]
    if fixed and len(owners) != 1:
        raise invalid("Final.arguments", received=", ".join(fixed), expected="settings of its method alone")
    return dataclasses.replace(
        config,
        parts=tuple(part.changed(fixed) if fixed and part in owners else part for part in config.parts),
        protocol=FINAL,
        weights=weights,
        max_steps=steps,
        selection_start=steps - config.steps_per_evaluation,  # take the last weights, regardless of earlier figures
        plateau_patience=0,
    )


def train_final(
    study: FinishedStudy,
    dataset: Dataset,
    config: ExperimentConfig,
    places: Places,
    *,
    checkpoint_seconds: float = 30.0,
    tracker: TrackerChoice = TENSORBOARD,
) -> Written:
    """Train or resume the final model, and write it with its card.

    Refuses other data than the study's, and what `UnitRuns.train` refuses.
    """
    dataset = data_of_run(dataset, places.cache_dir, study.data, os.fspath(study.path))
    channels = CHANNELS.get(config.backbone, config.embedding_dim)
    most = closed_form_dim(config.head_start, config.embedding_dim, channels, len(dataset.train))
    if config.head_start in HEAD_STARTS and not config.kept_share and config.embedding_dim > most:
        # A closed form has fewer components, as in the folds. Its prefixes need no training, which is not kept.
        config = dataclasses.replace(config, embedding_dim=most, matryoshka=None)
    runs = UnitRuns(dataset, places, tracker)
    runs.train(config, 0, 0, checkpoint_seconds)
    run = RunModel(runs.unit_dir(config, 0, 0), dataset, places.cache_dir)
    return write_run(run, "keras", run.path / MODEL, _notes(study, config))


def _notes(study: FinishedStudy, config: ExperimentConfig) -> list[str]:
    steps = ", ".join(f"{step:,}" for step in study.selected_steps)
    choice = study.choice
    if choice and not choice.candidate.share:
        return [f"{choice.sentence} No trained weights are kept."]
    notes = [
        *([choice.sentence] if choice else []),
        f"The settings are those of {len(study.runs)} runs on {config.num_folds} folds of the training classes, and "
        f"{config.max_steps:,} steps are {study.final.chosen} ({steps}). Nothing was chosen "
        "by this run itself: there are no training classes left to validate on.",
    ]
    if study.config.plateau_patience:
        notes.append("The folds halved their learning rate where validation did not improve; this run keeps it.")
    return notes


def comparison(study: FinishedStudy, final: pathlib.Path) -> str:
    """Compare the final model with the folds' repeat 0 on shared queries."""
    runs = [row for row in study.runs if row["repeat"] == 0]
    of_final = Scores([row_at(final)])
    title = f"{study.config.name} on {study.config.dataset}: test set"
    return models_table(title, Scores(runs), Scores(collection_rows(runs, len(runs))), of_final).as_text()


def models_table(title: str, folds: Scores, joined: Scores, final: Scores) -> reports.Table:
    """Build the table of docs/deploy.md, with the first joined and final models."""
    metrics = [metric for metric in TABLE_METRICS if all(metric in of.metrics for of in (folds, joined, final))]
    single = [{metric: folds.class_scores(metric).rows([row]) for metric in metrics} for row in range(len(folds.rows))]
    mean = {metric: folds.class_scores(metric).average() for metric in metrics}
    of_joined, of_final = ({metric: of.class_scores(metric).rows([0]) for metric in metrics} for of in (joined, final))
    dim = folds.rows[0]["configuration"]["embedding_dim"]

    def texts(scores: Mapping[str, reports.ClassScores]) -> list[str]:
        return [
            _text(reports.class_clustered_interval(scores[metric])) if metric in scores else "-"
            for metric in TABLE_METRICS
        ]

    def minus(other: Mapping[str, reports.ClassScores]) -> str:
        return _text(reports.paired_difference(of_final["MAP@R"], other["MAP@R"]), is_difference=True)

    rows = [
        [f"fold {row['fold']}", f"{dim}", f"{row['best_step']:,}", *texts(scores), ""]
        for row, scores in zip(folds.rows, single)
    ]
    rows += [
        [f"mean of the {len(single)} folds", f"{dim}", "", *texts(mean), minus(mean)],
        [f"concatenation of the {len(single)}", f"{dim * len(single)}", "", *texts(of_joined), minus(of_joined)],
        [
            "final, all training classes",
            f"{final.rows[0]['configuration']['embedding_dim']}",
            f"{final.rows[0]['steps']:,}",
            *texts(of_final),
            "",
        ],
    ]
    notes = [
        "95 % intervals for other test classes of the same kind, of these trained networks: how much another training "
        "would differ is not in them.",
        *([FAMILIES_NOTE] if mean["MAP@R"].are_families else []),
    ]
    header = ["model", "dim", "steps", *(f"{metric}, %" for metric in TABLE_METRICS), "final minus it, MAP@R"]
    return reports.Table(title, header, rows, notes)


def _text(interval: reports.Interval, is_difference: bool = False) -> str:
    sign = "+" if is_difference else ""
    return f"{100 * interval.estimate:{sign}.2f} {bracketed(*interval.ends(of_difference=is_difference))}"
