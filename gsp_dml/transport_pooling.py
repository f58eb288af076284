"""Pooling by partial transport as a function of tensors, also compiled by XLA."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import tensorflow as tf

from common.pooling.weighted_pooling import shares, weighted_sum
from gsp_dml.partial_transport import Transport, partial_transport, transport_state
from gsp_dml.prototype_costs import CostState, cost_state, prototype_costs
from gsp_dml.transport_gradient import TransportState


class PoolingSettings(NamedTuple):
    """Non-tensor settings of `GeneralizedSumPooling`; `transport_ratio` is None if it is trained."""

    transport_ratio: float | None
    smoothing: float
    solver: str
    num_iterations: int | None
    return_attributes: bool
    return_plan: bool


class PoolingInputs(NamedTuple):
    """The tensors of a pooling.

    Attributes:
        features: f, `[batch, positions, channels]`.
        prototypes: w, `[prototypes, channels]`.
        ratio: the trained transport ratio, a scalar; or None.
        mask: boolean `[batch, positions]`; or None.
        has_prototypes: boolean scalar, False for average pooling; or None, which means True.
    """

    features: tf.Tensor
    prototypes: tf.Tensor
    ratio: tf.Tensor | None
    mask: tf.Tensor | None
    has_prototypes: tf.Tensor | None

    def sources(self) -> list[tf.Tensor]:
        """Return the differentiated tensors: features, prototypes, and the ratio if trained."""
        return [tensor for tensor in self[:3] if tensor is not None]

    def with_sources(self, sources: Sequence[tf.Tensor]) -> PoolingInputs:
        """Return the same inputs with other `sources`."""
        features, prototypes, *ratio = sources
        return self._replace(features=features, prototypes=prototypes, ratio=ratio[0] if ratio else None)


class PoolingState(NamedTuple):
    """Inputs of the backward pass besides the layer's inputs."""

    costs: CostState
    transport: TransportState


def transport_of(inputs: PoolingInputs, settings: PoolingSettings, state: PoolingState | None = None) -> Transport:
    """Solve the transport problem of local features; without prototypes, return uniform weights.

    Args:
        inputs: features `[batch, positions, channels]` and related tensors.
        settings: of the problem.
        state: the solution, if it is known: then only the gradient is computed.

    Returns:
        Weights `[batch, positions]`, attributes `[batch, prototypes]` (0 without prototypes) or None, and plan `[batch,
        positions, prototypes]` or None.
    """
    transport = partial_transport(
        prototype_costs(inputs.features, inputs.prototypes, None if state is None else state.costs),
        _ratio(inputs, settings),
        settings.smoothing,
        solver=settings.solver,
        num_iterations=settings.num_iterations,
        mask=inputs.mask,
        return_attributes=settings.return_attributes,
        return_plan=settings.return_plan,
        state=None if state is None else state.transport,
    )
    if inputs.has_prototypes is None:
        return transport
    uniform = shares(tf.ones_like(transport.weights), inputs.mask)
    return Transport(
        tf.where(inputs.has_prototypes, transport.weights, uniform),
        *(None if part is None else tf.where(inputs.has_prototypes, part, 0.0) for part in transport[1:]),
    )


def transport_pooling(inputs: PoolingInputs, settings: PoolingSettings) -> tuple[tf.Tensor, Transport]:
    """Return the features' weighted average, `[batch, channels]`, and the `Transport` with the weights."""
    transport = transport_of(inputs, settings)
    return weighted_sum(transport.weights, inputs.features), transport


