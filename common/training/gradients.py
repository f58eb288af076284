"""Gradients of a training step, in full precision despite loss scaling."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow as tf
from tensorflow import keras

from common.losses.class_ids import class_column
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
        outputs: `embeddings` `[batch, dim]` and, for an attribute loss, `attributes` `[batch, prototypes]`; for
            `SelfDistillationLoss`, `projected_features` `[batch, channels]`.
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
    embeddings = gather_over_replicas(compared_vectors(outputs))
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


def compared_vectors(outputs: Mapping[str, tf.Tensor]) -> tf.Tensor:
    """Return the input of a metric loss: embeddings, with `projected_features` beside them if given."""
    embeddings = outputs["embeddings"]
    if "projected_features" not in outputs:
        return embeddings
    return tf.concat([embeddings, tf.cast(outputs["projected_features"], embeddings.dtype)], axis=1)


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


def in_micro_batches(network: Callable[[tf.Tensor], Any], inputs: tf.Tensor, size: int) -> Any:  # noqa: ANN401
    """Call a network on parts of a batch without keeping all of its maps.

    The outputs are those of one call, and the gradient by the network's weights is exact: the backward pass calls the
    network on each part again, with the outer gradient of its outputs. So a step holds the maps of `size` inputs
    instead of those of the batch, for a second forward pass. The loss sees the whole batch. The inputs have no
    gradient.

    Reference: Gao et al., "Scaling Deep Contrastive Learning Batch Size under Memory Limited Setup" (RepL4NLP 2021).

    Args:
        network: returns a tensor, or a structure of tensors, with one row per input. Its rows must not depend on one
            another, and a second call must return the same; see `common.training.devices.check_micro_batches`.
        inputs: `[batch, ...]`.
        size: inputs of a part, at least 1; the last part may be smaller.

    Returns:
        What `network(inputs)` returns.
    """
    if inputs.shape[0] is not None and inputs.shape[0] <= size:
        return network(inputs)
    structure: list[Any] = []

    def flat(part: tf.Tensor) -> list[tf.Tensor]:
        found = network(part)
        structure[:] = [found]
        return tf.nest.flatten(found)

    @tf.custom_gradient
    def outputs_of(batch: tf.Tensor) -> tuple[list[tf.Tensor], Callable]:
        count = tf.shape(batch)[0]
        first = flat(batch[:size])
        rest = [
            tf.TensorArray(of.dtype, 0, dynamic_size=True, infer_shape=False, element_shape=[None, *of.shape[1:]])
            for of in first
        ]

        def append(start: tf.Tensor, *arrays: tf.TensorArray) -> tuple:
            found = flat(batch[start : start + size])
            return start + size, *[array.write(array.size(), of) for array, of in zip(arrays, found)]

        _, *rest = tf.while_loop(lambda start, *_: start < count, append, (size, *rest), parallel_iterations=1)
        outputs = [tf.concat([of, array.concat()], axis=0) for of, array in zip(first, rest)]

        def gradients_of(*outer: tf.Tensor, variables: Sequence[tf.Variable] = ()) -> tuple[None, list[tf.Tensor]]:
            def add(start: tf.Tensor, *sums: tf.Tensor) -> tuple:
                with tf.GradientTape(watch_accessed_variables=False) as tape:
                    tape.watch(variables)
                    found = flat(batch[start : start + size])
                parts = [of[start : start + size] for of in outer]
                gradients = tape.gradient(found, variables, parts, unconnected_gradients="zero")
                return start + size, *[total + gradient for total, gradient in zip(sums, gradients)]

            start = (0, *[tf.zeros(of.shape, of.dtype) for of in variables])
            _, *sums = tf.while_loop(lambda start, *_: start < count, add, start, parallel_iterations=1)
            return None, sums

        return outputs, gradients_of

    found = outputs_of(inputs)
    return tf.nest.pack_sequence_as(structure[0], tf.nest.flatten(found))


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
