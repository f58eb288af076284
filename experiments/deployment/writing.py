"""Export of a run's model, `model.keras` or another format, with its card."""

from __future__ import annotations

import json
import os
import pathlib
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined, Template

from common import backbones, training
from common.backbones.initial_weights import is_file
from common.commands.plugins import Provider
from common.data import Dataset
from common.errors import InvalidInput, check_choice, check_given, check_positive, invalid
from common.files import read_json, write_text
from common.progress import write_notice
from common.retrieval.metrics import METRICS, TABLE_METRICS
from experiments import reports
from experiments.deployment.run_model import Agreement, RunModel
from experiments.parts.datasets import traits_of
from experiments.reports.scores import Scores
from experiments.reports.training_effect import training_did_not_help
from experiments.rows.run_folders import row_at
from experiments.runs.trained_model import run_configuration
from experiments.settings import build
from experiments.settings.splits import FEWEST_VALIDATION_CLASSES, few_validation_classes

if TYPE_CHECKING:
    from common.deployment.formats import Embed

MODEL = "model.keras"
_NAMES = {
    **{"keras": MODEL, "keras_float16": MODEL},
    **{"savedmodel": "saved_model", "onnx": "model.onnx"},
    **dict.fromkeys(("tflite", "tflite_float16", "tflite_int8"), "model.tflite"),
}
FORMAT_NAMES = tuple(_NAMES)  # of `common.deployment.formats.FORMATS`, without its TensorFlow
_LACKING = {"gemax": "the Cholesky factorisation"}  # operations of poolings that neither TFLite nor ONNX has
_CHECKED_AFTER_TRAINING = 32  # test images
CARD = "README.md"
_FRONT = "---\nlibrary_name: keras\n"  # what every card of ours begins with
_DESCRIBED = "Written as `(.+?)`"
TAGS = ("deep-metric-learning", "image-retrieval", "embeddings")


def export_run(
    run: str | os.PathLike,
    name: str,
    output: str | os.PathLike | None = None,
    *,
    data_dir: str | None = None,
    cache_dir: str | None = None,
    num_checked: int = 256,
) -> Written:
    """Export a finished run with its card, checked against its test embeddings.

    Raises:
        InvalidInput: no finished run, other data, a place that cannot be written to, a format that lacks an operation
            of the run's pooling, or a model that is not the run's.
    """
    check_choice("--format", name, FORMAT_NAMES)
    check_positive("--num_checked", num_checked)
    default = MODEL if name == "keras" else os.path.join(f"export_{name}", _NAMES[name])
    path = pathlib.Path(run, default) if output is None else pathlib.Path(output)
    check_output(path, name)
    config, _ = run_configuration(run)
    check_pooling(name, config.pooling)
    from common.deployment.formats import FORMATS

    dataset = build.load_dataset_of(config, data_dir, cache_dir)
    return write_run(RunModel(run, dataset, cache_dir, num_checked, FORMATS[name].is_rounded), name, path)


def check_output(path: pathlib.Path, name: str) -> None:
    """Raise `InvalidInput` unless a model and its card can be written to `path`."""
    check_choice("--format", name, FORMAT_NAMES)
    ending = pathlib.Path(_NAMES[name]).suffix
    if ending and path.suffix != ending:
        raise invalid("--output", received=str(path), expected=f"a name that ends in {ending}")
    if path.is_dir():
        raise invalid("--output", received=str(path), expected="a place where there is no folder yet")
    check_card(path, name)


def kind_of(name: str) -> str:
    """Return the format without its rounding: "tflite" for "tflite_int8"."""
    return name.partition("_")[0]


def check_pooling(name: str, pooling: str) -> None:
    """Raise `InvalidInput` if the format `name` lacks an operation of a pooling."""
    if kind_of(name) in ("tflite", "onnx") and pooling in _LACKING:
        expected = f"keras or savedmodel: it lacks {_LACKING[pooling]} that {pooling} pools by"
        raise invalid("--format", received=name, expected=expected)


def write_run(run: RunModel, name: str, path: pathlib.Path, notes: Sequence[str] = ()) -> Written:
    """Write a model with its card."""
    from common.deployment.formats import FORMATS, write_format

    found: list[Agreement] = []

    def check(embed: Embed) -> None:
        found.append(run.agreement(embed, name))

    examples = run.training_inputs() if FORMATS[name].is_calibrated else None
    write_format(run.model, path, name, check, examples)
    calibrated = [] if examples is None else [f"Calibrated on {len(examples)} examples that the run learnt from."]
    notes = [*notes, *calibrated, *_choice_note(run)]
    written = Written(name, path, check_given("agreement", found[0]), notes)
    write_text(written.card, model_card(run, written))
    return written


def _choice_note(run: RunModel) -> list[str]:
    """Say that all folds together may choose another model than a fold's trained one."""
    if run.config.protocol is not None or not run.config.shares:
        return []
    command = shlex.join(["dml", "train_final", f"--run={run.path.parent}"])
    return [f"This is the trained network of one fold. `{command}` makes the model that validation in all folds chose."]


def model_writer(dataset: Dataset, cache_dir: str | None) -> Callable[[pathlib.Path], None]:
    """Return a function that adds `model.keras` and its card to finished runs.

    Runs that have one are skipped. A failure to write does not fail the run; each reason is reported once.
    """
    told: set[str] = set()

    def write(path: pathlib.Path) -> None:
        if (path / MODEL).exists():
            return
        try:
            with training.training_session(0):
                write_run(RunModel(path, dataset, cache_dir, _CHECKED_AFTER_TRAINING), "keras", path / MODEL)
        except (InvalidInput, ValueError, TypeError, NotImplementedError, OSError) as error:
            reason = str(error).replace(str(path), "the run")
            if reason not in told:
                told.add(reason)
                write_notice(f"warning: no {MODEL} in {path}: {error}")

    return write