class CompiledPooling:
    """`transport_pooling` as two programs of XLA, one forward and one backward.

    By default, TensorFlow's forward program outputs what the backward one reads, and XLA copies every input
    among these outputs: three times the features. Here the programs are separate, and the features go to both. Only the
    second derivative comes from `transport_pooling`, without XLA.

    Args:
        settings: see `PoolingSettings`.
    """

    def __init__(self, settings: PoolingSettings) -> None:
        self.settings = settings
        self._forward = tf.function(self._solve_and_pool, jit_compile=True, autograph=False)
        self._backward = tf.function(self._differentiate, jit_compile=True, autograph=False)

    def __call__(self, inputs: PoolingInputs) -> tuple[tf.Tensor, Transport]:
        """Return pooled features `[batch, channels]` and the transport, without weights."""

        @tf.custom_gradient
        def pool(*sources: tf.Tensor) -> tuple[tuple[tf.Tensor, ...], Callable[..., list[tf.Tensor]]]:
            stopped = inputs.with_sources([tf.stop_gradient(source) for source in sources])
            outputs, state = self._forward(stopped)

            @tf.custom_gradient
            def gradients(*tensors: tf.Tensor) -> tuple[list[tf.Tensor], Callable[..., list[tf.Tensor]]]:
                upstream = [tf.stop_gradient(tensor) for tensor in tensors[len(sources) :]]
                found = self._backward(stopped, state, upstream)
                return found, lambda *second: self._differentiate_twice(inputs, tensors, second)

            return tuple(outputs), lambda *upstream: gradients(*sources, *upstream)

        outputs = list(pool(*inputs.sources()))
        pooled = outputs.pop(0)
        attributes = outputs.pop(0) if self.settings.return_attributes else None
        return pooled, Transport(None, attributes, outputs[0] if self.settings.return_plan else None)

    def _solve_and_pool(self, inputs: PoolingInputs) -> tuple[list[tf.Tensor], PoolingState]:
        costs = cost_state(inputs.features, inputs.prototypes)
        distances = prototype_costs(inputs.features, inputs.prototypes, costs)
        settings = self.settings
        solution = transport_state(
            distances,
            _ratio(inputs, settings),
            settings.smoothing,
            solver=settings.solver,
            num_iterations=settings.num_iterations,
            mask=inputs.mask,
        )
        state = PoolingState(costs, solution)
        return self._outputs(inputs, state), state

    def _differentiate(self, inputs: PoolingInputs, state: PoolingState, upstream: list[tf.Tensor]) -> list[tf.Tensor]:
        """Return the gradients, with forward values from the state where possible."""
        sources = inputs.sources()
        with tf.GradientTape() as tape:
            tape.watch(sources)
            outputs = self._outputs(inputs, state)
        return tape.gradient(outputs, sources, upstream, unconnected_gradients="zero")

    def _differentiate_twice(
        self, inputs: PoolingInputs, tensors: tuple[tf.Tensor, ...], second: tuple[tf.Tensor, ...]
    ) -> list[tf.Tensor]:
        """Differentiate the gradients, with respect to the sources and the upstream gradients."""
        num_sources = len(inputs.sources())
        sources, upstream = tensors[:num_sources], tensors[num_sources:]
        with tf.GradientTape() as outer:
            outer.watch(tensors)
            with tf.GradientTape() as inner:
                inner.watch(sources)
                pooled, transport = transport_pooling(inputs.with_sources(sources), self.settings)
                outputs = [output for output in (pooled, *transport[1:]) if output is not None]
            gradients = inner.gradient(outputs, sources, list(upstream), unconnected_gradients="zero")
        return outer.gradient(gradients, tensors, list(second), unconnected_gradients="zero")

    def _outputs(self, inputs: PoolingInputs, state: PoolingState) -> list[tf.Tensor]:
        transport = transport_of(inputs, self.settings, state)
        # One loop in XLA, unlike `weighted_sum`.
        pooled = tf.squeeze(tf.matmul(tf.expand_dims(transport.weights, 1), inputs.features), 1)
        return [output for output in (pooled, *transport[1:]) if output is not None]


def _ratio(inputs: PoolingInputs, settings: PoolingSettings) -> float | tf.Tensor:
    return settings.transport_ratio if inputs.ratio is None else inputs.ratio
