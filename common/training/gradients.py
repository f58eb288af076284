"""Gradients of a training step, in full precision despite loss scaling."""

from __future__ import annotations

from collections.abc import Callable, Sequence

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
    network_losses: Sequence[tf.Tensor] = (),
    sample_weight: tf.Tensor | None = None,
) -> tf.Tensor:
    """Return `(1 - w) * metric_loss(embeddings, labels) + w * attribute_loss(attributes, labels)`.

    Without an attribute loss, it is the metric loss alone. As in `compile(loss=...)`, it adds the layers' own losses:
    regularisers of weights and activities, `add_loss`.

    On several replicas both losses see the batch of all replicas, and the value is the same on each. The layers' own
    losses enter by their mean over replicas, which is Keras' scaling.

    Reference: thesis section 5.2.3, equation 5.2.5.

    Args:
        outputs: `embeddings` `[batch, dim]` and, for an attribute loss, `attributes` `[batch, prototypes]`.
        labels: integers, `[batch]`, or rows of class and place `[batch, 2]`; the attribute loss sees the class.
        metric_loss, attribute_loss: the two losses; `attribute_loss` may be None.
        attribute_weight: w, in [0, 1].
        training: whether memories and counters of the metric loss advance.
        network_losses: the `losses` of the network after the pass that computed `outputs`.
        sample_weight: of both losses, `[batch]`, or None; see `LossLayer`.

    Returns:
        A scalar.
    """
    labels = gather_over_replicas(labels)
    embeddings = gather_over_replicas(outputs["embeddings"])
    attributes = None if attribute_loss is None else gather_over_replicas(outputs["attributes"])
    weights = {} if sample_weight is None else {"sample_weight": gather_over_replicas(sample_weight)}
    with of_the_global_batch():
        value = metric_loss(embeddings, labels, training=training, **weights)
        if attribute_loss is not None:
            attribute_value = attribute_loss(attributes, class_column(labels), **weights)
            value = (1 - attribute_weight) * value + attribute_weight * attribute_value
    owners = [metric_loss] if attribute_loss is None else [metric_loss, attribute_loss]
    added = [*network_losses, *(loss for owner in owners for loss in owner.losses)]
    return value + _sum_of(added, value.dtype) if added else value


def _sum_of(losses: Sequence[tf.Tensor], dtype: tf.DType) -> tf.Tensor:
    """Sum the layers' own losses; on several replicas average over them."""
    total = tf.add_n([tf.cast(tf.reduce_sum(loss), dtype) for loss in losses])
    return total if num_replicas() == 1 else tf.reduce_mean(gather_over_replicas(total[None]))


def loss_and_gradients(
    compute_loss: Callable[[], tf.Tensor], variables: list[tf.Variable], optimizer: keras.optimizers.Optimizer
) -> tuple[tf.Tensor, list[tf.Tensor]]:
    """Return a step's loss and gradients, a dense one for each variable.

    Gradients are zeros for variables that the loss does not depend on. Under a `LossScaleOptimizer` the loss is scaled
    for the backward pass, and the returned gradients are unscaled. On several replicas they are those of the global
    batch, the same on each (`common.ops.replicas`).

    Args:
        compute_loss: called once, without arguments; returns a scalar, the same on each replica.
        variables: to differentiate by.
        optimizer: the one that will apply them, by `apply_gradients`.
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
    """Check that all components of gradients are finite: a bool scalar."""
    return tf.reduce_all([tf.reduce_all(tf.math.is_finite(gradient)) for gradient in gradients])


def apply_gradients(
    optimizer: keras.optimizers.Optimizer, gradients: list[tf.Tensor], variables: list[tf.Variable]
) -> None:
    """Apply unscaled gradients, as `loss_and_gradients` returns them."""
    if num_replicas() > 1:  # Keras adds up the replicas' gradients; Keras 3 clips before
        gradients = [gradient / num_replicas() for gradient in _clipped(gradients, without_scale(optimizer))]
    scale = loss_scale(optimizer)
    if hasattr(optimizer, "get_unscaled_gradients"):  # Keras 2, which warns if nothing has called it
        optimizer.get_unscaled_gradients([])
    elif scale is not None:  # Keras 3 divides by it
        gradients = [gradient * tf.cast(scale, gradient.dtype) for gradient in gradients]
    optimizer.apply_gradients(list(zip(gradients, variables)))


def _clipped(gradients: list[tf.Tensor], optimizer: keras.optimizers.Optimizer) -> list[tf.Tensor]:
    """Clip gradients of the global batch as the optimiser is set to."""
    if optimizer.clipnorm:
        return [tf.clip_by_norm(gradient, optimizer.clipnorm) for gradient in gradients]
    if optimizer.global_clipnorm:
        return tf.clip_by_global_norm(gradients, optimizer.global_clipnorm)[0]
    if optimizer.clipvalue:
        return [tf.clip_by_value(gradient, -optimizer.clipvalue, optimizer.clipvalue) for gradient in gradients]
    return gradients


def without_scale(optimizer: keras.optimizers.Optimizer) -> keras.optimizers.Optimizer:
    """Return the optimiser inside a `LossScaleOptimizer`, any other unchanged.

    The inner one clips and averages.
    """
    return getattr(optimizer, "inner_optimizer", optimizer)


def loss_scale(optimizer: keras.optimizers.Optimizer) -> tf.Tensor | None:
    """Return the loss factor that keeps float16 gradients from vanishing.

    None without a `LossScaleOptimizer` and, on Keras 3, without a `loss_scale_factor`.
    """
    if hasattr(optimizer, "get_scaled_loss"):  # Keras 2
        return optimizer.get_scaled_loss(tf.ones([]))
    is_scaled = isinstance(optimizer, keras.mixed_precision.LossScaleOptimizer)
    return optimizer.scale_loss(tf.ones([])) if is_scaled or getattr(optimizer, "loss_scale_factor", None) else None
