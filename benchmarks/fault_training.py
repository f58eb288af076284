"""The short training of the fault harness, with faults inside the process."""

from __future__ import annotations

import contextlib
import errno
import functools
import io
import math
import os
import pathlib
import sys
import time
import types
from collections.abc import Callable
from typing import NamedTuple
from unittest import mock

import numpy as np
import tensorflow as tf
from PIL import Image

from common.data.glyph_fonts import load_glyph_fonts
from common.files import atomic
from common.records import run_directory
from common.training import EmbeddingModel
from experiments.process.exit_code import CHECKPOINTS_KEPT, exit_code_of
from experiments.runs.unit_runs import UnitRuns
from experiments.settings import build
from experiments.settings.config import ExperimentConfig
from experiments.settings.places import Places
from experiments.settings.recipes import resolve

keras = tf.keras

METHODS = ("c1+xbm+gap", "c2+ccp+gap")
_CHARACTERS = "ABCDEFGHIJKLMNOPQRSTUVWX"
_NUM_FONTS = 6
MAX_STEPS = 24
_TEN_YEARS = 10 * 365.25 * 24 * 3600
_SETTINGS = {
    "backbone": "resnet10",
    "weights": "none",
    "frozen_batch_norm": False,
    "image_size": 32,
    "embedding_dim": 16,
    "classes_per_batch": 4,
    "samples_per_class": 2,
    "learning_rate": 0.001,
    "num_folds": 2,
    "steps_per_evaluation": 6,
    "max_steps": MAX_STEPS,
    "patience": 100,
    "chapter": 3,
}


class Place(NamedTuple):
    """The folders and the method of a run.

    Attributes:
        images: folder of the glyphs, a folder per class.
        cache: folder of the prepared copies.
        runs: folder of the results.
        method: one of `METHODS`.
    """

    images: str
    cache: str
    runs: str
    method: str

    def configuration(self) -> ExperimentConfig:
        """Return a configuration of a few steps, with `one_convolution` as the backbone."""
        loss, method, pooling = build.parse_method(self.method)
        overrides = dict(_SETTINGS)
        if method == "ccp":
            overrides |= {"proxies_per_class": 2, "pool_size": 3, "projection_patience": 2}
        return resolve("folder", loss, pooling, "thesis", "smoke", overrides, method)

    def unit_runs(self) -> UnitRuns:
        """Return the data and the location of the run's folder."""
        return UnitRuns(build.load_dataset("folder", self.images, self.cache, 0), Places(self.runs, self.cache))


def draw_images(folder: str) -> None:
    """Write a few letters in a few fonts as PNG files.

    Each letter has a folder.
    """
    for font in load_glyph_fonts()[:_NUM_FONTS]:
        for character in _CHARACTERS:
            path = pathlib.Path(folder) / character / f"{font.name}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(font.draw(ord(character), 48)).save(path)


def one_convolution(channels: int, *, frozen_batch_norm: bool, weights: str) -> keras.Model:
    """Build the smallest network with batch normalisation.

    It maps images `[batch, height, width, channels]` to 16 channels.
    """
    del frozen_batch_norm, weights
    layers = [keras.layers.Rescaling(1 / 128), keras.layers.Conv2D(16, 5, strides=2), keras.layers.BatchNormalization()]
    return keras.Sequential([keras.Input((None, None, channels)), *layers, keras.layers.ReLU()])


def run_session(place: Place, fault: str | None, delay: float, step: int, log: str) -> None:
    """Train or resume in a separate process; exit like a command.

    Args:
        place: see `Place`.
        fault: one of `INSIDE`, or None.
        delay: seconds from now until the disk is full, cannot be written, or the clock jumps.
        step: which step of this session has the NaN, from 0.
        log: file for the terminal's output.
    """
    with open(log, "ab", buffering=0) as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    broken = INSIDE[fault](time.monotonic() + delay, step) if fault else contextlib.nullcontext()
    with broken, mock.patch.dict(build.BACKBONES, {"resnet10": one_convolution}):
        training = functools.partial(place.unit_runs().train, place.configuration(), 0, 0, checkpoint_seconds=0.0)
        code = exit_code_of(training, CHECKPOINTS_KEPT)
    sys.exit(code)


@contextlib.contextmanager
def full_disk(due: float, step: int):
    """End writes to the run's folder with ENOSPC from `due` on.

    Some bytes are still written.
    """
    del step

    class FullDisk(io.BufferedWriter):
        def write(self, data):
            if time.monotonic() < due:
                return super().write(data)
            data = memoryview(data).cast("B")
            super().write(data[: data.nbytes // 2])
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def open_for_append(path, mode="r", **settings):
        if time.monotonic() >= due and mode != "r":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        return open(path, mode, **settings)

    with _opened_by(open_for_append, lambda path, mode: FullDisk(io.FileIO(path, mode))):
        yield


@contextlib.contextmanager
def read_only(due: float, step: int):
    """Refuse to open the run's files for writing from `due` on (EROFS).

    New files are refused too.
    """
    del step

    def open_file(path, mode="r", **settings):
        if mode != "r" and time.monotonic() >= due:
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(path))
        return open(path, mode, **settings)

    with _opened_by(open_file, open_file):
        yield


@contextlib.contextmanager
def _opened_by(open_file: Callable, open_temporary: Callable):
    """Open the run's log and the temporary files by the given functions.

    `open_temporary` gets (path, mode) of the files of atomic writing.
    """

    class FaultyPath(type(pathlib.Path())):
        def open(self, mode="r", *arguments, **settings):
            if mode.startswith("r"):
                return super().open(mode, *arguments, **settings)
            return open_temporary(os.fspath(self), mode)

    patched = types.SimpleNamespace(**{**vars(pathlib), "Path": FaultyPath})
    with (
        mock.patch.object(run_directory, "open", open_file, create=True),
        mock.patch.object(atomic, "pathlib", patched),
    ):
        yield


@contextlib.contextmanager
def clock_jump(due: float, step: int):
    """Shift the wall clock ten years back or forth, from `due` on.

    The first call goes back; directions alternate.
    """
    del step
    now, calls = time.time, []

    def jumping():
        if time.monotonic() < due:
            return now()
        calls.append(1)
        return now() + (_TEN_YEARS if len(calls) % 2 == 0 else -_TEN_YEARS)

    with mock.patch.object(time, "time", jumping):
        yield


def not_finite(where: str) -> Callable:
    """Return a fault with a NaN loss or gradient at one step.

    The gradient is NaN behind a finite loss.
    """

    @contextlib.contextmanager
    def fault(due: float, step: int):
        del due
        original, steps = EmbeddingModel.training_loss, []

        def factor():
            steps.append(1)
            return np.float32(math.nan if len(steps) == step + 1 else 1.0)

        def spoiled(model, inputs, labels):
            loss = original(model, inputs, labels)
            factor_now = tf.ensure_shape(tf.numpy_function(factor, [], tf.float32), [])
            if where == "loss":
                return loss * factor_now

            @tf.custom_gradient
            def spoil_gradient(value):
                return tf.identity(value), lambda upstream: upstream * factor_now

            return spoil_gradient(loss)

        with mock.patch.object(EmbeddingModel, "training_loss", spoiled):
            yield

    return fault


INSIDE = {
    "disk full": full_disk,
    "read-only folder": read_only,
    "clock jump": clock_jump,
    "NaN in the loss": not_finite("loss"),
    "NaN in a gradient": not_finite("gradient"),
}
