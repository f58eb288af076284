"""Presets of keras-hub with random weights, in folders as its own `save_to_preset` writes them."""

from __future__ import annotations

import pathlib

import pytest
import tensorflow as tf

IMAGENET = {"scale": [0.017, 0.018, 0.0175], "offset": [-2.1, -2.0, -1.8]}


def keras_hub():
    """The module, or a skip with the reason."""
    if tf.keras.__name__.startswith("keras.api._v2"):
        pytest.skip("keras-hub needs Keras 3")
    return pytest.importorskip("keras_hub", reason="keras-hub, an extra, is not installed")


def tiny_dinov2(folder: pathlib.Path, registers: int = 2) -> pathlib.Path:
    """Patches of 8 pixels, 2 blocks of 16 channels, positions of 64 x 64 pixels."""
    hub = keras_hub()
    network = hub.models.DINOV2Backbone(
        patch_size=8,
        num_layers=2,
        hidden_dim=16,
        num_heads=2,
        intermediate_dim=32,
        num_register_tokens=registers,
        image_shape=(64, 64, 3),
        position_embedding_shape=(64, 64, 3),
    )
    return _written(network, hub.layers.DINOV2ImageConverter(image_size=(64, 64), **IMAGENET), folder)


def tiny_vit(folder: pathlib.Path, **settings: object) -> pathlib.Path:
    """Patches of 8 pixels, images of 32, 2 blocks of 16 channels."""
    hub = keras_hub()
    network = hub.models.ViTBackbone(
        **{
            "image_shape": (32, 32, 3),
            "patch_size": 8,
            "num_layers": 2,
            "num_heads": 2,
            "hidden_dim": 16,
            "mlp_dim": 32,
            **settings,
        }
    )
    return _written(network, hub.layers.ViTImageConverter(image_size=(32, 32), scale=1 / 127.5, offset=-1.0), folder)


def dinov2_small(folder: pathlib.Path) -> pathlib.Path:
    """The shapes of `dinov2_small`: patches of 14 pixels, blocks (two) of 384 channels and 6 heads, 224 pixels."""
    hub = keras_hub()
    network = hub.models.DINOV2Backbone(
        patch_size=14,
        num_layers=2,
        hidden_dim=384,
        num_heads=6,
        intermediate_dim=1536,
        image_shape=(224, 224, 3),
        position_embedding_shape=(518, 518, 3),
    )
    return _written(network, hub.layers.DINOV2ImageConverter(image_size=(224, 224), **IMAGENET), folder)


def _written(network, converter, folder: pathlib.Path) -> pathlib.Path:
    network.save_to_preset(str(folder))
    converter.save_to_preset(str(folder))
    return folder
