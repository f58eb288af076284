"""Proximal term that keeps a projection problem near the solution of the previous one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import tensorflow as tf

from common.errors import check_non_negative, invalid


class ProximalTerm:
    """Adds the proximal term's gradient to the gradients of the network's weights.

    The term is `(λ/2) ‖θ - θ*‖²`, its gradient `λ (θ - θ*)`.

    Reference: thesis eq. 3.2.11 and Algorithm 1, which prints λ(θ* - θ) by mistake: descending along that sign drives
    the weights away from θ*. Through Adam the term is rescaled like a coupled weight decay.

    Args:
        variables: θ, the trainable weights of the network, without proxies. θ* begins as a copy of their values.
        rate: λ, at least 0 (thesis: 2e-4).

    Attributes:
        variables: θ.
        rate: λ as given.
        current_rate: λ in use, a `tf.Variable` (another value for the first problem).

    Raises:
        InvalidInput: no variables, or a negative rate.

    Examples:
        >>> term = ProximalTerm([*backbone.trainable_variables, *head.trainable_variables], rate=2e-4)
        >>> model.compile_training(update, gradient_transforms=[decay, term])
    """

    def __init__(self, variables: Iterable[tf.Variable], rate: float = 2e-4) -> None:
        self.variables = list(variables)
        if not self.variables:
            raise invalid("variables", received=[], expected="the trainable weights of a network that is built")
        self.rate = check_non_negative("ccp_lambda", rate)
        self.current_rate = tf.Variable(rate, trainable=False, dtype=tf.float32, name="proximal_rate")
        copies = [tf.Variable(tf.convert_to_tensor(variable), trainable=False) for variable in self.variables]
        self._targets = {id(variable): copy for variable, copy in zip(self.variables, copies)}

    def __call__(self, gradients: list, variables: list) -> list:
        """Add the term to `gradients` of `variables`; all shapes stay."""
        return [self._add(gradient, variable) for gradient, variable in zip(gradients, variables)]

    @property
    def state_variables(self) -> list[tf.Variable]:
        """λ in use and θ*."""
        return [self.current_rate, *self._targets.values()]

    def targets(self) -> list[np.ndarray]:
        """Return θ*, in the order of `variables`."""
        return [self._targets[id(variable)].numpy() for variable in self.variables]

    def set_targets(self, values: Sequence[np.ndarray | tf.Tensor | tf.Variable] | None = None) -> None:
        """Set θ* to `values`, arrays in the order of `variables`.

        None: the present θ.
        """
        values = self.variables if values is None else values
        for variable, value in zip(self.variables, values):
            self._targets[id(variable)].assign(tf.convert_to_tensor(value))

    def _add(self, gradient: tf.Tensor, variable: tf.Variable) -> tf.Tensor:
        target = self._targets.get(id(variable))
        if target is None:
            return gradient
        away = tf.convert_to_tensor(variable) - target
        return gradient + tf.cast(tf.cast(self.current_rate, away.dtype) * away, gradient.dtype)
