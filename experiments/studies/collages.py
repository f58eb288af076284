"""Collages of a relevant image and three distractors: average pooling and GSP.

Regenerates: thesis figure 5.5 (Cifar Collage: bars of MAP@R for GAP, GSP, GSP + L_ZS and distilled data), on glyphs.
Expected: thesis section 6.2: 17 points of MAP@R above GAP on Cifar Collage; the bars themselves are not printed. It
    starts from a CIFAR-100 classifier; we chose the other two starts and the number of seeds.
"""

from __future__ import annotations

import dataclasses
import itertools
import pathlib
from collections.abc import Sequence

import numpy as np

from common import backbones, data
from common.errors import InvalidInput, check_choice, check_given
from experiments import reports
from experiments.parts.datasets import traits_of
from experiments.plans.study import Cell, FinishedCells, Study, StudyOptions
from experiments.plans.study_runs import NothingFinished, StudyRuns
from experiments.protocols.extras import target_share_extras
from experiments.protocols.fair import Protocol
from experiments.protocols.fair_report import FairReport
from experiments.recipes import resolve
from experiments.recipes.small_images import COLLAGE_GSP
from experiments.reports.scores import figures_row, labels_of, scores_of_trainings
from experiments.reports.tables import cell, figures_table
from experiments.rows.rows import Row
from experiments.rows.store import StudyRows
from experiments.runs.trained_model import load_trained_model
from experiments.settings import build
from experiments.settings.config import ExperimentConfig

GLYPHS = "glyph_collage"
CIFAR_COLLAGES = ("cifar_collage", "cifar_collage_published_code", "cifar10_collage")
COLLAGES = (GLYPHS, *CIFAR_COLLAGES)
METHODS = {  # name: what follows the data set's name, pooling, whether the zero-shot prediction loss trains attributes
    "gap": ("", "gap", False),
    "gsp": ("", "gsp", False),
    "gsp + L_ZS": ("", "gsp", True),
    "gap, distilled": ("_distilled", "gap", False),
}
PRINTED_GAIN = 17.0  # points of MAP@R on Cifar Collage
STARTS = ("scratch", "pretrained", "frozen")
DEMO = {"max_steps": 600, "steps_per_evaluation": 200}
# What was found to work, every one of them a flag; collages of photographs keep the recipe's values, as printed.
SCRATCH_SETTINGS = {"gsp_memory_delay": 200}  # until then features mean nothing, and all prototypes would be alike
FROZEN_SETTINGS = {"frozen_backbone": True, "learning_rate": 1e-3}
GLYPH_PRETRAINED_SETTINGS = {"learning_rate": 3e-4, "frozen_batch_norm": True}  # 1e-3 destroys what glyphs taught
PRETRAINING = {"loss": "pnca", "pooling": "gap"}
_ON_TARGET = {"weight_on_target": "weight", "norm_on_target": "weighted norm"}  # recorded share: column


class Collages(Study):
    """Methods from each start; glyphs pre-train a network of their own, once."""

    def __init__(self, options: StudyOptions):
        check_choice("--dataset", options.dataset, COLLAGES)
        self.keep, self._options, self._weights = self._measured, options, options.overrides.get("weights")
        self._starts = starts_of(options.dataset, self._weights, options.starts)
        self.variants = (f"{options.dataset}_distilled",)
        self.groups = self._cells(self._starts, self._weights or "none")  # "none" until `prepared` knows a file
        self.num_cells = sum(map(len, self.groups.values()))
        self.title = f"Collages on {options.dataset} (thesis figure 5.5)"
        self.notes = (*start_notes(options.dataset, self._weights), *options.budget_notes("short runs"))

    def _cells(self, starts: Sequence[str], weights: str) -> dict[str, list[Cell]]:
        cells = {}
        for start, loss, method in itertools.product(starts, self._options.losses or ("pnca",), METHODS):
            label = f"{start}: {loss} {method}"
            config = _configuration(self._options, loss, method, start, weights)
            cells[label] = self._options.cells(label, config, one_split=True)
        return cells

    def prepared(self, runs: StudyRuns | NothingFinished, *, train: bool) -> Study:
        """Find or train the glyphs' network; without it, only cells from scratch are known."""
        if self._weights is None and set(self._starts) - {"scratch"}:
            weights = None
            if isinstance(runs, StudyRuns):
                weights = pretrained_backbone(self._options, runs, train=train)
            starts = [start for start in self._starts if weights or start == "scratch"]
            self.groups = self._cells(starts, weights or "none")
        return self

    def _measured(self, place: int, group: str, rows: list[Row], finished: FinishedCells) -> list[Row]:
        """Name a method's rows, and measure their weight on the target."""

        def dataset_of(row: Row) -> data.Dataset:
            return check_given("dataset", finished.dataset_of(row["dataset"]))

        return [target_share_extras(row.named(group, {}), dataset_of) for row in rows]

    def render(self, finished: FinishedCells, folder: pathlib.Path, name: str) -> str:
        """Write the table of finished runs."""
        rows = collage_rows(self.recorded(finished))
        return figures_table(rows, self.title, [*gain_sentences(rows), *self.notes]).write(folder, name)


