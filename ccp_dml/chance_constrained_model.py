"""CCP around any network, trained with Keras' own `compile` and `fit`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow import keras

from ccp_dml.chance_constrained_loss import ChanceConstrainedLoss
from ccp_dml.proximal_term import ProximalTerm
from common.errors import invalid
from common.ops.normalization import normalize


@keras.utils.register_keras_serializable(package="deep_metric_learning")
class ChanceConstrainedModel(keras.Model):
    """Trains a network's embeddings under a chance-constrained loss and its proximal term.

    For plain Keras: `compile(optimizer)`, then `fit(batches, callbacks=[evaluation, AlternatingProjections(...)])`.
    The experiments of this project use `common.training.EmbeddingModel` with the same loss, term and callback.

    Under a `mixed_float16` policy the loss is scaled, and the proximal term added to what the gradients are without
    that. A `.keras` file holds network, proxies and rate, not θ*: the loaded weights are the new one.

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

    def __init__(self, network: keras.Model, metric_loss: ChanceConstrainedLoss, rate: float = 2e-4) -> None:
        super().__init__(name="chance_constrained_model")
        if not network.built:
            fix = "Begin it with keras.Input, or call it once on a batch."
            raise invalid("network", received="a model without weights", expected="one that is built", fix=fix)
        self.network = network
        self.metric_loss = metric_loss
        self.proximal_term = ProximalTerm(network.trainable_variables, rate)
        self.mean_loss = keras.metrics.Mean(name="loss")
        self.built = True
        self._awaits_weights = False  # those of a file, which come after the constructor

    def compile(
        self, optimizer: str | keras.optimizers.Optimizer = "adam", jit_compile: bool = False, **kwargs: Any
    ) -> None:
        """As Keras' `compile`, without XLA by default: losses check labels and choose rows by the data."""
        super().compile(optimizer=optimizer, jit_compile=jit_compile, **kwargs)
        if isinstance(self.optimizer, keras.mixed_precision.LossScaleOptimizer):
            self.optimizer.build(list(self.trainable_variables))  # its scale must exist before a step is traced

    def make_train_function(self, force: bool = False) -> Callable:  # noqa: D102
        if self._awaits_weights:
            self.proximal_term.set_targets()
            self._awaits_weights = False
        return super().make_train_function(force)

    def call(self, inputs: tf.Tensor, training: bool | None = None) -> tf.Tensor:  # noqa: D102
        return normalize(self.network(inputs, training=training), self.metric_loss.normalization)

    def train_step(self, data: tuple[tf.Tensor, tf.Tensor]) -> dict[str, tf.Tensor]:  # noqa: D102
        inputs, labels = data
        variables = list(self.trainable_variables)
        with tf.GradientTape() as tape:
            loss = self.metric_loss(self(inputs, training=True), labels, training=True)
            scale, undone_by_optimizer = _loss_scale(self.optimizer)
            scaled_loss = scale * loss
        gradients = tape.gradient(scaled_loss, variables, unconnected_gradients="zero")
        gradients = [tf.convert_to_tensor(gradient) / scale for gradient in gradients]
        gradients = self.proximal_term(gradients, variables)
        if undone_by_optimizer:
            gradients = [gradient * scale for gradient in gradients]
        self.optimizer.apply_gradients(list(zip(gradients, variables)))
        self.mean_loss.update_state(loss)
        return {"loss": self.mean_loss.result()}

    @property
    def metrics(self) -> list[keras.metrics.Metric]:
        """The mean loss of the epoch, which Keras resets."""
        return [self.mean_loss]

    def embed(self, batches: Iterable) -> np.ndarray:
        """Embeddings float32 `[inputs, dim]` of batches of inputs, in inference mode."""
        return np.concatenate([self._embedding_step(inputs).numpy() for inputs in batches]).astype(np.float32)

    @tf.function(reduce_retracing=True, autograph=False)
    def _embedding_step(self, inputs: tf.Tensor) -> tf.Tensor:
        return self(inputs, training=False)

    def get_config(self) -> dict:  # noqa: D102
        parts = {"network": self.network, "metric_loss": self.metric_loss}
        serialized = {name: keras.utils.serialize_keras_object(part) for name, part in parts.items()}
        return {**serialized, "rate": self.proximal_term.rate}

    @classmethod
    def from_config(cls, config: dict, custom_objects: dict | None = None) -> ChanceConstrainedModel:
        """The model that `get_config` describes, before it has the weights of a file."""
        names = ("network", "metric_loss")
        network, metric_loss = (keras.utils.deserialize_keras_object(config[name], custom_objects) for name in names)
        model = cls(network, metric_loss, rate=config["rate"])
        model._awaits_weights = True
        return model


def _loss_scale(optimizer: keras.optimizers.Optimizer) -> tuple[float | tf.Tensor, bool]:
    """The factor of the loss that keeps float16 gradients from vanishing, and whether `apply_gradients` divides by it.

    Keras 3 does, Keras 2 leaves it to the train step. 1.0 without a `LossScaleOptimizer`.
    """
    if not isinstance(optimizer, keras.mixed_precision.LossScaleOptimizer):
        return 1.0, False
    if hasattr(optimizer, "get_scaled_loss"):  # Keras 2
        return optimizer.get_scaled_loss(tf.ones([])), False
    return optimizer.scale_loss(tf.ones([])), True
