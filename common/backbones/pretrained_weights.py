"""Parameters from files in PyTorch's names and tensor layouts.

A layer of our networks has the name of its module in torchvision, so a parameter's name in the file is
`<layer name>.<parameter>`. Only here does a layer's name matter: it is the file's address of the layer.
"""

from __future__ import annotations

import os
import pathlib
from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
import tensorflow as tf
from tensorflow import keras

from common.backbones.network_names import PACKAGED_WEIGHTS
from common.backbones.parameter_files import read_arrays, write_arrays
from common.backbones.transformer_layers import ClassTokenAndPositions, Prompts
from common.errors import invalid

# What a file may have beyond a backbone: the classifier, and PyTorch's counter of batches.
CLASSIFIER_PREFIXES = ("classifier.", "fc.", "head.", "last_linear.")
BATCH_COUNTER = ".num_batches_tracked"
PROMPTS = "prompts"  # what a file may lack: then they keep their random values


class LoadedParameters(NamedTuple):
    """The result of `load_parameters`: names `loaded`, and names in the file `ignored`."""

    loaded: tuple[str, ...]
    ignored: tuple[str, ...]


class Parameter(NamedTuple):
    """A variable of a network, and the permutation from the file's axes.

    The permutation turns the file's tensor into the variable's.
    """

    variable: tf.Variable
    axes: tuple[int, ...]

    @property
    def file_shape(self) -> tuple[int, ...]:
        """The shape in the file."""
        return tuple(int(self.variable.shape[axis]) for axis in np.argsort(self.axes))


def named_parameters(model: keras.Model) -> dict[str, Parameter]:
    """Return every variable of `model` under its name in PyTorch.

    | layer | PyTorch | Keras |
    |---|---|---|
    | convolution | weight [out, in, height, width] | kernel [height, width, in, out] |
    | depthwise convolution | weight [channels, 1, height, width] | kernel [height, width, channels, 1] |
    | dense | weight [out, in] | kernel [in, out] |
    | batch normalisation | weight, bias, running_mean, running_var | gamma, beta, moving_mean, moving_variance |
    | layer normalisation | weight, bias | gamma, beta |
    | embedding | weight [tokens, dim] | embeddings [tokens, dim] |
    | class token and positions | cls_token, pos_embed, without the layer's name | the same |
    | prompts | prompts [1, prompts, channels] | the same |

    Args:
        model: a functional keras.Model of such layers, not nested.

    Raises:
        ValueError: the model has a layer with weights of another kind.
    """
    parameters = {}
    for layer in model.layers:
        prefix = "" if isinstance(layer, ClassTokenAndPositions) else f"{layer.name}."
        for suffix, parameter in _layer_parameters(layer).items():
            parameters[f"{prefix}{suffix}"] = parameter
    return parameters


def _layer_parameters(layer: keras.layers.Layer) -> dict[str, Parameter]:
    layers, vector = keras.layers, (0,)
    if isinstance(layer, ClassTokenAndPositions):
        variables = {"cls_token": layer.cls_token, "pos_embed": layer.pos_embed}
        return {name: Parameter(variable, (0, 1, 2)) for name, variable in variables.items()}
    if isinstance(layer, Prompts):
        return {PROMPTS: Parameter(layer.prompts, (0, 1, 2))}
    if isinstance(layer, layers.LayerNormalization):
        return {"weight": Parameter(layer.gamma, vector), "bias": Parameter(layer.beta, vector)}
    if isinstance(layer, layers.BatchNormalization):
        return {
            "weight": Parameter(layer.gamma, vector),
            "bias": Parameter(layer.beta, vector),
            "running_mean": Parameter(layer.moving_mean, vector),
            "running_var": Parameter(layer.moving_variance, vector),
        }
    if not layer.weights:
        return {}
    kernel_axes = {
        layers.DepthwiseConv2D: (2, 3, 0, 1),
        layers.Conv2D: (2, 3, 1, 0),
        layers.Dense: (1, 0),
        layers.Embedding: (0, 1),
    }
    for kind, axes in kernel_axes.items():
        if isinstance(layer, kind):
            parameters = (Parameter(layer.weights[0], axes), *(Parameter(bias, (0,)) for bias in layer.weights[1:]))
            return dict(zip(("weight", "bias"), parameters))
    raise ValueError(f"No conversion for the layer {layer.name!r} of type {type(layer).__name__}; add it here.")


