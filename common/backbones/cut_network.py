"""A network cut into a fixed lower and a trained upper part."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

import tensorflow as tf
from tensorflow import keras

from common.backbones.network_names import HEAD
from common.errors import invalid


@keras.utils.register_keras_serializable(package="deep_metric_learning")
class CutNetwork(keras.Model):
    """`upper(lower(images))`, with a lower part that never trains.

    The lower part always runs in inference mode and receives no gradient. Batch normalisation and drop-out below the
    cut are in inference mode even in training. The activations at the cut are therefore a function of the image alone
    and may be computed once. Above the cut, the network is unchanged. Exact gradient above the cut, none below.

    Args:
        lower: images `[batch, height, width, channels]` to the activations at the cut; its weights stop training.
        upper: activations at the cut to feature maps.

    Input shape: [batch, height, width, channels]
    Output shape: that of `upper`
    """

    def __init__(self, lower: keras.Model, upper: keras.Model, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        lower.trainable = False
        self.lower, self.upper = lower, upper

    def call(self, images: tf.Tensor, training: bool | None = None) -> tf.Tensor:  # noqa: D102
        return through_cut(self.lower, self.upper, images, training=training)

    def get_config(self) -> dict:  # noqa: D102
        parts = {"lower": self.lower, "upper": self.upper}
        return {name: keras.utils.serialize_keras_object(part) for name, part in parts.items()}

    @classmethod
    def from_config(cls, config: dict, custom_objects: dict | None = None) -> CutNetwork:
        """Return the network that `get_config` describes, without its weights."""
        return cls(*(keras.utils.deserialize_keras_object(config[name], custom_objects) for name in ("lower", "upper")))


def through_cut(
    lower: Callable[..., tf.Tensor], upper: Callable[..., tf.Tensor], images: tf.Tensor, *, training: bool | None = None
) -> tf.Tensor:
    """Compute the output of a `CutNetwork` of these or equivalent parts.

    See `CutNetwork`.
    """
    return upper(tf.stop_gradient(lower(images, training=False)), training=training)


def cut_network(network: keras.Model, trained_from: str) -> CutNetwork:
    """Cut a network in two parts, which share its layers.

    Args:
        network: a backbone as the functions of this package return it.
        trained_from: the first part above the cut: `head` for everything behind the network, the name of a layer, or
            the prefix of a stage's or block's layer names ("layer4", "features.17", "block_16"). The whole signal from
            the images has to pass through the one place below it; a block with a shortcut has no such place inside.

    Returns:
        the two parts. With `head`, `upper` is the identity.

    Raises:
        InvalidInput: no such layer, or no place to cut below it; lists the names that can be given.
    """
    if trained_from == HEAD:
        features = keras.Input(network.output.shape[1:], name="features")
        return CutNetwork(network, keras.Model(features, keras.layers.Activation("linear", name="cut")(features)))
    places = _places(network)
    if trained_from not in places:
        raise invalid(
            "--trained_from",
            received=trained_from,
            expected=f"{HEAD}, or where {network.name} can be cut: {', '.join(_listed(places))}",
        )
    activations = places[trained_from].below.output
    lower = keras.Model(network.input, activations)
    return CutNetwork(lower, keras.Model(activations, network.output))


class _Place(NamedTuple):
    """A cut: the layer whose output it keeps, and the first one above."""

    below: keras.layers.Layer
    above: keras.layers.Layer


def _places(network: keras.Model) -> dict[str, _Place]:
    """Return the possible cuts of a network, by every name of each.

    In an order in which a layer comes after its inputs, a position behind a layer is a cut if no connection crosses it.
    A layer with weights must lie below, and the cut must hold a feature map or tokens.
    """
    order = [layer for layer in network.layers if not isinstance(layer, keras.layers.InputLayer)]
    number = {id(layer.output): index for index, layer in enumerate(order)}
    sources = [[number.get(id(tensor), -1) for tensor in _inputs(layer)] for layer in order]
    can_be_cut_behind = _without_arrows_over(sources)
    first_weights = min(index for index, layer in enumerate(order) if layer.weights)
    places: dict[str, _Place] = {}
    seen: set[str] = set()
    for layer, taken in zip(order, sources):
        names = [name for name in _names(layer.name) if name not in seen]
        seen.update(names)
        below = taken[0]
        if len(taken) > 1 or below < first_weights or not can_be_cut_behind[below]:
            continue
        if len(order[below].output.shape) in (3, 4):
            places |= dict.fromkeys(names, _Place(order[below], layer))
    return places


def _without_arrows_over(sources: list[list[int]]) -> list[bool]:
    """Return for each layer whether no connection crosses its input.

    That is, no later layer takes from an earlier one. `sources` has the numbers of each layer's inputs.
    """
    farthest = list(range(len(sources)))  # the last layer that takes from this one
    for index, taken in enumerate(sources):
        for source in taken:
            farthest[max(source, 0)] = index
    reach = [0, *itertools.accumulate(farthest, max)]  # of all layers before this one
    return [reach[index] <= index for index in range(len(sources))]


def _inputs(layer: keras.layers.Layer) -> list[tf.Tensor]:
    return list(layer.input) if isinstance(layer.input, (list, tuple)) else [layer.input]


def _names(name: str) -> list[str]:
    """Return a layer's name and its prefixes before a dot or underscore.

    The prefixes name stages and blocks.
    """
    return [*(name[:end] for end, letter in enumerate(name) if letter in "._"), name]


def _listed(places: dict[str, _Place]) -> list[str]:
    """Return the shortest name of each place before a convolution or block.

    Blocks are a transformer's; the order is from the images on.
    """
    layers = keras.layers
    firsts = (layers.Conv2D, layers.DepthwiseConv2D, layers.ZeroPadding2D, layers.LayerNormalization)
    names: dict[int, str] = {}
    for name, place in places.items():
        if isinstance(place.above, firsts):
            names[id(place.below)] = min(names.get(id(place.below), name), name, key=len)
    return list(names.values())
