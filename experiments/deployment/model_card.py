"""Model cards: origin, measurements, unsuitable uses, and loading instructions."""

from __future__ import annotations

import json
import pathlib
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined, Template

from common import backbones
from common.errors import invalid
from common.files import read_json
from experiments import reports
from experiments.deployment.run_model import Agreement, RunModel
from experiments.reports.training_effect import training_did_not_help
from experiments.rows.scores import Scores
from experiments.runs.splits import FEWEST_VALIDATION_CLASSES, few_validation_classes
from experiments.settings.build import EMBEDDED_DATASETS
from experiments.settings.initial_weights import is_file
from experiments.settings.provided import Provider
from experiments.settings.recipes import recall_at

CARD = "README.md"
_FRONT = "---\nlibrary_name: keras\n"  # what every card of ours begins with
_DESCRIBED = "Written as `(.+?)`"
TAGS = ("deep-metric-learning", "image-retrieval", "embeddings")
_WITH_INTERVAL = ("MAP@R", "P@1")
_TYPES = {"MAP@R": "map_at_r", "P@1": "precision_at_1"}  # R@k: recall_at_k


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
    intervals = _intervals(run, result)
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
        exif_orientation=preprocessing and preprocessing.exif_orientation,
        class_names=[str(data.class_names[label]) for label in np.unique(data.train.labels) if len(data.class_names)],
        format=written.name.removesuffix("_float16"),
        file=written.path.name,
        agreement=written.agreement.sentences(),
        notes=written.notes,
        weights=identity.get("weights", config.weights),
        began_with="file" if is_file(began) else began,
        origin=backbones.published_checkpoint(config.backbone, source),
        own_file=began[:40],
        is_of_glyphs=began == "none" and config.dataset in EMBEDDED_DATASETS,
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


def _intervals(run: RunModel, result: dict) -> dict[str, reports.Interval]:
    unit = reports.collect_method(run.path.parent).finished[int(result["fold"]), int(result["repeat"])]
    scores = Scores.of_runs([unit])
    return {metric: scores.estimate(metric) for metric in _WITH_INTERVAL}


def _metrics(dataset: str, result: dict, intervals: dict[str, reports.Interval]) -> list[dict[str, Any]]:
    """Describe each measured metric, with its type for model hubs."""
    test, untrained = result["test"], result.get("untrained", {})
    found = []
    for name in ("MAP@R", "P@1", *(f"R@{k}" for k in recall_at(dataset))):
        if name not in test:
            continue
        ends = [100 * end for end in intervals[name].ends()] if name in intervals else []
        found.append(
            {
                "name": name,
                "type": _TYPES.get(name) or name.replace("R@", "recall_at_"),
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