def load_parameters(
    model: keras.Model, path: str | os.PathLike, rename: Callable[[Mapping[str, np.ndarray]], Mapping] = dict
) -> LoadedParameters:
    """Set every variable of `model` from a file in PyTorch's names and layout.

    All or nothing: the file must have each of the network's parameters, in its shape, and nothing else except a
    classifier and PyTorch's batch counters. It may lack prompts, which then stay random.

    Args:
        model: a backbone as the functions of this package return it.
        path: an `.npz` file with one array per parameter, or a checkpoint (`.pth`, `.safetensors`); no code in it runs.
        rename: from the file's arrays by name to those by the network's names.

    Returns:
        The names that were loaded, and those of the file that were not needed.

    Raises:
        InvalidInput: the file cannot be read, or does not fit; every missing, unknown and misshapen name is listed.

    Examples:
        `load_parameters(mobilenet_v2(), "mobilenet_v2.npz").ignored` is ("classifier.1.bias", ...).
    """
    return assign_parameters(model, rename(read_arrays(path)), source=path)


def assign_parameters(
    model: keras.Model, values: Mapping[str, np.ndarray], *, source: str | os.PathLike
) -> LoadedParameters:
    """Set every variable of `model` from arrays in PyTorch's names and layouts.

    All or nothing. Vectors may have the shape [1, channels], as in files that were ported before PyTorch 0.4
    (BN-Inception's).

    Args:
        model: a backbone as the functions of this package return it.
        values: arrays by name.
        source: of the arrays, for the message.

    Returns:
        The names that were assigned, and those that were not needed.

    Raises:
        InvalidInput: the arrays do not fit; every missing, unknown and misshapen name is listed.
    """
    expected = named_parameters(model)
    others = values.keys() - expected.keys()
    ignored = {name for name in others if name.startswith(CLASSIFIER_PREFIXES) or name.endswith(BATCH_COUNTER)}
    found = {name: _squeezed(values[name], expected[name].file_shape) for name in expected if name in values}
    problems = {
        "missing": sorted(name for name in expected.keys() - found.keys() if not name.endswith(f".{PROMPTS}")),
        "unknown": sorted(others - ignored),
        "wrong shape": [
            f"{name} {list(value.shape)} instead of {list(expected[name].file_shape)}"
            for name, value in found.items()
            if value.shape != expected[name].file_shape
        ],
        "not finite floating-point numbers": sorted(name for name, value in found.items() if not _is_finite(value)),
    }
    if any(problems.values()):
        listing = "; ".join(f"{kind} ({len(names)}): {', '.join(names)}" for kind, names in problems.items() if names)
        raise invalid(
            "weights",
            received=os.fspath(source),
            expected=f"a file with the {len(expected)} parameters of {model.name}",
            fix=f"In this file: {listing}. Choose the backbone that the file was made for.",
        )
    for name, value in found.items():
        variable, axes = expected[name]
        variable.assign(value.transpose(axes).astype(np.float32))
    return LoadedParameters(tuple(found), tuple(sorted(ignored)))


def _squeezed(value: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    return value.reshape(shape) if value.shape == (1, *shape) else value


def _is_finite(value: np.ndarray) -> bool:
    return np.issubdtype(value.dtype, np.floating) and bool(np.isfinite(value).all())


def save_parameters(model: keras.Model, path: str | os.PathLike, *, source_sha256: str | None = None) -> None:
    """Write every variable of `model` to an `.npz` file.

    `load_parameters` can read it, and so can PyTorch after renaming.

    Args:
        model: a backbone as the functions of this package return it.
        path: ends with ".npz"; the file appears when it is complete.
        source_sha256: of the published file that the parameters come from, kept in the file, or None.

    Raises:
        InvalidInput: another extension, or a place that is not writable.
    """
    values = {
        name: np.transpose(np.asarray(variable), np.argsort(axes))
        for name, (variable, axes) in named_parameters(model).items()
    }
    write_arrays(path, values, source_sha256)


def initialize_weights(
    model: keras.Model,
    weights: str | os.PathLike,
    *,
    rename: Callable[[Mapping[str, np.ndarray]], Mapping] = dict,
) -> keras.Model:
    """Give `model` the requested weights.

    Args:
        model: a backbone that has just been built.
        weights: "none" (keep the random ones), "imagenet" (those in this package; others raise, for they cannot be
            fetched), or a path for `load_parameters`.
        rename: see `load_parameters`.

    Returns:
        `model`

    Raises:
        InvalidInput: see above and `load_parameters`.
    """
    if weights == "none":
        return model
    check_imagenet(model.name, weights)
    if weights == "imagenet":
        weights = pathlib.Path(__file__).parent / "imagenet" / f"{model.name}.npz"
    load_parameters(model, weights, rename)
    return model


def check_imagenet(network: str, weights: str | os.PathLike, instructions: str | None = None) -> None:
    """Refuse "imagenet" for a network whose weights are not in this package.

    Call it before the network is built.

    Args:
        network: its name.
        weights: see `initialize_weights`.
        instructions: one or two sentences on how to get a file with ImageNet weights, or None.
    """
    if weights == "imagenet" and network not in PACKAGED_WEIGHTS:
        raise invalid(
            "weights",
            received=weights,
            expected='"none" or the path of a file (.npz, .pth, .safetensors)',
            fix=instructions or f"There are no ImageNet weights for {network}.",
        )
