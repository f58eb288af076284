"""Gradient transforms and optimisers: decay, clipping, and faster proxies."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol, TypeAlias, runtime_checkable

import numpy as np
import tensorflow as tf
from tensorflow import keras

from common.errors import check_non_negative, check_positive, invalid
from common.training.gradients import apply_gradients, are_finite, loss_scale, without_scale

# Maps the gradients of a step and their variables, in one order, to the gradients to apply.
GradientTransform: TypeAlias = Callable[[list[tf.Tensor], list[tf.Variable]], list[tf.Tensor]]


@runtime_checkable
class StatefulTransform(Protocol):
    """A gradient transform with its own variables, which a traced step reads."""

    @property
    def state_variables(self) -> list[tf.Variable]:
        """All its variables, in a fixed order."""


class CoupledWeightDecay:
    """Adds `rate * w` to every weight's gradient, except batch normalisation's.

    This is L2, not decoupled decay.

    Reference: thesis sections 3.3.2.1 and 5.3.4.1 ("weight decay 1e-4"), with the published code's reading of it
    (added to the gradient, so that Adam rescales it).

    Args:
        rate: the factor of the weight, >= 0 (thesis: 1e-4; 4e-4 for ResNet-50 in the conventional setting).
        model: the Keras model whose batch-normalisation weights are skipped.
    """

    def __init__(self, rate: float, model: keras.Model) -> None:
        self.rate = check_non_negative("weight_decay", rate)
        self._excluded = {id(w) for w in batch_normalization_weights(model)}

    def __call__(self, gradients: list[tf.Tensor], variables: list[tf.Variable]) -> list[tf.Tensor]:
        """Return gradients of the same shapes, with the decay of their variables."""
        if self.rate == 0:
            return gradients
        return [
            gradient if id(variable) in self._excluded else gradient + self.rate * tf.cast(variable, gradient.dtype)
            for gradient, variable in zip(gradients, variables)
        ]


class GradientClipping:
    """Clips by global norm, then by value (published code: 10 and 10).

    Args:
        global_norm: the largest norm of all gradients together, > 0.
        value: the largest absolute value of any entry, > 0.
    """

    def __init__(self, global_norm: float, value: float) -> None:
        self.global_norm = check_positive("clip_norm", global_norm)
        self.value = check_positive("clip_value", value)

    def __call__(self, gradients: list[tf.Tensor], variables: list[tf.Variable]) -> list[tf.Tensor]:
        """Return clipped gradients of the same shapes."""
        del variables
        gradients, _ = tf.clip_by_global_norm(gradients, self.global_norm)
        return [tf.clip_by_value(gradient, -self.value, self.value) for gradient in gradients]


def batch_normalization_weights(model: keras.Model) -> list[tf.Variable]:
    """Return the batch-normalisation weights at any depth of `model`."""
    layers = model._flatten_layers(include_self=False, recursive=True)
    return [w for layer in layers if isinstance(layer, keras.layers.BatchNormalization) for w in layer.weights]


class CosineSchedule:
    """A learning rate falling to 0 along a half cosine, by step.

    The rate, `initial / 2 · (1 + cos(π · step / num_steps))`, is a function of the step alone. So a resumed run has the
    same rates as an uninterrupted one.

    Reference: Loshchilov and Hutter, SGDR (ICLR 2017), equation 5, without restarts.

    Args:
        initial: the rate of the first step, > 0.
        num_steps: the step at which it is 0, > 0; it stays there.
    """

    def __init__(self, initial: float, num_steps: int) -> None:
        self.initial = check_positive("learning_rate", initial)
        self.num_steps = check_positive("max_steps", num_steps)

    def __call__(self, step: tf.Tensor) -> tf.Tensor:
        """Return the rate, a float32 scalar, of an integer step from 0."""
        share = tf.minimum(tf.cast(step, tf.float32) / self.num_steps, 1.0)
        return self.initial / 2 * (1 + tf.cos(math.pi * share))


class ProxyRateOptimizer:
    """An optimiser for the network, and a copy with `multiplier` times its rate.

    The copy updates proxies. It follows the learning rate of `optimizer` at every step, so a schedule that sets
    `optimizer.learning_rate` changes both. (Adam's update is proportional to its learning rate, so this equals one
    optimiser with a multiplier for those variables.)

    Reference: thesis section 5.3.4.1, "learning rate of proxies x 100".

    Args:
        optimizer: the Keras optimiser of the network; its learning rate may be a schedule.
        multiplier: of the learning rate of the proxies, > 0; below 1, proxies are slower than the network.
        proxy_optimizer: updates the proxies instead of the copy, at its own rate; None: the copy.
        schedule: the learning rate by step, from 0; None: the rate last assigned to the optimiser.
        rates: variables with larger or smaller updates, by a factor above 0 each. An update of Adam or AdamW is
            proportional to the rate, so this is a separate rate.
        ema_decay: δ, of moving averages of all trained variables, in [0, 1); 0: none. After step t, from 1,
            `average += (1 - min(δ, (1 + t) / (10 + t))) (variable - average)`, as in TensorFlow's
            `ExponentialMovingAverage`. They are part of `variables`; `averaged_weights` puts them into the model.

    Both copies may be `LossScaleOptimizer`s. A gradient that is not finite then stops the step of both, so that their
    scales stay the same. `global_clipnorm` bounds one norm, that of all gradients. With `use_ema` all variables have
    their averages at the end of `fit`.

    Raises:
        InvalidInput: a multiplier that is not above 0, or not 1 with a `proxy_optimizer`; a decay outside of [0, 1);
            `use_ema` with `rates`; or, in `build`, `global_clipnorm` with `gradient_accumulation_steps` and proxies.
    """

    def __init__(
        self,
        optimizer: keras.optimizers.Optimizer,
        multiplier: float = 1.0,
        *,
        proxy_optimizer: keras.optimizers.Optimizer | None = None,
        schedule: Callable[[tf.Tensor], tf.Tensor] | None = None,
        rates: Sequence[tuple[tf.Variable, float]] = (),
        ema_decay: float = 0.0,
    ) -> None:
        self.optimizer = optimizer
        self.multiplier = check_positive("proxy_learning_rate_multiplier", multiplier)
        if proxy_optimizer is not None and multiplier != 1:
            raise invalid("proxy_multiplier", received=multiplier, expected="1 with a proxy_optimizer")
        self._follows = proxy_optimizer is None
        config = optimizer.get_config()
        inner = config["inner_optimizer"]["config"] if "inner_optimizer" in config else config
        if isinstance(inner["learning_rate"], dict):  # a schedule: the copy's rate is assigned at every step
            inner["learning_rate"] = float(without_scale(optimizer).learning_rate)
        if proxy_optimizer is not None and "inner_optimizer" in config:  # both have a loss scale
            config["inner_optimizer"] = keras.utils.serialize_keras_object(without_scale(proxy_optimizer))
            proxy_optimizer = None
        self.proxy_optimizer = proxy_optimizer or type(optimizer).from_config(config)
        self.schedule = schedule
        self._rates = [(variable, check_positive("rate", rate)) for variable, rate in rates if rate != 1]
        if self._rates and without_scale(optimizer).use_ema:
            raise invalid("use_ema", received=True, expected="False with rates of single variables")
        if not 0 <= ema_decay < 1:
            raise invalid("ema_decay", received=ema_decay, expected="a number in [0, 1)")
        self.ema_decay = ema_decay
        self._averages: list[tuple[tf.Variable, tf.Variable]] = []  # each trained variable with its average

    def build(self, variables: list[tf.Variable], proxy_variables: list[tf.Variable]) -> None:
        """Create the slots now, so that a checkpoint can restore them."""
        inner = without_scale(self.optimizer)
        steps = getattr(inner, "gradient_accumulation_steps", None)  # Keras 3
        if proxy_variables and inner.global_clipnorm and steps:
            expected = "None with global_clipnorm and a rate of proxies of their own"
            raise invalid("gradient_accumulation_steps", received=steps, expected=expected, fix="Use clipnorm.")
        self.optimizer.build(variables)
        self.proxy_optimizer.build(proxy_variables)
        if self.ema_decay:
            settings = {"trainable": False, "aggregation": tf.VariableAggregation.ONLY_FIRST_REPLICA}
            trained = [*variables, *proxy_variables]
            self._averages = [(each, tf.Variable(tf.convert_to_tensor(each), **settings)) for each in trained]
        if proxy_variables and (inner.use_ema or without_scale(self.proxy_optimizer).use_ema):
            parts = (self.optimizer, variables), (self.proxy_optimizer, proxy_variables)

            def finalize_variable_values(var_list: list[tf.Variable]) -> None:
                del var_list  # of both, in the order of the model
                for optimizer, own in parts:
                    type(optimizer).finalize_variable_values(optimizer, own)

            self.optimizer.finalize_variable_values = finalize_variable_values  # called by Keras' `fit` at its end

    def apply(
        self, gradients: list[tf.Tensor], variables: list[tf.Variable], proxy_variables: list[tf.Variable]
    ) -> None:
        """Update `variables`, which include `proxy_variables`, by gradients of the same order.

        The gradients are those of the loss itself, not of a scaled one.
        """
        proxy_ids = {id(variable) for variable in proxy_variables}
        if proxy_ids and loss_scale(self.optimizer) is not None:
            everywhere = tf.where(are_finite(gradients), 0.0, float("nan"))
            gradients = [gradient + tf.cast(everywhere, gradient.dtype) for gradient in gradients]
        clip_norm = without_scale(self.optimizer).global_clipnorm
        if proxy_ids and clip_norm:  # or each optimiser would clip by the norm of its part
            gradients, _ = tf.clip_by_global_norm(gradients, clip_norm)
        pairs = list(zip(gradients, variables))
        if self.schedule is not None:
            self.optimizer.learning_rate.assign(self.schedule(tf.convert_to_tensor(self.optimizer.iterations)))
        if self._follows:
            inner = without_scale(self.optimizer)
            rate = inner._learning_rate  # or a schedule, which Keras reads at this counter
            if isinstance(rate, keras.optimizers.schedules.LearningRateSchedule):
                rate = rate(tf.convert_to_tensor(inner._iterations))
            without_scale(self.proxy_optimizer).learning_rate.assign(rate * self.multiplier)
        network = [pair for pair in pairs if id(pair[1]) not in proxy_ids]
        proxies = [pair for pair in pairs if id(pair[1]) in proxy_ids]
        before = [tf.identity(tf.convert_to_tensor(variable)) for variable, _ in self._rates]
        apply_gradients(self.optimizer, *_unzipped(network))
        for (variable, rate), old in zip(self._rates, before):
            variable.assign(old + rate * (tf.convert_to_tensor(variable) - old))
        if proxies:
            apply_gradients(self.proxy_optimizer, *_unzipped(proxies))
        step = tf.cast(tf.convert_to_tensor(without_scale(self.optimizer).iterations), tf.float32)
        decay = tf.minimum(self.ema_decay, (1 + step) / (10 + step))
        for variable, average in self._averages:
            average.assign(average + tf.cast(1 - decay, average.dtype) * (tf.convert_to_tensor(variable) - average))

    @contextlib.contextmanager
    def averaged_weights(self) -> Iterator[None]:
        """Put the averages in place of the trained variables; put these back afterwards."""
        kept = [np.array(variable) for variable, _ in self._averages]
        for variable, average in self._averages:
            variable.assign(np.array(average))
        try:
            yield
        finally:
            for (variable, _), value in zip(self._averages, kept):
                variable.assign(value)

    @property
    def variables(self) -> list[tf.Variable]:
        """Learning rates, step counters, slots and averages, in a fixed order."""
        averages = [average for _, average in self._averages]
        return [*self.optimizer.variables, *self.proxy_optimizer.variables, *averages]

    @property
    def state_variables(self) -> list[tf.Variable]:
        """`variables` and the rates, which Keras 2 keeps apart.

        An update reads and writes nothing else besides weights.
        """
        return [*self.variables, self.optimizer.learning_rate, self.proxy_optimizer.learning_rate]


def _unzipped(pairs: list[tuple[tf.Tensor, tf.Variable]]) -> tuple[list[tf.Tensor], list[tf.Variable]]:
    return [gradient for gradient, _ in pairs], [variable for _, variable in pairs]
