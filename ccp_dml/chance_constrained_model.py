"""CCP around any network, trained with Keras' own `compile` and `fit`."""

from __future__ import annotations

from collections.abc import Callable

from tensorflow import keras

from ccp_dml.chance_constrained_loss import ChanceConstrainedLoss
from ccp_dml.proximal_term import ProximalTerm
from common.parameters import Unpack
from common.training import MetricModel
from common.training.metric_model import ModelArguments


@keras.utils.register_keras_serializable(package="deep_metric_learning")
class ChanceConstrainedModel(MetricModel):
    """A `MetricModel` with a chance-constrained loss and its proximal term.

    For plain Keras: `compile(optimizer)`, then `fit(batches, callbacks=[evaluation, AlternatingProjections(...)])`.
    The experiments of this project use `common.training.EmbeddingModel` with the same loss, term and callback.

    Under a `mixed_float16` policy the proximal term is added to the gradients without the loss' scale. A
    `.keras` file holds network, proxies, rate and the optimiser's state, not θ*: the loaded weights are the new one.

    Args:
        network: any built Keras model from inputs to embeddings `[batch, dim]`.
        metric_loss: the loss with its proxies.
        rate: λ of the proximal term, at least 0 (thesis: 2e-4).
        **kwargs: `proxy_multiplier` and others; see `MetricModel`.

    Attributes:
        proximal_term: the `ProximalTerm` over the network's trainable weights.

    Input shape: that of the network.
    Output shape: `[batch, dim]`, normalised as the loss does.

    Raises:
        InvalidInput: a network without weights yet, or a negative rate.
    """

    def __init__(
        self,
        network: keras.Model,
        metric_loss: ChanceConstrainedLoss,
        rate: float = 2e-4,
        **kwargs: Unpack[ModelArguments],
    ) -> None:
        super().__init__(network, metric_loss, **kwargs)
        self.proximal_term = ProximalTerm(network.trainable_variables, rate)
        self.gradient_transforms = (self.proximal_term,)
        self._awaits_weights = False  # those of a file, which come after the constructor

    def make_train_function(self, force: bool = False) -> Callable:  # noqa: D102
        if self._awaits_weights:
            self.proximal_term.set_targets()
            self._awaits_weights = False
        return super().make_train_function(force)

    def get_config(self) -> dict:  # noqa: D102
        return {**super().get_config(), "rate": self.proximal_term.rate}

    @classmethod
    def from_config(cls, config: dict, custom_objects: dict | None = None) -> ChanceConstrainedModel:
        """Return the model that `get_config` describes, before a file's weights are loaded."""
        model = super().from_config(config, custom_objects)
        model._awaits_weights = True
        return model
