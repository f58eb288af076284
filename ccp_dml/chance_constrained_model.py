"""CCP around any network, trained with Keras' own `compile` and `fit`."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import tensorflow as tf

from ccp_dml.chance_constrained_loss import ChanceConstrainedLoss
from ccp_dml.proximal_term import ProximalTerm
from common.ops.checks import invalid
from common.ops.normalization import normalize

keras = tf.keras


class ChanceConstrainedModel(keras.Model):
    """Trains a network's embeddings under a chance-constrained loss and its proximal term.

    For plain Keras: `compile(optimizer)`, then `fit(batches, callbacks=[evaluation, AlternatingProjections(...)])`.
    The experiments of this project use `common.training.EmbeddingModel` with the same loss, term and callback.

    Args:
        network: any built Keras model from inputs to embeddings `[batch, dim]`.
        metric_loss: the loss with its proxies.
        rate: λ of the proximal term, at least 0 (thesis: 2e-4).

    Attributes:
        proximal_term: the `ProximalTerm` over the network's trainable weights.

    Input shape: what the network takes.
    Output shape: `[batch, dim]`, normalised as the loss does.

    Raises:
        InvalidInput: a network without weights yet, or a negative rate.
    """

    def __init__(self, network: keras.Model, metric_loss: ChanceConstrainedLoss, rate: float = 2e-4):
        super().__init__(name="chance_constrained_model")
        if not network.built:
            fix = "Begin it with keras.Input, or call it once on a batch."
            raise invalid("network", received="a model without weights", expected="one that is built", fix=fix)
        self.network = network
        self.metric_loss = metric_loss
        self.proximal_term = ProximalTerm(network.trainable_variables, rate)
        self.mean_loss = keras.metrics.Mean(name="loss")
        self.built = True

    def compile(self, optimizer="adam", jit_compile=False, **kwargs):
        """As Keras' `compile`, without XLA by default: losses check labels and choose rows by the data."""
        super().compile(optimizer=optimizer, jit_compile=jit_compile, **kwargs)

    def call(self, inputs, training=None):  # noqa: D102
        return normalize(self.network(inputs, training=training), self.metric_loss.normalization)

    def train_step(self, data):  # noqa: D102
        inputs, labels = data
        variables = list(self.trainable_variables)
        with tf.GradientTape() as tape:
            loss = self.metric_loss(self(inputs, training=True), labels, training=True)
        gradients = tape.gradient(loss, variables, unconnected_gradients="zero")
        gradients = [tf.convert_to_tensor(gradient) for gradient in gradients]
        self.optimizer.apply_gradients(list(zip(self.proximal_term(gradients, variables), variables)))
        self.mean_loss.update_state(loss)
        return {"loss": self.mean_loss.result()}

    @property
    def metrics(self):
        """The mean loss of the epoch, which Keras resets."""
        return [self.mean_loss]

    def embed(self, batches: Iterable) -> np.ndarray:
        """Embeddings float32 `[inputs, dim]` of batches of inputs, in inference mode."""
        return np.concatenate([self._embedding_step(inputs).numpy() for inputs in batches]).astype(np.float32)

    @tf.function(reduce_retracing=True)
    def _embedding_step(self, inputs):
        return self(inputs, training=False)
