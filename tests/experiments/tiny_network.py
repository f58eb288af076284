"""A backbone of one convolution, for tests of what is done with a network, whichever it is."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from unittest import mock

import tensorflow as tf

from common.backbones.convolution import batch_normalization, convolution, freeze_batch_norm, rectifier
from common.backbones.pretrained_weights import initialize_weights
from experiments.settings import build
from experiments.studies import mnist_training

keras = tf.keras
STRIDE, CHANNELS = 8, 16


def tiny_network(input_channels=1, *, frozen_batch_norm=False, weights="none"):
    """What `resnet10` takes and gives, but 16 channels: most of what a run of a few steps costs is its graph."""
    images = keras.Input((None, None, input_channels), name="images")
    x = keras.layers.Rescaling(1 / 127.5, offset=-1, name="input_normalization")(images)
    x = convolution(x, CHANNELS, STRIDE + 1, "conv1", stride=STRIDE)
    model = keras.Model(images, rectifier(batch_normalization(x, "bn1"), "relu1"), name="tiny_network")
    if frozen_batch_norm:
        freeze_batch_norm(model)
    return initialize_weights(model, weights)


@contextlib.contextmanager
def in_place_of_small_networks() -> Iterator[None]:
    """What is trained or restored here as one of the small networks is the tiny one; other processes are not told."""
    backbones = mock.patch.dict(build.BACKBONES, resnet10=tiny_network, resnet20=tiny_network)
    with backbones, mock.patch.object(mnist_training.backbones, "resnet_v2_20", tiny_network):
        yield
