"""A training of a few seconds on letters in six fonts, in the process that calls it."""

import os
import pathlib
import sys
from unittest import mock

from PIL import Image
from tensorflow import keras

from common.commands.exit_code import CHECKPOINTS_KEPT, exit_code_of
from common.data.glyph_fonts import load_glyph_fonts
from experiments.recipes import resolve
from experiments.runs.unit_runs import UnitRuns
from experiments.settings import build
from experiments.settings.method_names import parse_method
from experiments.settings.places import Places

MAX_STEPS = 24
SETTINGS = {
    **{"backbone": "resnet10", "weights": "none", "frozen_batch_norm": False, "image_size": 32, "embedding_dim": 16},
    **{"classes_per_batch": 4, "samples_per_class": 2, "learning_rate": 0.001, "num_folds": 2, "chapter": 3},
    **{"steps_per_evaluation": 6, "max_steps": MAX_STEPS, "patience": 100},
}
WITH_CCP = {"proxies_per_class": 2, "pool_size": 3, "projection_patience": 2}


def draw_letters(folder):
    for font in load_glyph_fonts()[:6]:
        for character in "ABCDEFGHIJKLMNOPQRSTUVWX":
            path = pathlib.Path(folder) / character / f"{font.name}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(font.draw(ord(character), 48)).save(path)


def one_convolution(channels, *, frozen_batch_norm, weights):
    """The smallest network with batch normalisation, in place of a ResNet-10."""
    del frozen_batch_norm, weights
    layers = [keras.layers.Rescaling(1 / 128), keras.layers.Conv2D(16, 5, strides=2), keras.layers.BatchNormalization()]
    return keras.Sequential([keras.Input((None, None, channels)), *layers, keras.layers.ReLU()])


def train(images, folder, method, log):
    """Begin the run or resume it, with a checkpoint at each evaluation, and exit as a command does."""
    with open(log, "ab", buffering=0) as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    loss, kind, pooling = parse_method(method)
    settings = SETTINGS | (WITH_CCP if kind == "ccp" else {})
    config = resolve("folder", loss, pooling, "thesis", "smoke", settings, kind)
    cache = f"{folder}/cache"
    units = UnitRuns(build.load_dataset("folder", images, cache, 0), Places(f"{folder}/runs", cache))
    with mock.patch.dict(build.BACKBONES, {"resnet10": one_convolution}):
        sys.exit(exit_code_of(lambda: units.train(config, 0, 0, checkpoint_seconds=0.0), CHECKPOINTS_KEPT))
