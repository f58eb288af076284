"""The one signature of all metric losses."""

import tensorflow as tf

from common.ops.checks import check_choice
from common.ops.normalization import NORMALIZATIONS

keras = tf.keras


class MetricLoss(keras.layers.Layer):
    """Compares a batch of embeddings with a reference set; abstract.

    A loss is a layer, so that what it owns (proxies, a memory) is trained, saved and restored with the model. It
    computes in float32 also under a `mixed_float16` policy. A subclass implements `call` and makes all of its state
    in the constructor.

    Args:
        normalization: how embeddings and references are normalised alike: `"unit"` (v/‖v‖), `"clip"` (v/max(1, ‖v‖)) or
            `"none"`.
        dtype: the type of the computation; `"float64"` for the checks of a gradient.
        **kwargs: `name` and `trainable`, as of any Keras layer.

    Call arguments:
        embeddings: `[batch, dim]`.
        labels: integers of any width, `[batch]`.
        references: `common.references.References`, or None: the batch itself without self-pairs, or the proxies that a
            proxy loss owns.

    Output: a scalar, finite for every batch of finite embeddings. A class without a partner in the references
    contributes nothing. Embeddings that are NaN or infinite make the loss NaN (or infinite), never a plausible number,
    so that `keras.callbacks.TerminateOnNaN` and `common.training.fit` stop there.

    Raises:
        InvalidInput: an argument is out of its range.
    """

    def __init__(self, *, normalization="unit", dtype="float32", **kwargs):
        super().__init__(dtype=dtype, **kwargs)
        self.normalization = check_choice("normalization", normalization, NORMALIZATIONS)
        self.built = True  # the constructor makes all of the state

    @property
    def fast_variables(self):
        """The variables that train with the learning-rate multiplier of proxies; none by default."""
        return []

    def call(self, embeddings, labels, references=None):
        """The loss of a batch; see the class."""
        raise NotImplementedError(f"{type(self).__name__} must implement call(embeddings, labels, references=None).")

    def get_config(self):
        """The constructor's arguments."""
        return {**super().get_config(), "normalization": self.normalization}
