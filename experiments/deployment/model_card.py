"""Model cards: origin, measurements, unsuitable uses, and loading instructions."""

from __future__ import annotations

import json
import pathlib
import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from common import backbones
from common.errors import invalid
from common.files import read_json, write_text
from experiments import reports
from experiments.deployment.run_model import Agreement, RunModel
from experiments.protocols.one_split import SplitScores
from experiments.reports.training_effect import training_did_not_help
from experiments.runs.splits import FEWEST_VALIDATION_CLASSES, few_validation_classes
from experiments.settings.build import EMBEDDED_DATASETS
from experiments.settings.initial_weights import is_file
from experiments.settings.recipes import recall_at
from experiments.settings.run_settings import FINAL

CARD = "README.md"
_FRONT = "---\nlibrary_name: keras\n"  # what every card of ours begins with
_DESCRIBED = "Written as `(.+?)`"
_MARK = '- "deep-metric-learning"'
_WITH_INTERVAL = ("MAP@R", "P@1")
_TYPES = {"MAP@R": "map_at_r", "P@1": "precision_at_1"}  # R@k: recall_at_k
_MOST_NAMES = 20
_PROTOCOLS = {
    None: "Fair protocol: fold {fold} of the {folds} folds of the training classes chose the number of steps, the rest "
    "were learnt from.",
    "conventional": "Conventional protocol: all training classes were learnt from, and R@1 on the test set chose the "
    "number of steps: the figures are optimistic.",
    "held_out": "All training classes but {held_out:.0%} were learnt from, which chose the number of steps.",
    FINAL: "All training classes were learnt from, for a number of steps that was fixed beforehand.",
}


class Written(NamedTuple):
    """A model on disk and the facts for its card.

    Attributes:
        name: of the format.
        path: of the model.
        agreement: with its run.
        notes: sentences on where the settings come from.
    """

    name: str
    path: pathlib.Path
    agreement: Agreement
    notes: Sequence[str] = ()

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


def write_card(run: RunModel, written: Written) -> None:
    """Write the card beside a model."""
    write_text(written.card, model_card(run, written))


def model_card(run: RunModel, written: Written) -> str:
    """Write a card's text, with YAML front matter for model hubs.

    Args:
        run: that the model is of.
        written: the model.
    """
    result, identity = (read_json(run.path / name) or {} for name in ("result.json", "config.json"))
    place = int(result["fold"]), int(result["repeat"])
    unit = reports.collect_method(run.path.parent).finished[place]
    scores = SplitScores([unit])
    intervals = {metric: scores.estimate(metric) for metric in _WITH_INTERVAL}
    sections = [
        _front_matter(run, result),
        _summary(run, written),
        f"## Load it\n\n{_loading(run, written)}",
        f"## Data\n\n{_data(run, result)}",
        f"## Method\n\n{_method(run, result, identity, written.notes)}",
        f"## Figures\n\n{_figures(run, result, intervals)}",
        f"## What it is not for\n\n{_limits(run)}",
        f"## Licence\n\n{_licence(run, identity)[1]}",
    ]
    return "\n\n".join(sections) + "\n"


def _front_matter(run: RunModel, result: dict) -> str:
    """Format the front matter; JSON's strings and numbers are YAML's."""
    config, test = run.config, result["test"]
    quoted = json.dumps
    tags = ["deep-metric-learning", "image-retrieval", "embeddings", config.backbone, config.loss, config.pooling]
    lines = ["library_name: keras", "pipeline_tag: image-feature-extraction", "tags:"]
    lines += [f"- {quoted(tag)}" for tag in dict.fromkeys(tags)]
    lines += [f"license: {_licence(run, read_json(run.path / 'config.json') or {})[0]}", "metrics:"]
    lines += [f"- {_type_of(name)}" for name in _metrics(config.dataset) if name in test]
    lines += [
        "model-index:",
        f"- name: {quoted(config.name)}",
        "  results:",
        "  - task:",
        "      type: image-retrieval",
        '      name: "Retrieval among classes unseen in training"',
        "    dataset:",
        f"      type: {quoted(config.dataset)}",
        f"      name: {quoted(config.dataset)}",
        "      split: test",
        "    metrics:",
    ]
    for name in _metrics(config.dataset):
        if name in test:
            lines += [f"    - type: {_type_of(name)}", f"      name: {quoted(name)}", f"      value: {test[name]:.6f}"]
    return "\n".join(["---", *lines, "---"])


def _metrics(dataset: str) -> tuple[str, ...]:
    return ("MAP@R", "P@1", *(f"R@{k}" for k in recall_at(dataset)))


def _type_of(metric: str) -> str:
    return _TYPES.get(metric) or metric.replace("R@", "recall_at_")


