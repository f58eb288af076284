"""Networks of `keras.applications`, with Keras' own ImageNet weights."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import tensorflow as tf
from tensorflow import keras

from common.backbones.convolution import freeze_batch_norm
from common.backbones.input_normalization import (
    CAFFE_MEAN_BGR,
    IMAGENET_MEAN,
    IMAGENET_STD,
    InputNormalization,
    check_image_channels,
)
from common.backbones.network_names import KERAS_APPLICATIONS
from common.backbones.parameter_files import check_weights_file
from common.backbones.pretrained_weights import initialize_weights
from common.errors import check_choice, invalid

# How the images of a network's training were normalised: `preprocess_input` of its module, as a layer's settings.
# Three means, also where they are equal, so that grey images become three channels.
NORMALIZATIONS: dict[str, dict[str, Any]] = {
    "caffe": {"mean": CAFFE_MEAN_BGR, "scale": 1.0, "channel_order": "bgr"},
    "torch": {"mean": IMAGENET_MEAN, "std": IMAGENET_STD},
    "minus_one_to_one": {"mean": (1.0, 1.0, 1.0), "scale": 1.0 / 127.5},
    "inside": {"mean": (0.0, 0.0, 0.0), "scale": 1.0},  # the network has layers for it
}

NEED_IMAGE_SIZE = ("NASNetLarge", "NASNetMobile")  # their branches fit only if padded for the very size


def keras_backbone(
    name: str,
    input_channels: int = 3,
    *,
    frozen_batch_norm: bool = True,
    weights: str | os.PathLike = "none",
    image_size: int | None = None,
) -> keras.Model:
    """Build a `keras.applications` network by its name, without its classifier.

    The network contains its own normalisation. Several of these networks choose their padding by the size of their
    images. Without a size, they pad as for multiples of 32. For other sizes the features then differ from Keras' (227:
    a map of 7 x 7 instead of 8 x 8).

    Args:
        name: one of `KERAS_APPLICATIONS`, e.g. "EfficientNetB0".
        input_channels: 3 (RGB), or 1 (grey, repeated to three channels).
        frozen_batch_norm: batch normalisation in inference mode, also in training; False when training from scratch.
        weights: "none"; "imagenet" (downloaded once, then from Keras' cache); the path of Keras' own `.h5` file.
        image_size: height and width of the images, in pixels; None: any. The smallest depends on the network.

    Input shape: [batch, height, width, input_channels], values 0..255.
    Output shape: [batch, height', width', channels]; height and width about a 32nd for most networks.

    Returns:
        a keras.Model

    Raises:
        InvalidInput: another name, number of channels or image size, no network, or a file that does not exist or fit.
    """
    check_choice("backbone", name, KERAS_APPLICATIONS)
    check_image_channels(input_channels)
    if image_size is None and name in NEED_IMAGE_SIZE:
        raise invalid("image_size", received=image_size, expected=f"a number of pixels; {name} is made for one size")
    if os.fspath(weights) not in ("none", "imagenet") and not os.fspath(weights).endswith(".h5"):
        raise invalid("weights", received=weights, expected=f'"none", "imagenet" or an .h5 file of Keras for {name}')
    application, normalization = getattr(keras.applications, name), KERAS_APPLICATIONS[name]
    images = keras.Input((image_size, image_size, input_channels), name="images")
    x = InputNormalization(**NORMALIZATIONS[normalization], name="input_normalization")(images)
    model = keras_application(application, x, weights)
    if frozen_batch_norm:
        freeze_batch_norm(model)
    return model


def keras_application(
    application: Callable[..., keras.Model],
    normalized_images: tf.Tensor,
    weights: str | os.PathLike,
    *,
    url: str | None = None,
) -> keras.Model:
    """Build a `keras.applications` network without classifier on normalised images.

    A layer of ours has normalised the images.

    Args:
        application: the function in `keras.applications`, e.g. `keras.applications.ResNet50`.
        normalized_images: symbolic [batch, height, width, 3], made from a `keras.Input`.
        weights: "none"; "imagenet" (downloaded once, then from Keras' cache); the path of Keras' own `.h5` file, or of
            an `.npz` file that `save_parameters` wrote.
        url: address of Keras' `.h5` file, if Keras' own message may omit it; shown when the download fails.

    Returns:
        a keras.Model from the images to feature maps [batch, height', width', channels]

    Raises:
        InvalidInput: no network, or a file that does not exist or does not fit.
    """
    from_keras = weights == "imagenet" or os.fspath(weights).endswith(".h5")
    if from_keras and weights != "imagenet":
        check_weights_file(weights)
    try:
        network = application(
            include_top=False, weights=weights if from_keras else None, input_tensor=normalized_images
        )
    except Exception as error:  # Keras raises a bare Exception when a download fails
        if not from_keras:
            raise invalid(
                "image_size",
                received=tuple(normalized_images.shape[1:3]),
                expected="images that are large enough for the network",
                fix=f"Keras says: {error}",
            ) from error
        file = f"The file that fits is {url}" if url else "The file that fits is the one of this network without top"
        raise invalid(
            "weights",
            received=weights,
            expected="a connection to the internet (imagenet), or a file that fits (a path)",
            fix=f"Keras says: {error}. {file}; its path can be given as the weights.",
        ) from error
    if 0 in network.output.shape:  # which Keras before 3.6 lets pass
        received, expected = tuple(normalized_images.shape[1:3]), "images that are large enough for the network"
        raise invalid("image_size", received=received, expected=expected)
    model = keras.Model(network.inputs[0], network.output, name=network.name)  # takes a tensor, not a list of one
    return model if from_keras else initialize_weights(model, weights)
