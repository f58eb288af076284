"""A loss that is both a Keras layer and an argument of `compile(loss=...)`."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow import keras

from common.errors import check_keras, invalid
from common.losses.class_ids import class_ids
from common.ops.call_stack import is_recomputation
from common.ops.replicas import warn_of_a_part

check_keras(keras)


class LossLayer(keras.layers.Layer, keras.losses.Loss):
    """A loss in two orders of arguments: `loss(outputs, labels)`, and Keras' `loss(y_true, y_pred, sample_weight)`.

    As a layer it owns its weights, which are trained, saved and restored with the model that holds it. As a
    `keras.losses.Loss` it goes into `compile(loss=...)` of any Keras model, and sees integer labels as they are (Keras
    casts those of other callables to float32). Which of the two calls it is, is never in doubt: labels of this
    project are integers, so a second argument of floating-point vectors is `y_pred`.

    A model neither trains nor saves the weights of a loss that it was compiled with, and tells the loss nothing of
    training. So a loss with weights (proxies, boundaries, a memory, a step counter) refuses Keras' call;
    `common.training.MetricModel` holds it instead.

    In a replica of `tf.distribute` it sees that replica's part of the batch, and warns of it once; a `MetricModel`
    gathers the batch first.

    Keras' call:
        y_true: class ids `[batch]` or `[batch, 1]`; see `class_ids` for ids that have become floats.
        y_pred: what the loss is of, `[batch, dim]`.
        sample_weight: None; a loss over pairs has no terms of single samples to weight.

    Raises:
        InvalidInput: in Keras' call, a loss with weights, sample weights, or labels that are no class ids. In a
            recomputed forward pass of training, a loss with a memory or a step counter.
    """

    reduction = "sum_over_batch_size"  # Keras 2 asks every loss for it; the value is a scalar, which nothing reduces

    def __call__(self, *args: Any, **kwargs: Any) -> tf.Tensor:
        """Return the loss of a batch, from either call; a scalar."""
        warn_of_a_part(type(self).__name__)
        if _is_call_of_compile(args, kwargs):
            return self._value_for_keras(*args, **kwargs)
        if kwargs.get("training") and self.non_trainable_weights and is_recomputation():
            fix = "A second pass would see another memory or other draws: call the loss outside of the recomputed part."
            expected = "a loss without memory or step counter"
            raise invalid("loss in tf.recompute_grad", received=type(self).__name__, expected=expected, fix=fix)
        return super().__call__(*map(_as_tensor, args), **{name: _as_tensor(value) for name, value in kwargs.items()})

    def _value_for_keras(
        self, y_true: tf.Tensor, y_pred: tf.Tensor, sample_weight: tf.Tensor | None = None
    ) -> tf.Tensor:
        """Return the value in a model compiled with this loss."""
        refuse_sample_weights(sample_weight)
        labels, are_exact = class_ids(y_true)
        if self.weights:
            raise invalid(
                "loss of compile",
                received=type(self).__name__,
                expected="a loss without weights of its own",
                fix=f"A model would neither train nor save the {len(self.weights)} of this one (proxies, a memory or a "
                "step counter). Let a model hold it: common.training.MetricModel(network, loss).compile(optimizer).",
            )
        value = super().__call__(y_pred, labels)
        return tf.where(are_exact, value, tf.constant(float("nan"), value.dtype))


def _as_tensor(value: object) -> object:
    """Convert lists and tuples, which Keras 3 takes for several arguments, to tensors."""
    return tf.convert_to_tensor(value) if type(value) in (list, tuple) else value


def refuse_sample_weights(sample_weight: object) -> None:
    """Refuse sample weights, which Keras would multiply the whole batch's loss by.

    Raises:
        InvalidInput: there are weights.
    """
    if sample_weight is not None:
        raise invalid(
            "sample_weight",
            received="weights of single samples",
            expected="none",
            fix="A metric loss is over pairs of a batch: take sample_weight and class_weight out of fit, and draw "
            "samples more often instead. Keras also makes weights of the mask of an Embedding or Masking layer.",
        )


def _is_call_of_compile(args: tuple, kwargs: dict[str, Any]) -> bool:
    """Return whether the arguments are Keras' `(y_true, y_pred, sample_weight)`."""
    if {"sample_weight", "y_true", "y_pred"} & set(kwargs):  # Keras 2 names its third argument
        return True
    if len(args) < 2:
        return False
    second = args[1] if hasattr(args[1], "dtype") else np.asarray(args[1])
    return tf.as_dtype(second.dtype).is_floating and tf.TensorShape(second.shape).rank != 1