def _summary(run: RunModel, written: Written) -> str:
    config, model = run.config, run.model
    size = model.get_layer("network").input_shape[1:]
    what = "tokens" if len(size) == 1 else f"images to {size[0]} x {size[1]} pixels of {size[2]} channel(s) and these"
    return (
        f"# {config.name} on {config.dataset}\n\n"
        f"Maps {what} to embeddings of {model.output_shape[-1]} components, which are near to one another within a "
        f"class: for retrieval, also among classes that training has not seen. Written as `{written.path.name}`. "
        + " ".join(written.agreement.sentences())
    )


def _loading(run: RunModel, written: Written) -> str:
    from common.deployment.embedder import packages_of

    shape = list(run.model.get_layer("network").input_shape[1:])
    inputs = f"np.zeros({[1, *shape]}, np.{'int32' if len(shape) == 1 else 'uint8'})"
    path, output = written.path.name, f"```text\n(1, {run.model.output_shape[-1]})\n```"
    if written.name == "keras":
        others = "" if len(shape) == 1 else "  # also: lists of files, or of their contents as bytes"
        beside_common = [module for module in packages_of(written.path) if not module.startswith("common.")]
        plugins = dict.fromkeys(provider.plugin for provider in run.config.providers().values())
        imports = ", ".join(["common.deployment", *beside_common, *plugins])
        code = [
            *(f"import {plugin}  # the plug-in with its layers" for plugin in plugins),
            "import numpy as np",
            "from common.deployment import load_embedder",
            "",
            f'embedder = load_embedder("{path}")',
            f"print(embedder.embed({inputs}).shape){others}",
        ]
        beside = (
            "Needs this project (`pip install .` in a clone) and TensorFlow, no data. With Keras "
            f'alone: `import {imports}`, then `keras.models.load_model("{path}")`, whose inputs are '
            "arrays of any height and width, values 0..255. Keras 2 and Keras 3 each read what they have written "
            "themselves."
        )
    elif written.name == "savedmodel":
        code = [
            "import tensorflow as tf",
            "",
            f'model = tf.saved_model.load("{path}")',
            f"inputs = tf.zeros({[1, *shape]}, tf.{'int32' if len(shape) == 1 else 'float32'})",
            'print(model.signatures["serving_default"](inputs=inputs)["embeddings"].shape)',
        ]
        beside = "Needs TensorFlow alone. Images may have any height and width, values 0..255; the signature `encoded` "
        beside += "takes the contents of JPEG and PNG files."
    else:
        code, beside = _loading_of_network(run, written, shape)
    lines = ["```python", *code, "```", output, "", beside]
    preprocessing = {layer.name: layer for layer in run.model.layers}.get("preprocessing")
    if preprocessing is not None:
        lines += ["", _exif_sentence(written.name, preprocessing.exif_orientation)]
    return "\n".join(lines)


def _exif_sentence(name: str, exif_orientation: bool) -> str:
    if not exif_orientation:
        return "EXIF orientation is ignored, as it was when this run was trained."
    where = {"keras": "to files and encoded images", "savedmodel": "by the signature `encoded`"}
    return f"EXIF orientation is applied {where.get(name, 'to photos before they are resized')}."


def _loading_of_network(run: RunModel, written: Written, shape: list[int]) -> tuple[list[str], str]:
    inputs = f"np.zeros({[1, *shape]}, np.{'int32' if len(shape) == 1 else 'float32'})"
    if written.name == "tflite":
        code = [
            "import numpy as np",
            "import tensorflow as tf",
            "",
            f'interpreter = tf.lite.Interpreter("{written.path.name}")',
            "interpreter.allocate_tensors()",
            f'interpreter.set_tensor(interpreter.get_input_details()[0]["index"], {inputs})',
            "interpreter.invoke()",
            'print(interpreter.get_tensor(interpreter.get_output_details()[0]["index"]).shape)',
        ]
    else:
        code = [
            "import numpy as np",
            "import onnxruntime",
            "",
            f'session = onnxruntime.InferenceSession("{written.path.name}")',
            f"print(session.run(None, {{session.get_inputs()[0].name: {inputs}}})[0].shape)",
        ]
    layers = {layer.name: layer for layer in run.model.layers}
    if "preprocessing" not in layers:
        return code, "Integer tokens in, embeddings out."
    transform = layers["preprocessing"].transform
    filtered = "with a low-pass filter" if transform.antialias else "no low-pass filter"
    return code, (
        "Resizing is not in this format: give float32 values 0..255 of crops. Resize the shorter side to "
        f"{transform.shorter_side} pixels (bilinear, half-pixel centres, {filtered}, rounded), then take the central "
        f"{transform.size} x {transform.size}."
    )