def gain_sentences(rows: list[reports.TableRow]) -> list[str]:
    """Describe each row's gain over average pooling, beside the printed one."""
    gains = {row.method: gain for row in rows if (gain := row["minus gap", "MAP@R"].bounds)}
    return [
        f"{method} over gap. {reports.gain_verdict(gain, PRINTED_GAIN)[1]}"
        for method, gain in gains.items()
        if "gsp" in method
    ]


def starts_of(dataset: str, weights: str | None, chosen: Sequence[str] | None = None) -> list[str]:
    """Return the chosen starts, or all possible ones.

    Args:
        weights: an .npz file with a backbone, if there is one; glyphs pre-train their own.
        chosen: of `STARTS`; None: all possible ones.
    """
    for start in chosen or ():
        check_choice("--starts", start, STARTS)
    has_backbone = dataset == GLYPHS or weights
    starts = list(chosen or [start for start in STARTS if start == "scratch" or has_backbone])
    if not has_backbone and set(starts) - {"scratch"}:
        raise InvalidInput(
            f"--starts={','.join(starts)} with --dataset={dataset} needs a backbone: give --weights=FILE.npz "
            "(`python -m experiments.pretrain` writes one), or --starts=scratch."
        )
    return starts


def start_notes(dataset: str, weights: str | None) -> list[str]:
    """Return a note if collages of photographs train from scratch."""
    if traits_of(dataset).kind != "thumbnails" or weights not in (None, "none"):
        return []
    return [
        "Trained from scratch: the thesis starts from a CIFAR-100 classifier (`python -m experiments.pretrain "
        "--dataset=cifar100 --backbone=resnet20` makes one; then --weights=FILE.npz)."
    ]


def collage_rows(study: StudyRows) -> list[reports.TableRow]:
    """Return the rows of figure 5.5.

    Gains are those over GAP of the same start and loss.
    """
    scores = {label: scores_of_trainings(study, label) for label in labels_of(study)}
    rows = []
    for label, of_method in scores.items():
        average = " ".join([*label.split(" ")[:2], "gap"])  # `start: loss gap`
        row = figures_row(scores, label, {} if label == average else {"minus gap": average})
        kept = [share for of_run in of_method.rows if (share := of_run["extras"].get("target_shares"))]
        on_target = {
            ("on target:", column): cell(float(np.mean([share[key] for share in kept])))
            for key, column in _ON_TARGET.items()
            if kept
        }
        rows.append(reports.TableRow(label, {**row.cells, **on_target}))
    return rows


def _configuration(options: StudyOptions, loss: str, method: str, start: str, weights: str) -> ExperimentConfig:
    suffix, pooling, zero_shot = METHODS[method]
    settings = {**(DEMO if options.budget == "demo" else {}), **start_settings(options.dataset, start, weights)}
    given = {name: value for name, value in options.overrides.items() if name != "weights"}
    given |= {} if zero_shot else {"zero_shot_weight": 0.0}
    of_data = dataclasses.replace(options, dataset=options.dataset + suffix, overrides=given)
    return of_data.with_pooling(pooling).configuration(loss, settings={"chapter": 5, **settings})


def start_settings(dataset: str, start: str, weights: str) -> dict[str, object]:
    """Return the study's own fields; glyphs have more of them than photographs."""
    settings = dict(COLLAGE_GSP) if dataset == GLYPHS else {}
    if start == "scratch":
        return settings | SCRATCH_SETTINGS
    settings |= {**(GLYPH_PRETRAINED_SETTINGS if dataset == GLYPHS else {}), "weights": weights}
    return settings | (FROZEN_SETTINGS if start == "frozen" else {})


def pretrained_backbone(options: StudyOptions, runs: StudyRuns, *, train: bool) -> str | None:
    """Return a backbone file, trained on single glyphs without validation and test letters.

    None without `train` if it is not yet trained.
    """
    method_of = {**PRETRAINING, "recipe": options.recipe, "budget": options.budget}
    config = resolve("glyphs", **method_of, overrides={"chapter": 5})
    glyphs = build.load_dataset("glyphs", None, runs.cache_dir, config.seed)
    dataset = without_unseen_letters(glyphs, runs.dataset)
    protocol = Protocol(FairReport, dataset, [(config,)], runs.places, repeats=1)  # shared with `fair_eval`
    if train:
        protocol.run(fold=0)
    runs_of_glyphs = protocol.finished(protocol.methods(), fold=0)
    if not runs_of_glyphs:
        return None
    path = runs_of_glyphs[0].folder / "backbone.npz"
    if not path.exists():
        backbones.save_parameters(load_trained_model(path.parent, dataset=dataset).model.backbone, path)
    return str(path)


def without_unseen_letters(glyphs: data.Dataset, collages: data.Dataset) -> data.Dataset:
    """Drop from the training glyphs the collages' validation and test letters."""
    validation = check_given("validation set", collages.validation)
    unseen = {collages.class_names[label] for label in np.unique([*validation.labels, *collages.test.labels])}
    kept = [label for label in range(glyphs.train.num_classes) if glyphs.class_names[label] not in unseen]
    train = glyphs.train.select_classes(np.array(kept))
    names = [glyphs.class_names[label] for label in [*kept, *range(glyphs.train.num_classes, len(glyphs.class_names))]]
    shift = len(kept) - glyphs.train.num_classes
    test = dataclasses.replace(glyphs.test, labels=glyphs.test.labels + shift)
    return dataclasses.replace(glyphs, train=train, test=test, validation=None, class_names=names)
