"""The gradients of a training step, of full precision also where a step in half precision scales its loss."""

from __future__ import annotations

from collections.abc import Callable

import tensorflow as tf
from tensorflow import keras

from common.losses.label_column import class_column
from common.losses.metric_loss import MetricLoss
from common.ops.replicas import gather_over_replicas, num_replicas, of_the_global_batch, sum_over_replicas


def weighted_loss(
    outputs: dict[str, tf.Tensor],
    labels: tf.Tensor,
    metric_loss: MetricLoss,
    attribute_loss: keras.layers.Layer | None,
    attribute_weight: float,
    *,
    training: bool,
) -> tf.Tensor:
    """`(1 - w) * metric_loss(embeddings, labels) + w * attribute_loss(attributes, labels)`, or the first term alone.

    On several replicas both losses see the batch of all replicas, and the value is the same on each.

    Reference: thesis section 5.2.3, equation 5.2.5.

    Args:
        outputs: `embeddings` `[batch, dim]` and, for an attribute loss, `attributes` `[batch, prototypes]`.
        labels: integers, `[batch]`, or rows of class and place `[batch, 2]`, of which the second sees the class.
        metric_loss, attribute_loss: the two losses; the second may be None.
        attribute_weight: w, in [0, 1].
        training: whether memories and counters of the metric loss advance.

    Returns:
        A scalar.
    """
    labels = gather_over_replicas(labels)
    embeddings = gather_over_replicas(outputs["embeddings"])
    attributes = None if attribute_loss is None else gather_over_replicas(outputs["attributes"])
    with of_the_global_batch():
        metric_value = metric_loss(embeddings, labels, training=training)
        if attribute_loss is None:
            return metric_value
        return (1 - attribute_weight) * metric_value + attribute_weight * attribute_loss(
            attributes, class_column(labels)
        )


def loss_and_gradients(
    compute_loss: Callable[[], tf.Tensor], variables: list[tf.Variable], optimizer: keras.optimizers.Optimizer
) -> tuple[tf.Tensor, list[tf.Tensor]]:
    """The loss of a step and its gradients, a dense one for each variable; zeros where the loss does not depend on it.

    Under a `LossScaleOptimizer` the loss is scaled for the way back, and the gradients are those without that. On
    several replicas they are those of the global batch, the same on each (`common.ops.replicas`).

    Args:
        compute_loss: called once, without arguments; gives a scalar, the same on each replica.
        variables: what the gradients are of.
        optimizer: what will apply them, by `apply_gradients`.
    """
    with tf.GradientTape() as tape:
        loss = compute_loss()
        scale = loss_scale(optimizer)
        scaled_loss = loss if scale is None else tf.cast(scale, loss.dtype) * loss
        share = scaled_loss if num_replicas() == 1 else scaled_loss / num_replicas()
    gradients = [  # `unconnected_gradients="zero"` cannot make those of Keras 3's variables eagerly
        tf.zeros(variable.shape, variable.dtype) if gradient is None else tf.convert_to_tensor(gradient)
        for variable, gradient in zip(variables, tape.gradient(share, variables))
    ]
    gradients = sum_over_replicas(gradients)
    return loss, gradients if scale is None else [gradient / tf.cast(scale, gradient.dtype) for gradient in gradients]


def are_finite(gradients: list[tf.Tensor]) -> tf.Tensor:
    """Whether no gradient has a component that is NaN or infinite: a bool scalar."""
    return tf.reduce_all([tf.reduce_all(tf.math.is_finite(gradient)) for gradient in gradients])


def apply_gradients(
    optimizer: keras.optimizers.Optimizer, gradients: list[tf.Tensor], variables: list[tf.Variable]
) -> None:
    """Applies gradients that are not scaled, as `loss_and_gradients` gives them."""
    if num_replicas() > 1:  # Keras adds up what the replicas give it
        gradients = [gradient / num_replicas() for gradient in gradients]
    scale = loss_scale(optimizer)
    if hasattr(optimizer, "get_unscaled_gradients"):  # Keras 2, which warns where nothing has called it
        optimizer.get_unscaled_gradients([])
    elif scale is not None:  # Keras 3 divides by it
        gradients = [gradient * tf.cast(scale, gradient.dtype) for gradient in gradients]
    optimizer.apply_gradients(list(zip(gradients, variables)))


def loss_scale(optimizer: keras.optimizers.Optimizer) -> tf.Tensor | None:
    """The factor of the loss that keeps gradients of float16 from vanishing; None without a `LossScaleOptimizer`."""
    if not isinstance(optimizer, keras.mixed_precision.LossScaleOptimizer):
        return None
    if hasattr(optimizer, "get_scaled_loss"):  # Keras 2
        return optimizer.get_scaled_loss(tf.ones([]))
    return optimizer.scale_loss(tf.ones([]))
