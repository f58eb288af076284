"""A finished run: its configuration, its data and its model."""

from __future__ import annotations

import dataclasses
import json
import logging
import os
import pathlib
from collections.abc import Mapping
from typing import Any, NamedTuple

from common import data, training
from common.backbones.by_name import check_backbone_name
from common.commands.exit_code import import_tensorflow
from common.data import Dataset, Examples
from common.data.image_formats import Reading
from common.errors import InvalidInput, check_choice, invalid
from common.files import difference, read_json, read_json_lines
from common.records import RunDirectory
from common.records.run_directory import read_finished_result
from experiments.rows.rows import Row
from experiments.settings import build
from experiments.settings.config import ExperimentConfig, by_flag_names, changed_identity, identity_digest
from experiments.settings.parts import all_settings
from experiments.settings.plugins import check_stored_plugins
from experiments.settings.splits import split_of

_log = logging.getLogger(__name__)


class TrainedModel(NamedTuple):
    """The content of a run directory."""

    config: ExperimentConfig  # the run's configuration (initial weights "none": the trained ones replace them)
    dataset: Dataset  # with prepared images
    model: training.EmbeddingModel
    training: Examples
    inputs: data.EvaluationInputs
    loaded: Dataset | None = None  # the data set without prepared images, in the reading of the run (see `data_of_run`)


def run_configuration(path: str | os.PathLike) -> tuple[ExperimentConfig, dict]:
    """Read a run directory's configuration and its whole `config.json`."""
    identity = read_json(pathlib.Path(path) / "config.json")
    if identity is None:
        raise InvalidInput(
            f"{path} is no run directory: it has no config.json. Expected a folder such as "
            "runs/fair/<data set>/<method>-<hash>/fold0-repeat0."
        )
    result = read_finished_result(path)[0] or {}
    stated: list[Any] = [result.get(name) for name in ("config_hash", "fold", "repeat")]
    if isinstance(stated[0], str) and (changed := changed_identity(identity, *stated)):
        raise InvalidInput(f"{path} cannot be used: {changed}. Delete the folder to run it again.")
    return dataclasses.replace(stored_configuration(identity, path), weights="none"), identity


def stored_configuration(identity: Mapping[str, Any], path: str | os.PathLike) -> ExperimentConfig:
    """Return the configuration as run; a weights file becomes its digest."""
    check_stored_plugins(identity.get("plugins"), os.fspath(path))
    stated = by_flag_names(identity)
    kinds = {each.name: each.kind for each in all_settings()}
    values = {name: value for name, value in stated.items() if name in kinds}
    odd = [name for name, value in values.items() if difference(value, kinds[name])]
    if odd:
        raise InvalidInput(
            f"{path}/config.json is damaged: {odd[0]} is {values[odd[0]]!r}. Delete the folder to run it again."
        )
    try:
        config = ExperimentConfig.of(values)
        for name, choices in (("dataset", build.DATASETS), ("pooling", build.POOLINGS)):
            check_choice(name, getattr(config, name), choices)
        check_backbone_name(config.backbone)
        build.check_loss_name(config.loss)
    except InvalidInput as error:
        raise InvalidInput(f"{path}/config.json is of another version of this code ({error}). Run it again.") from error
    return config


_AS_AT_THE_START = ("dataset", "protocol", "num_folds", "fold_order", "backbone", "pooling", "embedding_dim")


def check_start(config: ExperimentConfig, fold: int, repeat: int) -> tuple[pathlib.Path, dict]:
    """Return the folder and `config.json` of the finished run whose network `start_from` names.

    Raises:
        InvalidInput: there is none, it has another network or other classes, or its folder was renamed.
    """
    path = pathlib.Path(os.path.abspath(config.start_from or "")) / f"fold{fold}-repeat{repeat}"
    if read_finished_result(path)[0] is None:
        raise invalid("--start_from", received=config.start_from, expected=f"a folder with a finished {path.name}")
    start, identity = run_configuration(path)
    other = [name for name in _AS_AT_THE_START if getattr(start, name) != getattr(config, name)]
    if other:
        told = [" and ".join(f"{name} {getattr(each, name)}" for name in other) for each in (start, config)]
        raise invalid("--start_from", received=f"runs of {told[0]}", expected=told[1])
    digest = identity_digest(identity)[:10]
    if not path.parent.name.endswith(digest):  # by which a run that begins with it is told from others
        raise invalid("--start_from", received=config.start_from, expected=f"the folder's own name, ...-{digest}")
    return path, identity


def begin_from(
    model: training.EmbeddingModel, config: ExperimentConfig, fold: int, repeat: int, fingerprint: str
) -> list[float]:
    """Give a model the network of the run that `start_from` names.

    Loss and proxies keep their own start.

    Returns:
        The monitored metric at each validation of that run, which has to be on data of this fingerprint.
    """
    path, identity = check_start(config, fold, repeat)
    if identity["data"] != fingerprint:
        received, expected = (f"runs on data {each}" for each in (identity["data"], fingerprint))
        raise invalid("--start_from", received=received, expected=expected)
    network = [*model.backbone.weights, *model.head.weights]
    stored = RunDirectory(path, identity).read_weights()[: len(network)]  # `EmbeddingModel` has those of its loss last
    if [weight.shape for weight in stored] != [tuple(weight.shape) for weight in network]:
        raise invalid("--start_from", received=f"{path} with other layers", expected="the same network")
    for weight, value in zip(network, stored):
        weight.assign(value)
    return [record["validation"][config.monitor] for record in read_json_lines(path / "metrics.jsonl")]


