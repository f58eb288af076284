"""Embedders that this project trains on data with free licences: recipes, files, installation."""

from __future__ import annotations

import dataclasses
import functools
import os
import pathlib
import shutil
from collections.abc import Mapping
from typing import Any, NamedTuple

from common.downloads.fingerprint import file_digest
from common.errors import InvalidInput, check_choice, invalid
from common.files import write_atomically, write_text
from experiments.deployment.run_model import RunModel
from experiments.deployment.writing import check_output, write_run
from experiments.reports.plain_tables import PlainTable
from experiments.runs.unit_runs import UnitRuns
from experiments.settings import build
from experiments.settings.config import ExperimentConfig
from experiments.settings.places import Places
from experiments.settings.recipes import resolve
from experiments.settings.run_settings import FINAL

PREFIX = "zoo:"  # before a name in `--model`
_MOST_BYTES = 10_000_000
_FORMAT = "keras_float16"


class Recipe(NamedTuple):
    """A model of the zoo."""

    data: str  # the images and their licence, for readers
    dataset: str
    settings: Mapping[str, Any]  # by flag name; others are those of the thesis' recipe with C2 and average pooling
    needs_folder: bool = True  # whether `--data_dir` must name a folder of the images
    address: str = ""  # of the published file; empty, as `sha256`, if not published
    sha256: str = ""


_NETWORK = {"backbone": "efficientnet_lite0", "weights": "imagenet", "image_size": 96, "fold_batch_norm": True}
_TRAINING = {"classes_per_batch": 8, "samples_per_class": 4, "normalization": "unit", "learning_rate": 1e-4}
_STEPS = {"max_steps": 300, "steps_per_evaluation": 100}
RECIPES = {
    "emoji": Recipe(
        "emoji of seven designs (MIT, Apache-2.0, CC BY 4.0)",
        "emoji",
        {**_NETWORK, **_TRAINING, **_STEPS},
        needs_folder=False,
    ),
    "omniglot": Recipe(
        "handwritten characters of 50 alphabets, Omniglot (MIT)", "folder", {**_NETWORK, **_TRAINING, **_STEPS}
    ),
    "caltech101": Recipe("photographs, Caltech-101 (CC BY 4.0)", "folder", {**_NETWORK, **_TRAINING, **_STEPS}),
}


def listing() -> str:
    """Return the zoo as a table."""
    rows = [
        (name, recipe.data, recipe.address or "not published", "yes" if installed_path(name).is_file() else "no")
        for name, recipe in RECIPES.items()
    ]
    notes = [f"`dml search` and `dml serve` take an installed model by --model={PREFIX}NAME."]
    return PlainTable("Embedders", ("name", "trained on", "address", "installed"), rows, notes).as_text()


def installed_path(name: str) -> pathlib.Path:
    """Return the place of an installed model, which may be missing."""
    return pathlib.Path(build.default_cache_dir(), "zoo", f"{name}.keras")


def model_path(model: str) -> pathlib.Path:
    """Return the file that `--model` names: a path, or `zoo:NAME`."""
    if not model.startswith(PREFIX):
        return pathlib.Path(model)
    name = check_choice("--model", model.removeprefix(PREFIX), RECIPES)
    path = installed_path(name)
    if not path.is_file():
        fix = f"`dml zoo make {name}` trains it, `dml zoo install FILE` installs it."
        raise invalid("--model", received=model, expected=f"an installed model ({path} is missing)", fix=fix)
    return path


def configuration(name: str) -> ExperimentConfig:
    """Return a model's settings: all training classes, a fixed number of steps."""
    recipe = RECIPES[check_choice("zoo make", name, RECIPES)]
    config = resolve(recipe.dataset, "c2", "gap", "thesis", "full", dict(recipe.settings))
    start = config.max_steps - config.steps_per_evaluation  # the last weights, regardless of earlier figures
    return dataclasses.replace(config, protocol=FINAL, selection_start=start, plateau_patience=0)


def make(name: str, places: Places, output: str | os.PathLike, checkpoint_seconds: float = 30.0) -> str:
    """Train a model of the zoo, or resume; write its file, card and digest.

    The folder `output` receives `NAME/NAME.keras` (less than 10 MB), `README.md` and `NAME.keras.sha256`.
    """
    config, recipe = configuration(name), RECIPES[name]
    if recipe.needs_folder != (places.data_dir is not None):
        expected = f"the folder of {recipe.data}" if recipe.needs_folder else f"none: {name} is in the package"
        raise invalid("--data_dir", received=str(places.data_dir), expected=expected)
    path = pathlib.Path(output, name, f"{name}.keras")
    check_output(path, _FORMAT)
    runs = UnitRuns(build.load_dataset_of(config, places.data_dir, places.cache_dir), places)
    runs.check([(config, 0, 0)])
    runs.train(config, 0, 0, checkpoint_seconds)
    run = RunModel(runs.unit_dir(config, 0, 0), runs.dataset, places.cache_dir)
    written = write_run(run, _FORMAT, path, [f"Written by `dml zoo make {name}`, on {recipe.data}."])
    size = path.stat().st_size
    if size >= _MOST_BYTES:
        raise InvalidInput(f"{path} has {size / 1e6:.1f} MB, expected less than {_MOST_BYTES / 1e6:.0f}.")
    digest = file_digest(os.fspath(path))
    write_text(path.with_name(f"{path.name}.sha256"), f"{digest}  {path.name}\n")
    return "\n".join([*written.agreement.sentences(), f"Written: {path} ({size / 1e6:.1f} MB), {written.card}", digest])


def install(file: str | os.PathLike) -> pathlib.Path:
    """Check a file `NAME.keras` and install it for `--model=zoo:NAME`.

    Its digest is that of the published file, or of `NAME.keras.sha256` beside it.
    """
    path = pathlib.Path(file)
    name = check_choice("zoo install", path.name.removesuffix(".keras"), RECIPES)
    if not path.is_file():
        raise invalid("zoo install", received=str(path), expected="a file that exists")
    expected = RECIPES[name].sha256 or _digest_beside(path)
    received = file_digest(os.fspath(path))
    if received != expected:
        fix = "Fetch it again, or make it: `dml zoo make`."
        raise invalid(f"SHA-256 of {path}", received=received, expected=expected, fix=fix)
    from common.deployment import load_embedder

    load_embedder(path)
    target = installed_path(name)
    with path.open("rb") as source:
        write_atomically(target, functools.partial(shutil.copyfileobj, source))
    return target


def _digest_beside(path: pathlib.Path) -> str:
    """Return the digest in the file that `sha256sum` or `make` wrote beside a model."""
    beside = path.with_name(f"{path.name}.sha256")
    words = beside.read_text("utf-8", "replace").split() if beside.is_file() else []
    if not words:
        raise invalid("zoo install", received=str(path), expected=f"its digest beside it, in {beside.name}")
    return words[0].lower()