def _data(run: RunModel, result: dict) -> str:
    dataset, training = run.trained.dataset, run.trained.training
    named = len(dataset.class_names) > 0
    names = [str(dataset.class_names[label]) for label in np.unique(dataset.train.labels) if named]
    shown = f": {', '.join(names[:_MOST_NAMES])}{', ...' if len(names) > _MOST_NAMES else ''}" if names else ""
    lines = [
        f"Data set `{run.config.dataset}`. Learnt from {len(training):,} examples of {training.num_classes:,} of the "
        f"{dataset.train.num_classes:,} training classes{shown}.",
        f"Tested on {len(dataset.test):,} examples of {dataset.test.num_classes:,} other classes"
        + (f", searched for among {len(dataset.gallery):,}." if dataset.gallery is not None else "."),
        *map(reports.deviation_sentence, result.get("deviations", ())),
    ]
    return "\n".join(lines)


def _method(run: RunModel, result: dict, identity: dict, notes: Sequence[str]) -> str:
    config = run.config
    place = {"fold": result["fold"], "folds": config.num_folds, "held_out": config.held_out_fraction or 0.0}
    rows = [
        ("Network", config.backbone),
        ("Initial weights", str(identity.get("weights", config.weights))),
        ("Pooling, embedding", f"{config.pooling}, {config.embedding_dim}-D, length `{config.normalization}`"),
        ("Method", config.name),
        ("Batches", f"{config.classes_per_batch} classes x {config.samples_per_class} examples"),
        ("Selected at", f"{result['validation']['best']['step']:,} of {result['steps']:,} steps"),
        ("Made with", result["environment"]["stack"]),
        *((f"From a plug-in: {kind}", str(provider)) for kind, provider in config.providers().items()),
    ]
    table = ["| | |", "|---|---|", *(f"| {name} | {value} |" for name, value in rows)]
    protocol = _PROTOCOLS[config.protocol].format(**place)
    return "\n".join([*table, "", protocol, *notes, "All settings: `config.json` of the run."])


def _figures(run: RunModel, result: dict, intervals: dict) -> str:
    untrained = result.get("untrained", {})
    rows = ["| test metric, % | this model | 95 % interval | before training |", "|---|---:|---:|---:|"]
    for name in _metrics(run.config.dataset):
        if name in result["test"]:
            ends = "-"
            if name in intervals:
                low, high = intervals[name].ends()
                ends = f"[{100 * low:.2f}, {100 * high:.2f}]"
            old = f"{100 * untrained[name]:.2f}" if name in untrained else "-"
            rows.append(f"| {name} | {100 * result['test'][name]:.2f} | {ends} | {old} |")
    worse = training_did_not_help(result["test"]["MAP@R"], untrained.get("MAP@R"))
    tiny = few_validation_classes(result.get("validation_classes", FEWEST_VALIDATION_CLASSES))
    warnings = [*([f"T{worse[1:]}."] if worse else []), *([f"This run {tiny}"] if tiny else [])]
    verdict = [line for text in warnings for line in ("", f"**{text}**")]
    few = " There are few of them: it may be too short." if intervals["MAP@R"].has_few_classes else ""
    return "\n".join(
        [
            *rows,
            *verdict,
            "",
            f"Intervals are for other test classes of the same kind, of this one trained network; how much another "
            f"training would differ is not in them.{few} Before training: average features of the backbone.",
        ]
    )


def _limits(run: RunModel) -> str:
    return (
        "- To decide whether two photographs show the same person, or anything about people.\n"
        f"- For other kinds of images than those of `{run.config.dataset}`: nothing was measured on any.\n"
        "- As a probability: similarities have no threshold until one is calibrated on labelled pairs of your own.\n"
        "- For decisions without a human check: of the nearest neighbours of unseen classes, the share above is right."
    )


def _licence(run: RunModel, identity: dict) -> tuple[str, str]:
    """Return the licence as front-matter field and as text."""
    config, weights = run.config, str(identity.get("weights", "none"))
    code = "The code is under the MIT licence."
    if weights == "none" and config.dataset in EMBEDDED_DATASETS:
        return "mit", f"{code} The network began with random weights and learnt from drawings of matplotlib's fonts."
    if weights == "none":
        text = "The network began with random weights; what its images' owners allow decides about its weights."
    elif is_file(weights):
        source = backbones.published_checkpoint(config.backbone, str(identity.get("weights_source", "")) or "none")
        origin = f"{source.title} ({source.url})" if source else f"a file of your own ({weights[:40]})"
        text = (
            f"The network began with the weights of {origin}: their licence, that of the images that they learnt from, "
            "and that of your images decide about the weights of this model."
        )
    else:
        text = (
            "The network began with the ImageNet weights of keras.applications: their licence, that of ImageNet (its "
            "images are for non-commercial research) and that of your images decide about the weights of this model."
        )
    return "other", f"{code} {text} Enter the licence in the front matter once you know it."
