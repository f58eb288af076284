"""Export of a run's model with its card: one format, or `model.keras`."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from common import training
from common.data import Dataset
from common.errors import InvalidInput, check_choice, check_given, check_positive, invalid
from common.files import write_text
from common.progress import write_notice
from experiments.deployment.model_card import Written, check_card, model_card
from experiments.deployment.run_model import Agreement, RunModel
from experiments.runs.trained_model import run_configuration
from experiments.settings import build

if TYPE_CHECKING:
    from common.deployment.formats import Embed

MODEL = "model.keras"
_NAMES = {
    **{"keras": MODEL, "keras_float16": MODEL},
    **{"savedmodel": "saved_model", "tflite": "model.tflite", "onnx": "model.onnx"},
}
FORMAT_NAMES = tuple(_NAMES)  # of `common.deployment.formats.FORMATS`, without its TensorFlow
_LACKING = {"gemax": "the Cholesky factorisation"}  # operations of poolings that neither TFLite nor ONNX has
_CHECKED_AFTER_TRAINING = 32  # test images


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
    dataset = build.load_dataset_of(config, data_dir, cache_dir)
    return write_run(RunModel(run, dataset, cache_dir, num_checked), name, path)


def check_output(path: pathlib.Path, name: str) -> None:
    """Raise `InvalidInput` unless a model and its card can be written to `path`."""
    check_choice("--format", name, FORMAT_NAMES)
    ending = pathlib.Path(_NAMES[name]).suffix
    if ending and path.suffix != ending:
        raise invalid("--output", received=str(path), expected=f"a name that ends in {ending}")
    if path.is_dir():
        raise invalid("--output", received=str(path), expected="a place where there is no folder yet")
    check_card(path, name)


def check_pooling(name: str, pooling: str) -> None:
    """Raise `InvalidInput` if the format `name` lacks an operation of a pooling."""
    if name in ("tflite", "onnx") and pooling in _LACKING:
        expected = f"keras or savedmodel: it lacks {_LACKING[pooling]} that {pooling} pools by"
        raise invalid("--format", received=name, expected=expected)


def write_run(run: RunModel, name: str, path: pathlib.Path, notes: Sequence[str] = ()) -> Written:
    """Write a model with its card."""
    from common.deployment.formats import write_format

    found: list[Agreement] = []

    def check(embed: Embed) -> None:
        found.append(run.agreement(embed, name))

    write_format(run.model, path, name, check)
    written = Written(name, path, check_given("agreement", found[0]), notes)
    write_text(written.card, model_card(run, written))
    return written


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
