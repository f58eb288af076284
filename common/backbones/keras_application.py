"""Networks of `keras.applications`, with Keras' own ImageNet weights."""

from __future__ import annotations

import os

import tensorflow as tf

from common.backbones.pretrained_weights import check_weights_file, initialize_weights
from common.ops.checks import invalid

keras = tf.keras


def keras_application(application, normalized_images, weights, *, url):
    """A network of `keras.applications` without its classifier, on images that a layer of ours has normalised.

    Args:
        application: the function in `keras.applications`, e.g. `keras.applications.ResNet50`.
        normalized_images: symbolic [batch, height, width, 3], made from a `keras.Input`.
        weights: "none"; "imagenet" (downloaded once, then from Keras' cache); the path of Keras' own `.h5` file, or of
            an `.npz` file that `save_parameters` wrote.
        url: where Keras has the `.h5` file; shown when the download fails.

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
        raise invalid(
            "weights",
            received=weights,
            expected="a connection to the internet (imagenet), or a file that fits (a path)",
            fix=f"Keras says: {error}. The file that fits is {url}; its path can be given as the weights.",
        ) from error
    model = keras.Model(network.inputs[0], network.output, name=network.name)  # takes a tensor, not a list of one
    return model if from_keras else initialize_weights(model, weights)
