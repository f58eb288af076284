"""A loss that is both a Keras layer and an argument of `compile(loss=...)`."""

from __future__ import annotations

import contextlib
import inspect
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow import keras

from common.errors import InvalidInput, check_keras, invalid
from common.losses.class_ids import class_ids
from common.ops.call_stack import is_recomputation
from common.ops.pair_masks import nan_unless
from common.ops.replicas import warn_of_a_part
from common.ops.unfinished_start import UnfinishedStart
from common.references.reference_set import References

check_keras(keras)
_OF_KERAS = re.compile(r"Exception encountered when calling .*?\n\n(?:\x1b\[1m)?(.*?)(?:\x1b\[0m)?\n\n", re.DOTALL)


class LossLayer(UnfinishedStart, keras.layers.Layer, keras.losses.Loss):
    """A loss in two orders of arguments: `loss(outputs, labels)`, and Keras' `loss(y_true, y_pred, sample_weight)`.

    As a layer it owns its weights, which are trained, saved and restored with the model that holds it. As a
    `keras.losses.Loss` it goes into `compile(loss=...)` of any Keras model, and sees integer labels as they are (Keras
    casts those of other callables to float32). A second argument of floating-point vectors is `y_pred`; a column of
    floats after vectors is labels. Either call takes labels of each type and shape that `class_ids` takes, and lists.

    A model neither trains nor saves the weights of a loss that it was compiled with, and does not pass it `training`.
    So a loss with weights (proxies, boundaries, a memory, a step counter) refuses Keras' call;
    `common.training.MetricModel` holds it instead.

    In a replica of `tf.distribute` it sees that replica's part of the batch, and warns of it once; a `MetricModel`
    gathers the batch first.

    Keras' call:
        y_true: class ids `[batch]` or `[batch, 1]`, or bools `[batch, classes]` of several labels; see `class_ids`.
        y_pred: embeddings, `[batch, dim]`.
        sample_weight: None, or weights w `[batch]` or `[batch, 1]` for a loss whose terms belong to anchors, one that
            takes `sample_weight` in its `call`. Terms are multiplied with the weight of their anchor, and divided by
            as many as without weights: Keras' `"sum_over_batch_size"`. Weights of 1 change no bit.

    Raises:
        InvalidInput: labels that are no class ids, weights for a loss that takes none, or, in Keras' call, a loss with
            weights of its own. In a recomputed forward pass of training, a loss with a memory or a step counter.
        tf.errors.InvalidArgumentError: labels that the loss cannot know. XLA, which drops checks, makes the loss NaN.
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
        names = list(inspect.signature(self.call).parameters)
        given = {name: value for name, value in {**dict(zip(names, args)), **kwargs}.items() if value is not None}
        if "labels" not in given or _is_symbolic(given["labels"]):
            return super().__call__(*args, **kwargs)  # Keras says what is missing, or comes back with numbers
        outputs, labels = given.pop(names[0]), given.pop("labels")
        if "sample_weight" in given:
            given["sample_weight"] = self._sample_weights(given["sample_weight"], "sample_weight" in names)
        labels, are_exact = _integers(labels)
        are_known = self.check_labels(labels, given.get("references"))
        with _errors_alone():
            value = super().__call__(_as_tensor(outputs), labels, **given)
        for condition in (are_exact, are_known):
            value = value if condition is None else nan_unless(condition, value)
        return value

    def check_labels(self, labels: tf.Tensor, references: References | None = None) -> tf.Tensor | None:
        """Reject unknown labels; return whether all are known, or None without a rule.

        Args:
            labels: integers, `[batch]`.
            references: what the batch is compared with, or None.
        """
        return None

    def _value_for_keras(
        self, y_true: tf.Tensor, y_pred: tf.Tensor, sample_weight: tf.Tensor | None = None
    ) -> tf.Tensor:
        """Return the value in a model compiled with this loss."""
        labels, are_exact = class_ids(y_true, _type_and_shape(y_pred)[1])
        if self.weights:
            raise invalid(
                "loss of compile",
                received=type(self).__name__,
                expected="a loss without weights of its own",
                fix=f"A model would neither train nor save the {len(self.weights)} of this one (proxies, a memory or a "
                "step counter). Let a model hold it: common.training.MetricModel(network, loss).compile(optimizer). "
                "A MinedLoss with draws_by='batch' has no counter.",
            )
        weights = {} if sample_weight is None else {"sample_weight": sample_weight}
        return nan_unless(are_exact, self(y_pred, labels, **weights))

    def _sample_weights(self, weights: tf.types.experimental.TensorLike, are_taken: bool) -> tf.Tensor:
        """Return weights `[batch]` in the type of the computation, if the loss takes them."""
        if not are_taken:
            raise invalid(
                "sample_weight",
                received=f"weights of single samples for {type(self).__name__}",
                expected="none",
                fix="Its terms are no terms of single samples: take sample_weight and class_weight out of fit, and "
                "draw samples more often instead. Keras also makes weights of the mask of an Embedding layer.",
            )
        weights = tf.convert_to_tensor(weights)
        if weights.shape.rank not in (None, 1) and tuple(weights.shape[1:]) != (1,):
            raise invalid("shape of sample_weight", received=tuple(weights.shape), expected="[batch] or [batch, 1]")
        return tf.cast(tf.reshape(weights, [-1]), self.compute_dtype)


def _as_tensor(value: object) -> object:
    """Convert lists and tuples, which Keras 3 takes for several arguments, to tensors."""
    return tf.convert_to_tensor(value) if type(value) in (list, tuple) else value


def _is_symbolic(value: object) -> bool:
    """Return whether a value belongs to a functional model under construction."""
    return any(kind.__name__ == "KerasTensor" for kind in type(value).__mro__)


def _integers(labels: tf.types.experimental.TensorLike) -> tuple[tf.Tensor, tf.Tensor | None]:
    """Return labels as integers, and whether floats or columns were exact (else None)."""
    labels = tf.convert_to_tensor(labels)
    if labels.dtype.is_integer and not (labels.shape.rank == 2 and labels.shape[1] == 1):
        return labels, None
    return class_ids(labels)


@contextlib.contextmanager
def _errors_alone() -> Iterator[None]:
    """Raise errors of a call without Keras' list of its arguments."""
    try:
        yield
    except InvalidInput as error:
        found = _OF_KERAS.match(str(error))
        raise (InvalidInput(found[1]) if found else error) from None


def _is_call_of_compile(args: tuple, kwargs: dict[str, Any]) -> bool:
    """Return whether the arguments are Keras' `(y_true, y_pred, sample_weight)`."""
    if {"y_true", "y_pred"} & set(kwargs):
        return True
    if len(args) < 2:
        return False
    (first_type, first), (second_type, second) = _type_and_shape(args[0]), _type_and_shape(args[1])
    if not second_type.is_floating or second.rank == 1:
        return False
    is_column = second.rank == 2 and second[1] == 1  # either labels, or vectors of one component
    return not (is_column and first_type.is_floating and first.rank == 2 and first[1] != 1)


def _type_and_shape(values: tf.types.experimental.TensorLike) -> tuple[tf.DType, tf.TensorShape]:
    values = values if hasattr(values, "dtype") else np.asarray(values)
    return tf.as_dtype(values.dtype), tf.TensorShape(values.shape)
