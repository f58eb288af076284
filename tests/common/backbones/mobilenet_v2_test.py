"""Tests of MobileNetV2 with the ImageNet parameters of torchvision, where they are at hand."""

from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from common.backbones.mobilenet_v2 import mobilenet_v2
from common.backbones.pretrained_weights import load_parameters, named_parameters
from common.errors import InvalidInput

SHARED_DATA = Path(__file__).resolve().parents[4] / "shared" / "data"
WEIGHTS = SHARED_DATA / "weights" / "mobilenet_v2_imagenet_torchvision.npz"
BIRDS = SHARED_DATA / "cub200_2010_10classes"

needs_weights = pytest.mark.skipif(not WEIGHTS.is_file(), reason="ImageNet parameters of MobileNetV2 are not here")
needs_birds = pytest.mark.skipif(not BIRDS.is_dir(), reason="the images of ten CUB-200-2010 classes are not here")


def test_names_are_torchvisions():
    names = named_parameters(mobilenet_v2()).keys()
    assert len(names) == 52 * 5  # convolutions, and four parameters of the batch norm after each
    assert {
        "features.0.0.weight",
        "features.1.conv.0.0.weight",
        "features.1.conv.1.weight",
        "features.1.conv.2.running_var",
        "features.2.conv.1.1.running_mean",
        "features.17.conv.3.bias",
        "features.18.1.bias",
    } <= names


def test_the_map_is_halved_where_table_2_says():
    layers = [layer for layer in mobilenet_v2().layers if isinstance(layer, tf.keras.layers.DepthwiseConv2D)]
    assert len(layers) == 17
    halving = [layer.name for layer in layers if tuple(layer.strides) == (2, 2)]
    assert halving == [f"features.{index}.conv.1.0" for index in (2, 4, 7, 14)]


def test_imagenet_weights_say_how_to_get_them():
    with pytest.raises(InvalidInput, match=r"convert_weights --backbone=mobilenet_v2 .*--weights=mobilenet_v2\.npz"):
        mobilenet_v2(weights="imagenet")


def test_other_channels():
    with pytest.raises(InvalidInput, match="input_channels"):
        mobilenet_v2(input_channels=4)
    assert mobilenet_v2(input_channels=1)(np.zeros((1, 32, 32, 1))).shape == (1, 1, 1, 1280)


@needs_weights
def test_imagenet_parameters_load_exactly():
    model = mobilenet_v2()
    result = load_parameters(model, WEIGHTS)
    assert set(result.loaded) == set(named_parameters(model))
    with np.load(WEIGHTS) as file:
        assert len(result.loaded) + len(result.ignored) == len(file.files)
        kernel = file["features.2.conv.1.0.weight"]  # depthwise: [channels, 1, height, width]
        variable = named_parameters(model)["features.2.conv.1.0.weight"].variable
        np.testing.assert_array_equal(np.asarray(variable)[..., 0], kernel[:, 0].transpose(1, 2, 0))
    assert all(name.startswith("classifier.") or name.endswith("num_batches_tracked") for name in result.ignored)


def bird_images():
    """Labels [images] and, in the same order, images [224, 224, 3]: shorter side 256, the middle 224 x 224."""
    labels, images = [], []
    for label, directory in enumerate(sorted((BIRDS / "CUB_200_2011" / "images").iterdir())):
        for path in sorted(directory.glob("*.jpg")):
            image = tf.cast(tf.io.decode_jpeg(path.read_bytes(), channels=3), tf.float32)
            scale = 256 / min(image.shape[:2])
            size = [round(side * scale) for side in image.shape[:2]]
            image = tf.image.resize(image, size, antialias=True)
            images.append(tf.image.resize_with_crop_or_pad(image, 224, 224).numpy())
            labels.append(label)
    return np.array(labels), images


def retrieval(features, labels):
    """(R@1, MAP@R) by cosine similarity, each image against all others; by sorting, in a loop."""
    features = features / np.linalg.norm(features, axis=1, keepdims=True)
    similarity = features @ features.T
    np.fill_diagonal(similarity, -np.inf)
    first, average_precision = [], []
    for query, label in enumerate(labels):
        relevant = np.sum(labels == label) - 1
        hits = labels[np.argsort(-similarity[query])[:relevant]] == label
        first.append(hits[0])
        average_precision.append(np.sum(hits * np.cumsum(hits) / np.arange(1, relevant + 1)) / relevant)
    return np.mean(first), np.mean(average_precision)


@pytest.mark.slow
@needs_weights
@needs_birds
def test_frozen_features_retrieve_birds():
    model = mobilenet_v2(weights=WEIGHTS)
    labels, images = bird_images()
    assert len(labels) == 294
    batches = [np.stack(images[start : start + 14]) for start in range(0, 294, 14)]
    extract = tf.function(lambda batch: tf.reduce_mean(model(batch, training=False), axis=(1, 2)))
    recall, map_at_r = retrieval(np.concatenate([extract(batch) for batch in batches]), labels)
    # Measured with PyTorch on the same images: .799 and .310.
    assert recall == pytest.approx(0.80, abs=0.03)
    assert map_at_r == pytest.approx(0.31, abs=0.03)
