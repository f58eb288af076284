"""Adam and AdamW with one operation for each variable's update."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, TypeAlias

import tensorflow as tf
from tensorflow import keras

if TYPE_CHECKING:
    _Optimizer: TypeAlias = Any
else:
    _Optimizer = object  # Keras' optimiser is a base beside the class below
_DTYPES = (tf.float32, tf.float64)  # each device has the operation for these


class _Step:
    """Scalars of one step by graph and type, shared by its variables."""

    def __init__(self) -> None:
        self.scalars: dict[tuple[tf.Graph, tf.DType], dict[str, tf.Tensor]] = {}


class _FusedUpdate(_Optimizer):
    """The update of a variable, for Keras optimisers with the slots of Adam."""

    _step: _Step | None = None

    def apply(self, *args: Any, **kwargs: Any) -> None:
        """Update all variables, on Keras 3."""
        with self._one_step():
            super().apply(*args, **kwargs)

    def apply_gradients(self, *args: Any, **kwargs: Any) -> tf.Variable:
        """Update all variables, on Keras 2; return the counter of steps.

        Keras 3's version calls `apply`.
        """
        with self._one_step():
            return super().apply_gradients(*args, **kwargs)

    def update_step(
        self,
        gradient: tf.Tensor | tf.IndexedSlices,
        variable: tf.Variable,
        learning_rate: tf.Tensor | None = None,
    ) -> None:
        """Update a variable and its slots.

        Args:
            gradient: of the variable's shape, or slices of it.
            variable: one that the optimiser was built with.
            learning_rate: a scalar, as Keras 3 passes it; None, as on Keras 2: the optimiser's own.
        """
        dtype = tf.as_dtype(variable.dtype)
        if self.amsgrad or dtype not in _DTYPES or isinstance(gradient, tf.IndexedSlices):
            rate = () if learning_rate is None else (learning_rate,)
            super().update_step(gradient, variable, *rate)
            return
        index = self._slot_index(variable)
        tf.raw_ops.ResourceApplyAdam(
            var=variable.handle,
            m=self._momentums[index].handle,
            v=self._velocities[index].handle,
            grad=tf.cast(gradient, dtype),
            **self._scalars(self.learning_rate if learning_rate is None else learning_rate, dtype),
        )

    @contextlib.contextmanager
    def _one_step(self) -> Iterator[None]:
        self._step = _Step()
        try:
            yield
        finally:
            self._step = None

    def _slot_index(self, variable: tf.Variable) -> int:
        if hasattr(self, "_get_variable_index"):  # Keras 3
            return self._get_variable_index(variable)
        return self._index_dict[self._var_key(variable)]

    def _scalars(self, learning_rate: tf.Tensor, dtype: tf.DType) -> dict[str, tf.Tensor]:
        """Return the operation's inputs besides the variable, its slots and its gradient."""
        known = {} if self._step is None else self._step.scalars
        key = tf.compat.v1.get_default_graph(), dtype
        if key not in known:
            step = tf.cast(tf.convert_to_tensor(self.iterations) + 1, dtype)
            beta_1, beta_2 = tf.constant(self.beta_1, dtype), tf.constant(self.beta_2, dtype)
            known[key] = {
                "beta1_power": tf.pow(beta_1, step),
                "beta2_power": tf.pow(beta_2, step),
                "lr": tf.cast(tf.convert_to_tensor(learning_rate), dtype),
                "beta1": beta_1,
                "beta2": beta_2,
                "epsilon": tf.constant(self.epsilon, dtype),
            }
        return known[key]


@keras.utils.register_keras_serializable(package="deep_metric_learning")
class FusedAdam(_FusedUpdate, keras.optimizers.Adam):
    """Keras' Adam with one operation, so one memory pass, per variable.

    With the gradient g of step t, from 1:

        m += (1 - β₁) (g - m)
        v += (1 - β₂) (g² - v)
        w -= η sqrt(1 - β₂ᵗ) / (1 - β₁ᵗ) · m / (sqrt(v) + ε)

    Reference: Kingma and Ba, Adam: A Method for Stochastic Optimization (ICLR 2015), algorithm 1 in the order of its
    section 2, in which ε is added after the bias correction of v. TensorFlow's operation: `ResourceApplyAdam`.

    Keras uses some thirty operations, and a dozen of them pass over memory. Everything else is Keras' own: arguments,
    slots and their order, configuration, clipping, moving averages of weights. So either reads the weights of the
    other. Slices as gradients (`tf.IndexedSlices`), `amsgrad`, and variables of other types than float32 and float64
    are updated by Keras' operations.

    Results differ slightly from Keras' Adam. Keras multiplies by 1 - β₂ rounded to float32, while its bias correction
    uses the power of the rounded β₂; here both use the rounded β₂. Updates therefore differ by up to a relative 1e-6
    for β₂ = .99 and 7e-6 for .999, and are closer to the formula (below 1e-6).

    Args:
        *args, **kwargs: those of `keras.optimizers.Adam`: `learning_rate` η, `beta_1`, `beta_2`, `epsilon` ε, ...

    Examples:
        >>> weight = tf.Variable([1.0, -1.0])
        >>> _ = FusedAdam(learning_rate=0.1).apply_gradients([(tf.constant([0.5, -2.0]), weight)])
        >>> print(weight.numpy().round(4))
        [ 0.9 -0.9]
    """


@keras.utils.register_keras_serializable(package="deep_metric_learning")
class FusedAdamW(_FusedUpdate, keras.optimizers.AdamW):
    """Keras' AdamW with the update of `FusedAdam` after the decay.

    The decay is `w -= η λ w`.

    Reference: Loshchilov and Hutter, Decoupled Weight Decay Regularization (ICLR 2019).

    Args:
        *args, **kwargs: those of `keras.optimizers.AdamW`: of `FusedAdam`, and `weight_decay` λ.
            `exclude_from_weight_decay` works as with Keras.

    Examples:
        >>> weight = tf.Variable([1.0, -1.0])
        >>> _ = FusedAdamW(learning_rate=0.1, weight_decay=0.5).apply_gradients([(tf.constant([0.5, -2.0]), weight)])
        >>> print(weight.numpy().round(4))
        [ 0.85 -0.85]
    """
