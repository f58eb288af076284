"""The one signature of all metric losses."""

from __future__ import annotations

import tensorflow as tf

from common.losses.loss_layer import LossLayer
from common.ops.precision import in_full_precision
from common.parameters import LayerArguments, Normalization, Unpack, checked
from common.references.reference_set import References


class MetricLoss(LossLayer):
    """Compares a batch of embeddings with a reference set; abstract.

    A loss is a layer, so that what it owns (proxies, a memory) is trained, saved and restored with the model. It
    computes in float32, also under a `mixed_float16` policy, and in float64 under the policy `float64`. A subclass
    implements `call` and makes all of its state in the constructor.

    Args:
        normalization: how embeddings and references are normalised alike: `"unit"` (v/‖v‖), `"clip"` (v/max(1, ‖v‖)) or
            `"none"`.
        dtype: "float32" or "float64", the type of the computation; None: float64 if the global policy is that.
        **kwargs: `name` and `trainable`, as of any Keras layer.

    Call arguments:
        embeddings: `[batch, dim]`.
        labels: integers of any width, `[batch]`. Losses that only compare pairs also take bools `[batch, classes]`, of
            several labels or none: pairs that share one are positive. Other losses refuse them.
        references: `common.references.References`, or None: the batch itself without self-pairs, or the proxies that a
            proxy loss owns.

    Output: a scalar. With `"unit"` and `"clip"` it is finite, and so is its gradient, for all embeddings of finite
    squared lengths (lengths up to 1e18 in float32); with `"none"` also the loss's own scales and powers must be finite.
    Longer embeddings, NaN and infinite ones make the loss NaN (or infinite), never a plausible number, so that
    `keras.callbacks.TerminateOnNaN` and `common.training.fit` stop there. A class without a partner in the references
    contributes nothing.

    In plain Keras it goes into `compile(optimizer, loss=...)`; one with weights into a `MetricModel`. See `LossLayer`.

    Raises:
        InvalidInput: an argument is out of its range.
    """

    @checked
    def __init__(self, *, normalization: Normalization = "unit", **kwargs: Unpack[LayerArguments]) -> None:
        super().__init__(**in_full_precision(kwargs))
        self.normalization = normalization
        self.built = True  # the constructor makes all of the state

    @property
    def proxy_variables(self) -> list[tf.Variable]:
        """Variables with the proxies' learning-rate multiplier: proxies, boundaries; none by default."""
        return []

    def call(self, embeddings: tf.Tensor, labels: tf.Tensor, references: References | None = None) -> tf.Tensor:
        """Return the loss of a batch; see the class."""
        raise NotImplementedError(f"{type(self).__name__} must implement call(embeddings, labels, references=None).")

    def get_config(self) -> dict:
        """Return the constructor's arguments."""
        return {**super().get_config(), "normalization": self.normalization}
