"""A network with frozen batch normalisation folded into its convolutions.

It has the same weights and makes fewer passes.
"""

from __future__ import annotations

import collections
import functools
import inspect
from collections.abc import Callable
from typing import NamedTuple

import tensorflow as tf
from tensorflow import keras

from common.backbones.cut_network import CutNetwork, through_cut

FeatureFunction = Callable[..., tf.Tensor]


def folded_network(network: keras.Model) -> tuple[FeatureFunction, int]:
    """Fold a network's frozen batch normalisations into the convolutions below them.

    Normalised by fixed statistics, a convolution is a convolution:

        gamma (K * x + b - mean) / sqrt(variance + epsilon) + beta = (s K) * x + s (b - mean) + beta,
        s = gamma / sqrt(variance + epsilon)

    so the maps are not read and written once more for the normalisation. The kernel is scaled at every call, in the
    precision of the weights. The weights, their names and their order stay those of the network, which trains, is saved
    and is exported as before. Exact gradient for all weights. A convolution is not folded if its map is also used
    elsewhere, has an activation or comes from groups, or if batch normalisation computes statistics of the batch.

    Args:
        network: a backbone as the functions of this package return it, or a `CutNetwork`. Nothing is folded in nested
            networks, or in a network that is no graph of layers.

    Returns:
        A function `(inputs, training=False)` of the network's inputs, `[batch, height, width, channels]`, with the
        network's outputs up to rounding; and the number of batch normalisations that it folds.

    Example:
        >>> features_of, num_folded = folded_network(mobilenet_v2())
        >>> features = features_of(tf.zeros([2, 64, 64, 3]), training=True)
    """
    if isinstance(network, CutNetwork):
        (lower, num_lower), (upper, num_upper) = folded_network(network.lower), folded_network(network.upper)
        parts = functools.partial(through_cut, lower, upper)
        return parts, num_lower + num_upper
    if not hasattr(network, "_nodes_by_depth") or len(network.inputs) > 1 or len(network.outputs) > 1:
        return network, 0
    graph = _FoldedGraph(network)
    return graph, graph.num_folded


class _Step(NamedTuple):
    """The call of a layer.

    Attributes:
        layer: the called layer.
        arguments: positional and keyword ones; symbolic tensors stand for those of earlier steps.
        outputs: symbolic.
        takes_training: whether the layer distinguishes training from inference.
        convolution: the convolution below a batch normalisation; its input is this step's argument.
    """

    layer: keras.layers.Layer
    arguments: tuple[tuple, dict]
    outputs: list
    takes_training: bool
    convolution: keras.layers.Layer | None = None

    def tensors(self) -> list[int]:
        """Return the identities of the step's input tensors, repeated if used repeatedly."""
        return [id(value) for value in tf.nest.flatten(self.arguments)]

    def __call__(self, values: dict[int, tf.Tensor], training: bool) -> list[tf.Tensor]:
        args, kwargs = tf.nest.map_structure(lambda value: values.get(id(value), value), self.arguments)
        if self.takes_training:
            kwargs = {"training": training, **kwargs}
        if self.convolution is None:
            return tf.nest.flatten(self.layer(*args, **kwargs))
        if training and self.layer.trainable:  # it was thawed
            return [self.layer(self.convolution(*args), **kwargs)]
        return [_folded(self.convolution, self.layer, *args)]


class _FoldedGraph:
    """The function that `folded_network` returns.

    It holds no weights, and is no part of a model that keeps it.
    """

    def __init__(self, network: keras.Model) -> None:
        self._input, self._output = network.inputs[0], network.outputs[0]
        self._steps = _with_folds(_steps_of(network))
        self.num_folded = sum(step.convolution is not None for step in self._steps)

    def __call__(self, inputs: tf.Tensor, training: bool | None = False) -> tf.Tensor:
        values = {id(self._input): tf.cast(inputs, self._input.dtype)}
        for step in self._steps:
            outputs = step(values, bool(training))
            values.update((id(symbol), output) for symbol, output in zip(step.outputs, outputs))
        return values[id(self._output)]


