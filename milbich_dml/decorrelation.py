"""Adversarial decorrelation of the features that stand side by side in one embedding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf
from tensorflow import keras

from common.errors import check_choice, check_positive, invalid
from common.losses.metric_loss import MetricLoss
from common.ops.normalization import normalize
from common.parameters import Count, NotNegative, checked
from common.references.reference_set import References

REDUCTIONS = ("mean", "sum")


@keras.utils.register_keras_serializable(package="deep_metric_learning")
class DecorrelationLoss(MetricLoss):
    """Adversarial decorrelation of an embedding's slices.

    `-w Σ_(a,b) c(φ_a, φ_b)`, `c = mean [(R(φ_a) ⊙ n(ψ_ab(R(φ_b))))²]`. ψ_ab is a network of two layers from the slice b
    to the slice a, n the normalisation to unit length, R the reversal of the gradient. Descent on the loss makes ψ
    predict φ_a from φ_b as well as it can (c grows), and, through the reversal, changes both features so that it cannot
    (c falls).

    Reference: Milbich's dissertation, equation 3.6, whose sum over the components of one embedding is
    `reduction="sum"`. Weights of 500 to 2000, as printed, also fit the mean over components, which the public code of
    DiVA takes (for unit vectors of 128 components they differ by 128).

    Gradient: exact in the weights of ψ; minus the exact one in the embeddings.

    Args:
        sizes: numbers of components of all slices, from the first component on.
        pairs: pairs (a, b) of different slices, by their positions in `sizes`; ψ goes from b to a.
        weight: w, at least 0.
        hidden: units of ψ's hidden layer.
        reduction: over the components: `"mean"` or `"sum"`; over the batch it is the mean.
        **kwargs: `normalization` of the slices, `name`, `dtype`; see `MetricLoss`.

    Call arguments: those of `MetricLoss`; labels and references are ignored.

    Raises:
        InvalidInput: an argument is out of its range; in the call, embeddings that are not of the slices' length.

    Examples:
        >>> DecorrelationLoss([64, 64], [(0, 1)], weight=1000.0)(tf.random.normal([32, 128]), labels)
    """

    @checked
    def __init__(
        self,
        sizes: Sequence[int],
        pairs: Sequence[tuple[int, int]],
        weight: NotNegative,
        hidden: Count = 512,
        reduction: str = "mean",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.sizes = tuple(check_positive("sizes", size) for size in sizes)
        self.pairs = tuple((first, second) for first, second in pairs)
        positions = range(len(self.sizes))
        if not self.pairs or any(a == b or a not in positions or b not in positions for a, b in self.pairs):
            expected = f"at least one pair of different positions in 0..{len(self.sizes) - 1}"
            raise invalid("pairs", received=pairs, expected=expected)
        self.weight = weight
        self.hidden = hidden
        self.reduction = check_choice("reduction", reduction, REDUCTIONS)
        self.networks = tuple(self._network(a, b) for a, b in self.pairs)

    def call(self, embeddings: tf.Tensor, labels: tf.Tensor, references: References | None = None) -> tf.Tensor:
        """Return the loss of a batch; see the class."""
        del labels, references
        embeddings = tf.convert_to_tensor(embeddings)
        if embeddings.shape[-1] is not None and embeddings.shape[-1] != sum(self.sizes):
            expected = f"{sum(self.sizes)}, that of all slices {self.sizes}"
            raise invalid("dimension of embeddings", received=embeddings.shape[-1], expected=expected)
        slices = [normalize(part, self.normalization) for part in tf.split(embeddings, self.sizes, axis=1)]
        terms = [self.correlation(slices[a], slices[b], network) for (a, b), network in zip(self.pairs, self.networks)]
        return -self.weight * tf.add_n(terms)

    def correlation(self, feature: tf.Tensor, source: tf.Tensor, network: tuple[tf.Variable, ...]) -> tf.Tensor:
        """Return c of a feature `[batch, size]` and another's prediction; 0 without a batch."""
        kernel, bias, out_kernel, out_bias = (tf.convert_to_tensor(weight) for weight in network)
        hidden = tf.nn.relu(tf.matmul(reverse_gradient(source), kernel) + bias)
        predicted = normalize(tf.matmul(hidden, out_kernel) + out_bias, "unit")
        squares = tf.reduce_sum((reverse_gradient(feature) * predicted) ** 2, axis=1)  # [batch]
        num_rows = tf.cast(tf.maximum(tf.shape(squares)[0], 1), squares.dtype)
        return tf.reduce_sum(squares) / num_rows / (feature.shape[-1] if self.reduction == "mean" else 1.0)

    def _network(self, target: int, source: int) -> tuple[tf.Variable, ...]:
        """Add ψ from slice `source` to slice `target`: two kernels with biases."""
        sizes = self.sizes[source], self.hidden, self.sizes[target]
        weights = []
        for layer, (inputs, outputs) in enumerate(zip(sizes, sizes[1:])):
            name = f"from_{source}_to_{target}_layer_{layer}"
            weights.append(
                self.add_weight(name=f"{name}_kernel", shape=(inputs, outputs), initializer="glorot_uniform")
            )
            weights.append(self.add_weight(name=f"{name}_bias", shape=(outputs,), initializer="zeros"))
        return tuple(weights)

    def get_config(self) -> dict:
        """Return the constructor's arguments."""
        return {
            **super().get_config(),
            "sizes": list(self.sizes),
            "pairs": [list(pair) for pair in self.pairs],
            "weight": self.weight,
            "hidden": self.hidden,
            "reduction": self.reduction,
        }


def reverse_gradient(x: tf.Tensor) -> tf.Tensor:
    """Return x, with its gradient times -1: layers below ascend what layers above descend.

    Reference: Ganin, Lempitsky: Unsupervised Domain Adaptation by Backpropagation, ICML 2015; Milbich's dissertation
    eq. 3.6.

    Args:
        x: floats, any shape `[...]`.

    Returns:
        x, of the same shape and type. Closed-form gradient: minus that of the identity.
    """

    @tf.custom_gradient
    def reversed_identity(values: tf.Tensor) -> tuple[tf.Tensor, object]:
        return tf.identity(values), tf.negative

    return reversed_identity(x)
