"""Collages: methods, starting networks and table rows of thesis figure 5.5."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence

import numpy as np

from common import backbones, data
from common.errors import InvalidInput, check_choice, check_given
from experiments import reports
from experiments.parts.datasets import traits_of
from experiments.plans.study import StudyOptions
from experiments.protocols.extras import target_share_extras
from experiments.protocols.fair import trained_units
from experiments.reports.scores import figures_row, labels_of, scores_of_trainings
from experiments.reports.tables import cell
from experiments.rows.store import RecordedMethod, StudyRows
from experiments.runs.trained_model import load_trained_model
from experiments.settings import build
from experiments.settings.config import ExperimentConfig
from experiments.settings.places import Places
from experiments.settings.recipes import resolve
from experiments.settings.recipes.small_images import COLLAGE_GSP

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
Trained = Callable[[data.Dataset, list[ExperimentConfig]], list[list[reports.UnitRun]]]  # `trained_units`


def gain_sentences(rows: list[reports.TableRow]) -> list[str]:
    """Describe each row's gain over average pooling, beside the printed one."""
    gains = {row.method: gain.bounds for row in rows if (gain := row.cells.get(("minus gap", "MAP@R")))}
    return [
        f"{method} over gap. {reports.gain_verdict(check_given('interval', gain), PRINTED_GAIN)[1]}"
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


def trained_methods(
    options: StudyOptions, trained: Trained, datasets: dict, loss: str, start: str, weights: str
) -> list[RecordedMethod]:
    """Return finished runs of one start and loss, with target shares."""
    methods = []
    measured = functools.partial(
        target_share_extras, dataset_of=lambda unit: datasets[unit.config["dataset"].removeprefix(options.dataset)]
    )
    for method, (suffix, pooling, zero_shot) in METHODS.items():
        config = _configuration(options, suffix, loss, pooling, zero_shot, start, weights)
        (units,) = trained(datasets[suffix], [config])
        methods += [RecordedMethod(units, f"{start}: {loss} {method}", {}, measured)] if units else []
    return methods


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


def _configuration(
    options: StudyOptions, suffix: str, loss: str, pooling: str, zero_shot: bool, start: str, weights: str
) -> ExperimentConfig:
    settings = {**(DEMO if options.budget == "demo" else {}), **start_settings(options.dataset, start, weights)}
    given = {name: value for name, value in options.overrides.items() if name != "weights"}
    given |= {} if zero_shot else {"zero_shot_weight": 0.0}
    of_method = dataclasses.replace(options, dataset=options.dataset + suffix, pooling=pooling, overrides=given)
    return of_method.configuration(loss, settings={"chapter": 5, **settings})


def start_settings(dataset: str, start: str, weights: str) -> dict[str, object]:
    """Return the study's own fields; glyphs have more of them than photographs."""
    settings = dict(COLLAGE_GSP) if dataset == GLYPHS else {}
    if start == "scratch":
        return settings | SCRATCH_SETTINGS
    settings |= {**(GLYPH_PRETRAINED_SETTINGS if dataset == GLYPHS else {}), "weights": weights}
    return settings | (FROZEN_SETTINGS if start == "frozen" else {})


def pretrained_backbone(options: StudyOptions, places: Places, collages: data.Dataset) -> str:
    """Return a backbone file, trained on single glyphs without validation and test letters."""
    method_of = {**PRETRAINING, "recipe": options.recipe, "budget": options.budget}
    config = resolve("glyphs", **method_of, overrides={"chapter": 5})
    dataset = without_unseen_letters(build.load_dataset("glyphs", None, places.cache_dir, config.seed), collages)
    units = trained_units(dataset, [config], places, repeats=1)[0]
    path = units[0].path / "backbone.npz"
    if not path.exists():
        backbones.save_parameters(load_trained_model(units[0].path, dataset=dataset).model.backbone, path)
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