def load_trained_model(
    path: str | os.PathLike,
    *,
    dataset: Dataset | None = None,
    data_dir: str | None = None,
    cache_dir: str | None = None,
) -> TrainedModel:
    """Rebuild the model of a finished run.

    Args:
        dataset: the data that it was trained on, as loaded; None to load them.

    Raises:
        InvalidInput: the run has not finished, or the data on disk are not those of the run.
    """
    tf = import_tensorflow()

    config, identity = run_configuration(path)
    place: list[Any] = [identity.get(name) for name in ("fold", "repeat")]  # a damaged file may say anything
    if not all(type(number) is int and number >= 0 for number in place) or place[0] >= config.num_folds:
        raise InvalidInput(
            f"{path}/config.json is damaged: it says fold {place[0]}, repeat {place[1]}. Delete the folder to run it "
            "again."
        )
    if dataset is None:
        dataset = build.load_dataset_of(config, data_dir, cache_dir)
    loaded = data_of_run(dataset, cache_dir, identity.get("data"), os.fspath(path))
    dataset = build.prepare_dataset(loaded, config, cache_dir)
    weights = RunDirectory(path, identity).read_weights()
    training = split_of(dataset, config, *place).training
    labels = tf.TensorSpec([None, 2] if any(method.has_places for method in config.methods) else [None], tf.int64)
    inputs = build.build_inputs(config, dataset)
    # Which layout a ResNet-50 has was decided by the file that it began from.
    for layout in (None, "torchvision") if config.backbone == "resnet50" else (None,):
        model = build.build_model(config, dataset, training.num_classes, num_examples=len(training), layout=layout)
        model.build_from_spec(inputs(training).element_spec, labels)
        if [tuple(weight.shape) for weight in model.weights] == [weight.shape for weight in weights]:
            model.set_weights(weights)
            return TrainedModel(config, dataset, model, training, inputs, loaded)
    raise InvalidInput(f"{path} holds weights of another version of this code. Run it again.")


class DataFolder:
    """Loader of the data sets of runs, each once, with reasons for failures."""

    def __init__(self, data_dir: str | None = None, cache_dir: str | None = None):
        self.data_dir, self.cache_dir = data_dir, cache_dir
        self._loaded: dict[tuple, Dataset | str] = {}
        self._read: dict[tuple, Dataset] = {}

    def dataset_of(self, row: Row) -> Dataset:
        """Load the data that a run was made with; raise `InvalidInput` for others."""
        config = stored_configuration(row.config, row.folder)
        key, trained_on = (config.dataset, *build.drawn_by(config).values()), row["data"]
        if key not in self._loaded:
            try:
                self._loaded[key] = build.load_dataset_of(config, self.data_dir, self.cache_dir)
            except InvalidInput as error:
                self._loaded[key] = str(error)
        found = self._loaded[key]
        if isinstance(found, str):
            raise InvalidInput(f"{config.dataset} cannot be read: {found}")
        if (key, trained_on) not in self._read:
            self._read[key, trained_on] = data_of_run(found, self.cache_dir, trained_on, str(row.folder))
        return self._read[key, trained_on]


def data_of_run(dataset: Dataset, cache_dir: str | None, trained_on: str | None, run: str) -> Dataset:
    """Return the data set as a run reads it.

    Older runs ignored colour profiles, and the oldest also the EXIF orientation.
    """
    for reading in sorted(Reading, reverse=True):
        if reading <= dataset.train.reading:
            as_read = dataset if reading == dataset.train.reading else _read_as(dataset, reading)
            if build.data_fingerprint(as_read, cache_dir) == trained_on:
                return as_read
    if data.is_of_names(trained_on, dataset):
        raise InvalidInput(
            f"{run} is of a version of this code that told images apart by their file names alone, so it is "
            f"unknown whether it was trained on what {dataset.name} now holds. Run it again: the same command begins a "
            "new run beside it."
        )
    raise InvalidInput(
        f"{run} was trained on other data than {dataset.name} now holds. Check --data_dir: the contents of all images, "
        "their labels and the names of classes and files have to be the same."
    )


def _read_as(dataset: Dataset, reading: Reading) -> Dataset:
    parts: dict[str, Any] = {name: dataclasses.replace(part, reading=reading) for name, part in data.parts_of(dataset)}
    return dataclasses.replace(dataset, **parts)


def tell_of_other_data(unit_dir: pathlib.Path, identity: dict) -> None:
    """Warn of a neighbouring run folder that differs only in its data.

    If an image or a label has changed since a run began, the warning explains why the run restarts instead of resuming.

    Args:
        unit_dir: `<runs_dir>/<protocol>/<data set>/<method>-<hash>/fold<k>-repeat<r>`; no warning if it exists.
    """
    if unit_dir.exists():
        return
    method, wanted = unit_dir.parent.name.rpartition("-")[0], _without_data(identity)
    for path in sorted(unit_dir.parent.parent.glob(f"*-*/{unit_dir.name}/config.json")):
        if path.parent.parent.name.rpartition("-")[0] == method and _without_data(read_json(path)) == wanted:
            _log.warning(
                "%s is a run of this configuration on other data (or of a version of this code that told images apart "
                "by their names alone). It stays as it is; %s begins again.",
                path.parent,
                unit_dir,
            )


def _without_data(identity: dict | None) -> dict:
    stated = json.loads(json.dumps(identity)) or {}
    return {name: value for name, value in stated.items() if name != "data"}
