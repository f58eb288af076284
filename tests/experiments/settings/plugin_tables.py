"""The tables that plug-ins add to, as they were before; and plug-ins of a few lines."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from unittest import mock

from common.backbones.by_name import BACKBONES
from common.training.trackers import TRACKERS
from experiments.parts.registry import TABLES
from tests.support.sources import ROOT

SOURCE = '''"""A loss, a pooling, a backbone and a data set of one's own, as small as they can be."""

import dataclasses
from typing import Annotated

import numpy as np
import tensorflow as tf
from tensorflow import keras

from common import miners
from common.data import Dataset, Examples, MPerClassBatches, NoAugmentation
from common.losses import MetricLoss
from common.ops.reductions import masked_mean
from common.references.comparison import compare
from common.parameters import POSITIVE, Count, NumberRange, Share
from common.training.trackers import TrackedRun


@keras.utils.register_keras_serializable(package="tiny_plugin")
class PullLoss(MetricLoss):
    """Pull loss: positives come together.

    Args:
        scale: of the similarities.
    """

    def __init__(self, scale: Annotated[float, POSITIVE] = 2, **kwargs):
        super().__init__(**kwargs)
        self.scale = scale

    def call(self, embeddings, labels, references=None):
        pairs = compare(embeddings, labels, references, normalization=self.normalization)
        products = tf.matmul(pairs.anchors, pairs.references, transpose_b=True)
        return masked_mean(tf.nn.softplus(-self.scale * products), pairs.positive)

    def get_config(self):
        return {**super().get_config(), "scale": self.scale}


@keras.utils.register_keras_serializable(package="tiny_plugin")
class PowerPooling(keras.layers.Layer):
    """Power pooling.

    Args:
        power: exponent.
    """

    def __init__(self, power: Annotated[int, NumberRange(low=1, low_included=True)] = 2, **kwargs):
        super().__init__(**kwargs)
        self.power = power

    def call(self, features):
        return tf.reduce_mean(tf.abs(features) ** self.power + 1e-6, axis=(1, 2)) ** (1 / self.power)

    def get_config(self):
        return {**super().get_config(), "power": self.power}


def strided(input_channels: int = 1, width: Annotated[int, POSITIVE] = 8) -> keras.Model:
    """One convolution.

    Args:
        width: channels.
    """
    images = keras.Input((None, None, input_channels))
    scaled = keras.layers.Rescaling(1 / 255)(images)
    return keras.Model(images, keras.layers.Conv2D(width, 9, 8, activation="relu")(scaled))


@keras.utils.register_keras_serializable(package="tiny_plugin")
class LaterTriplets(keras.layers.Layer):
    """Random triplets of a later step.

    Args:
        steps: by which it is later.
    """

    def __init__(self, steps: Count = 1, **kwargs):
        super().__init__(**kwargs)
        self.steps = steps

    def triplets(self, embeddings, labels, seed, references=None):
        return miners.random_triplets(embeddings, labels, seed + self.steps, references)


class ReversedBatches(MPerClassBatches):
    """Batches from the last epoch on.

    Args:
        last: epoch.
    """

    def __init__(self, labels, classes_per_batch, samples_per_class, seed, last: Count = 100):
        super().__init__(labels, classes_per_batch, samples_per_class, seed)
        self.last = last

    def epoch(self, epoch):
        return super().epoch(self.last - epoch)


def momentum(learning_rate: float, speed: Share = 0.9):
    """Gradient descent with momentum.

    Args:
        speed: kept from step to step.
    """
    return keras.optimizers.SGD(learning_rate, momentum=speed)


@dataclasses.dataclass(frozen=True)
class Darker(NoAugmentation):
    """Darker images.

    Args:
        by: subtracted.
    """

    by: Count = 9

    def __call__(self, image, seed=(0, 0)):
        return tf.maximum(tf.cast(image, tf.int32), self.by) - self.by


class Lines(TrackedRun):
    def _send(self, values, step):
        with open(self.folder / "lines.txt", "a") as file:
            file.write(f"{step} {sorted(values)}\\n")


def load_stripes(data_dir=None, *, cache_dir=None, seed=0):
    generator = np.random.default_rng(seed)
    labels = np.repeat(np.arange(8), 4)
    waves = 90 * np.sin(np.arange(32) * (labels[:, None] + 1) / 6)[:, None, :, None]
    images = np.clip(127 + waves + generator.normal(0, 20, (len(labels), 32, 32, 1)), 0, 255).astype(np.uint8)
    seen = labels < 4
    train, test = (Examples(labels[part], images[part]) for part in (seen, ~seen))
    return Dataset("stripes", train, test, kind="memory_images", native_size=32, channels=1)


def register(registry):
    registry.loss("pull", PullLoss)
    registry.pooling("power", PowerPooling)
    registry.miner("later", LaterTriplets)
    registry.sampler("reversed", ReversedBatches)
    registry.optimizer("momentum", momentum)
    registry.augmentation("darker", Darker)
    registry.tracker("lines", Lines)
    registry.backbone("strided", strided)
    registry.dataset("stripes", load_stripes, recipe_of="glyphs", needs_files=False)
'''
# A method of one file: a callback, a flag, a conflict and a figure.
COUNTING = '''
import dataclasses

from common.errors import InvalidInput
from common.parameters import Count
from common.records import ResumableCallback
from common.training.method import Attached, Method


@dataclasses.dataclass(frozen=True, kw_only=True)
class Counting(Method):
    """Counting of steps.

    Args:
        every: steps that count as one.
    """

    every: Count = 1

    def conflicts(self, config):
        if config.replicas:
            yield InvalidInput("--method=counting counts on one device.")

    def attach(self, run):
        class Counter(ResumableCallback):
            steps = 0

            def on_train_batch_end(self, batch, logs=None):
                self.steps += 1

        counter = Counter()
        return Attached(callbacks=[counter], figures=lambda embeddings: {"counted": counter.steps // self.every})


def register(registry):
    registry.method("counting", Counting)
'''
# A run of a few steps with all that it registers.
ARGUMENTS = [
    *("--dataset=stripes", "--methods=pull+power", "--backbone=strided", "--budget=smoke", "--num_folds=2"),
    *(
        "--classes_per_batch=2",
        "--samples_per_class=2",
        "--embedding_dim=8",
        "--max_steps=2",
        "--steps_per_evaluation=1",
    ),
]


@contextlib.contextmanager
def restored_tables() -> Iterator[None]:
    """All that plug-ins register inside is gone afterwards, and so are modules of no package."""
    imported = set(sys.modules)
    with contextlib.ExitStack() as stack:
        for table in (*TABLES.values(), BACKBONES, TRACKERS):
            stack.enter_context(mock.patch.dict(table))
        yield
    for name in sys.modules.keys() - imported:
        file = getattr(sys.modules[name], "__file__", None) or sys.base_prefix
        if "site-packages" not in file and not file.startswith((sys.base_prefix, str(ROOT))):
            del sys.modules[name]