class Written(NamedTuple):
    """A model on disk and the facts for its card."""

    name: str
    path: pathlib.Path
    agreement: Agreement
    notes: Sequence[str] = ()  # sentences on where the settings come from

    @property
    def card(self) -> pathlib.Path:
        """Path of the card: beside the file, or in the SavedModel folder."""
        return card_path(self.path, self.name)


def card_path(path: pathlib.Path, name: str) -> pathlib.Path:
    """Return the path of a model's card."""
    return path / CARD if name == "savedmodel" else path.with_name(CARD)


def check_card(path: pathlib.Path, name: str) -> None:
    """Refuse a place whose card would replace another file or model's card."""
    card = card_path(path, name)
    if not card.exists():
        return
    text = card.read_text("utf-8", "replace") if card.is_file() else ""
    described = re.search(_DESCRIBED, text)
    if not text.startswith(_FRONT):
        expected = f"a folder without a {CARD}, which the model's card will be, or with a card of a model"
    elif described and described[1] != path.name and card.with_name(described[1]).exists():
        expected = f"a folder without the card of another model ({CARD} describes {described[1]})"
    else:
        return
    raise invalid("--output", received=str(path), expected=expected, fix="Choose another folder.")


def model_card(run: RunModel, written: Written) -> str:
    """Write a card's text, with YAML front matter for model hubs."""
    from common.deployment.deployable_model import NETWORK, PREPROCESSING

    config, data = run.config, run.trained.dataset
    result, identity = (read_json(run.path / name) or {} for name in ("result.json", "config.json"))
    began = str(identity.get("weights", "none"))
    source = str(identity.get("weights_source", "")) or "none"
    intervals = _intervals(run)
    layers = {layer.name: layer for layer in run.model.layers}
    preprocessing = layers.get(PREPROCESSING)
    return card_template("model_card.md.jinja").render(
        config=config,
        result=result,
        data=data,
        training=run.trained.training,
        tags=dict.fromkeys([*TAGS, config.backbone, config.loss, config.pooling]),
        metrics=_metrics(config.dataset, result, intervals),
        has_few_classes=intervals["MAP@R"].has_few_classes,
        warnings=_warnings(result),
        deviations=[*map(reports.deviation_sentence, result.get("deviations", ()))],
        shape=list(layers[NETWORK].input_shape[1:]),
        dim=run.model.output_shape[-1],
        transform=preprocessing and preprocessing.transform,
        reading=preprocessing and preprocessing.reading,
        class_names=[str(data.class_names[label]) for label in np.unique(data.train.labels) if len(data.class_names)],
        format=kind_of(written.name),
        file=written.path.name,
        agreement=written.agreement.sentences(),
        notes=written.notes,
        weights=identity.get("weights", config.weights),
        began_with="file" if is_file(began) else began,
        origin=backbones.published_checkpoint(config.backbone, source),
        own_file=began[:40],
        is_of_glyphs=began == "none" and not traits_of(config.dataset).needs_files,
        **plugin_facts(config.providers(), written.path, written.name),
    )


def card_template(name: str) -> Template:
    """Return a template of this package by its file's name."""
    environment = Environment(
        loader=PackageLoader("experiments.deployment", ""),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["quoted"] = json.dumps  # JSON's strings are YAML's
    return environment.get_template(name)


def _intervals(run: RunModel) -> dict[str, reports.Interval]:
    scores = Scores([row_at(run.path)])
    return {metric: scores.estimate(metric) for metric in scores.metrics}


def _metrics(dataset: str, result: dict, intervals: dict[str, reports.Interval]) -> list[dict[str, Any]]:
    """Describe each measured metric, with its type for model hubs."""
    test, untrained = result["test"], result.get("untrained", {})
    found = []
    for name in (*TABLE_METRICS[::-1], *(f"R@{k}" for k in traits_of(dataset).recall_at)):
        if name not in test:
            continue
        ends = [100 * end for end in intervals[name].ends()] if name in intervals else []
        found.append(
            {
                "name": name,
                "type": METRICS[name].__name__ if name in METRICS else name.replace("R@", "recall_at_"),
                "value": test[name],
                "interval": "[{:.2f}, {:.2f}]".format(*ends) if ends else "-",
                "before": f"{100 * untrained[name]:.2f}" if name in untrained else "-",
            }
        )
    return found


def _warnings(result: dict) -> list[str]:
    worse = training_did_not_help(result["test"]["MAP@R"], result.get("untrained", {}).get("MAP@R"))
    tiny = few_validation_classes(result.get("validation_classes", FEWEST_VALIDATION_CLASSES))
    return [*([f"T{worse[1:]}."] if worse else []), *([f"This run {tiny}"] if tiny else [])]


def plugin_facts(providers: Mapping[str, Provider], path: pathlib.Path, name: str) -> dict[str, Any]:
    """Return a model's plug-ins, and Keras' imports for a `.keras` file."""
    from common.deployment.embedder import packages_of

    plugins = list(dict.fromkeys(provider.plugin for provider in providers.values()))
    packages = packages_of(path) if name.startswith("keras") else []
    own = [module for module in packages if not module.startswith("common.")]
    return {"providers": providers, "plugins": plugins, "imports": ["common.deployment", *own, *plugins]}