def _steps_of(network: keras.Model) -> list[_Step]:
    """Return the calls of a network's layers, each after its inputs' calls."""
    steps = []
    for _, nodes in sorted(network._nodes_by_depth.items(), reverse=True):
        for node in nodes:
            if node.is_input:
                continue
            layer = node.operation if hasattr(node, "operation") else node.layer  # Keras 3, Keras 2
            call = node.arguments if hasattr(node, "arguments") else node
            arguments = (call.args, call.kwargs) if hasattr(call, "args") else (call.call_args, call.call_kwargs)
            takes_training = "training" in inspect.signature(layer.call).parameters
            steps.append(_Step(layer, arguments, tf.nest.flatten(node.outputs), takes_training))
    return steps


def _with_folds(steps: list[_Step]) -> list[_Step]:
    """Return the steps without the convolutions folded into a batch normalisation."""
    uses = collections.Counter(tensor for step in steps for tensor in step.tensors())
    calls = collections.Counter(id(step.layer) for step in steps)
    foldable = {
        id(step.outputs[0]): step
        for step in steps
        if _can_take_in(step.layer) and uses[id(step.outputs[0])] == 1 and calls[id(step.layer)] == 1
    }
    folded: list[_Step] = []
    taken = set()
    for step in steps:
        below = foldable.get(next(iter(step.tensors()), -1))
        if below is not None and _normalizes_channels(step.layer) and calls[id(step.layer)] == 1:
            taken.add(id(below.layer))
            step = step._replace(arguments=(below.arguments[0], {}), convolution=below.layer)
        folded.append(step)
    return [step for step in folded if id(step.layer) not in taken]


def _can_take_in(layer: keras.layers.Layer) -> bool:
    """Return whether a layer is only a convolution, of a known kind."""
    if type(layer) not in (keras.layers.Conv2D, keras.layers.DepthwiseConv2D):
        return False
    has_groups = type(layer) is keras.layers.Conv2D and layer.groups > 1
    is_linear = layer.activation in (None, keras.activations.linear) and layer.activity_regularizer is None
    return is_linear and not has_groups and layer.data_format == "channels_last"


def _normalizes_channels(layer: keras.layers.Layer) -> bool:
    return isinstance(layer, keras.layers.BatchNormalization) and tf.nest.flatten(layer.axis) in ([-1], [3])


def _folded(
    convolution: keras.layers.Layer, normalization: keras.layers.BatchNormalization, inputs: tf.Tensor
) -> tf.Tensor:
    """Apply the normalised convolution to maps [batch, height, width, channels]."""
    scale, shift = _scale_and_shift(normalization)
    kernel, *bias = map(tf.convert_to_tensor, convolution.weights)
    if bias:
        shift = shift + scale * bias[0]
    is_depthwise = type(convolution) is not keras.layers.Conv2D
    # Of a depthwise convolution a kernel is [height, width, channels, multiplier].
    kernel = kernel * (tf.reshape(scale, kernel.shape[2:]) if is_depthwise else scale)
    inputs, kernel, shift = (tf.cast(value, convolution.compute_dtype) for value in (inputs, kernel, shift))
    if is_depthwise:
        strides, padding = (1, *convolution.strides, 1), convolution.padding.upper()
        maps = tf.nn.depthwise_conv2d(inputs, kernel, strides, padding, None, convolution.dilation_rate)
    elif tuple(kernel.shape[:2]) == tuple(convolution.strides) == (1, 1):
        return _pointwise(inputs, kernel[0, 0], shift)
    else:
        maps = convolution.convolution_op(inputs, kernel)
    return tf.nn.bias_add(maps, shift)


def _pointwise(inputs: tf.Tensor, kernel: tf.Tensor, shift: tf.Tensor) -> tf.Tensor:
    """Apply a 1 x 1 convolution as a matrix product.

    Its gradients take less time than those of a convolution.
    """
    products = tf.nn.bias_add(tf.matmul(tf.reshape(inputs, [-1, inputs.shape[-1]]), kernel), shift)
    sizes = [tf.shape(inputs)[axis] if size is None else size for axis, size in enumerate(inputs.shape[:-1])]
    return tf.reshape(products, [*sizes, kernel.shape[-1]])


def _scale_and_shift(normalization: keras.layers.BatchNormalization) -> tuple[tf.Tensor, tf.Tensor]:
    """Return scale and shift, each [channels], of a frozen batch normalisation."""
    scale = tf.math.rsqrt(tf.convert_to_tensor(normalization.moving_variance) + normalization.epsilon)
    if normalization.scale:
        scale = scale * normalization.gamma
    shift = -scale * normalization.moving_mean
    return scale, shift + normalization.beta if normalization.center else shift
