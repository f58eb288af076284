"""One model on all training classes, with the settings and steps that folds chose."""

from __future__ import annotations

import dataclasses
import math
import os
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ccp_dml.projection_problem import CONVERGED
from common.backbones.initial_weights import is_file, weights_file
from common.data import Dataset
from common.errors import InvalidInput, invalid
from common.retrieval.metrics import TABLE_METRICS
from common.training.trackers import TENSORBOARD, TrackerChoice
from experiments import reports
from experiments.deployment.run_model import RunModel
from experiments.deployment.writing import MODEL, Written, write_run
from experiments.parts.registry import METHODS
from experiments.reports.scores import Scores
from experiments.reports.tables import FAMILIES_NOTE, bracketed
from experiments.rows.rows import collection_rows
from experiments.runs.trained_model import data_of_run, stored_configuration
from experiments.runs.unit_runs import UnitRuns
from experiments.settings.config import ExperimentConfig
from experiments.settings.places import Places
from experiments.settings.run_settings import FINAL


class FinishedStudy(NamedTuple):
    """All folds of one method under the fair protocol."""

    path: pathlib.Path  # the method's folder, `<runs_dir>/fair/<data set>/<method>-<hash>`
    config: ExperimentConfig  # of the folds; `weights` of a file are its digest
    data: str
    units: Mapping[tuple[int, int], reports.UnitRun]

    @property
    def runs_dir(self) -> str:
        """The folder of all results in which this study is."""
        return os.fspath(self.path.parents[2])

    @property
    def selected_steps(self) -> list[int]:
        """Steps of each unit's selected weights, by fold and repeat."""
        return [int(unit.measured["validation"]["best"]["step"]) for _, unit in sorted(self.units.items())]

    @property
    def final_steps(self) -> int:
        """The median of these steps, rounded up to whole validations."""
        return self._rounded_median(self.selected_steps)

    def final_projections(self) -> dict[str, int]:
        """Return CCP's start, number of problems and their steps: medians of the units.

        Only steps that led to the selected weights count: not those after a problem's best, nor a problem that went
        back.
        """
        found = [_projections_of(unit.measured, self.config) for _, unit in sorted(self.units.items())]
        starts, lengths = zip(*found)
        if not any(lengths):
            raise invalid("--run", received="CCP whose problems led to no selected weights", expected="one that helped")
        return {
            "ccp_start": self._rounded_median(starts),
            "ccp_problem_steps": self._rounded_median([np.mean(each) for each in lengths if each]),
            "ccp_max_problems": max(1, math.ceil(np.median([len(each) for each in lengths]))),
        }

    def _rounded_median(self, steps: Sequence[float]) -> int:
        period = self.config.steps_per_evaluation
        return int(-(-np.median(steps) // period) * period)


def read_study(path: str | os.PathLike) -> FinishedStudy:
    """Read a finished method folder under the fair protocol."""
    folder = pathlib.Path(path)
    runs = reports.collect_method(folder)
    if not runs.config:
        fix = "Give the folder of a method, such as runs/fair/glyphs/c2+gap-0123456789."
        raise invalid("--run", received=str(path), expected="a folder with the runs of all folds", fix=fix)
    config = stored_configuration(runs.config, folder)
    if config.protocol is not None:
        raise invalid("--run", received=f"a run of the protocol {config.protocol}", expected="one of the fair protocol")
    missing = runs.missing(config.num_folds, 1)
    if missing:
        names = ", ".join(str(fold) for fold, _ in missing)
        raise InvalidInput(f"{folder} is not complete: fold {names} has not finished. Finish the study first.")
    return FinishedStudy(folder, config, str(runs.config.get("data")), runs.finished)


def _projections_of(measured: Mapping[str, Any], config: ExperimentConfig) -> tuple[int, list[int]]:
    """Return a unit's best step before the first problem, and each problem's useful steps."""
    problems, selected = measured["problems"], int(measured["validation"]["best"]["step"])
    if not problems:
        return selected, []
    period = config.steps_per_evaluation
    begun = problems[0]["start_step"]
    start = max(period, begun - config.ccp_start_patience * period) if begun and config.ccp_start_patience else begun
    unused = config.projection_patience * period if config.ccp_continue_from == "best" else 0
    lengths = []
    for problem in problems:
        if selected <= problem["start_step"]:
            break
        if selected <= problem["end_step"]:
            lengths.append(selected - problem["start_step"])
        elif problem.get("outcome") in (CONVERGED, None):  # the earliest runs have no outcomes
            lengths.append(max(period, problem["steps"] - unused))
    return start, lengths


def final_configuration(study: FinishedStudy, weights: str | None) -> ExperimentConfig:
    """Return the folds' settings for all training classes and fixed steps."""
    config, steps = study.config, study.final_steps
    if not is_file(config.weights):
        if weights not in (None, config.weights):
            raise invalid("--weights", received=weights, expected=f"{config.weights}, as the folds began with")
        weights = config.weights
    elif weights is None or weights_file(weights).digest != config.weights:
        raise invalid(
            "--weights", received=weights, expected=f"the file that the folds began with ({config.weights[:32]}...)"
        )
    parts = config.parts
    if config.method == "ccp":
        chosen = study.final_projections()
        steps = chosen["ccp_start"] + chosen["ccp_max_problems"] * chosen["ccp_problem_steps"]
        fixed: dict[str, Any] = {**chosen, "ccp_start_patience": None, "ccp_goes_back": False, "ccp_max_failures": None}
        fixed["ccp_continue_from"] = "last"
        parts = tuple(
            dataclasses.replace(part, **fixed) if isinstance(part, METHODS["ccp"].settings) else part for part in parts
        )
    return dataclasses.replace(
        config,
        parts=parts,
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
    runs = UnitRuns(dataset, places, tracker)
    runs.train(config, 0, 0, checkpoint_seconds)
    run = RunModel(runs.unit_dir(config, 0, 0), dataset, places.cache_dir)
    return write_run(run, "keras", run.path / MODEL, _notes(study, config))


def _notes(study: FinishedStudy, config: ExperimentConfig) -> list[str]:
    steps = ", ".join(f"{step:,}" for step in study.selected_steps)
    which = "the median of those that validation chose there"
    if config.method == "ccp":
        which = (
            f"{config.ccp_start:,} of the in-batch loss and {config.ccp_max_problems} problems of "
            f"{config.ccp_problem_steps:,}, medians of the steps that led to the weights that validation chose there"
        )
    notes = [
        f"The settings are those of {len(study.units)} runs on {config.num_folds} folds of the training classes, and "
        f"{config.max_steps:,} steps are {which} ({steps}). Nothing was chosen "
        "by this run itself: there are no training classes left to validate on."
    ]
    if study.config.plateau_patience:
        notes.append("The folds halved their learning rate where validation did not improve; this run keeps it.")
    return notes


def comparison(study: FinishedStudy, final: pathlib.Path) -> str:
    """Compare the final model with the folds' repeat 0 on shared queries."""
    units = [study.units[fold, 0] for fold in range(study.config.num_folds)]
    of_final = Scores.of_runs([reports.collect_method(final.parent).finished[0, 0]])
    title = f"{study.config.name} on {study.config.dataset}: test set"
    return models_table(title, Scores.of_runs(units), Scores(collection_rows(units, len(units))), of_final).as_text()


def models_table(title: str, folds: Scores, joined: Scores, final: Scores) -> reports.PlainTable:
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
        ["final, all training classes", f"{dim}", f"{final.rows[0]['steps']:,}", *texts(of_final), ""],
    ]
    notes = [
        "95 % intervals for other test classes of the same kind, of these trained networks: how much another training "
        "would differ is not in them.",
        *([FAMILIES_NOTE] if mean["MAP@R"].are_families else []),
    ]
    header = ["model", "dim", "steps", *(f"{metric}, %" for metric in TABLE_METRICS), "final minus it, MAP@R"]
    return reports.PlainTable(title, header, rows, notes)


def _text(interval: reports.Interval, is_difference: bool = False) -> str:
    sign = "+" if is_difference else ""
    return f"{100 * interval.estimate:{sign}.2f} {bracketed(*interval.ends(of_difference=is_difference))}"
