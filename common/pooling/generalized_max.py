"""Generalised max pooling: weights that make frequent features count no more than rare ones."""

from __future__ import annotations

import numpy as np
import tensorflow as tf
from tensorflow import keras

from common.ops.shapes import InputShape
from common.parameters import PoolingArguments, Positive, Unpack, checked
from common.pooling.weighted_pooling import WeightedPooling, shares


@keras.utils.register_keras_serializable(package="deep_metric_learning")
class GeneralizedMaxPooling(WeightedPooling):
    """The vector with inner products near one with all local features (GeMax).

        pooled = argmin_v sum_j (f_j.v - 1)^2 + ridge ||v||^2  =  sum_j a_j f_j,    (F Fᵀ + ridge I) a = 1

    F holds the features `[positions, channels]`. Solved by a Cholesky factorisation of the Gram matrix of positions;
    the published code inverts that matrix. The Gram matrix and its solution are float64: in float32, and sooner in the
    TensorFloat-32 of recent GPUs, rounding makes it indefinite for large features. Exact gradient. Where squared norms
    add up to more than 2e15 ridges, the ridge is raised (without gradient) to the rounding error of the matrix.

    Reference: thesis section 5.3.5 (vi, GeMax); N. Murray, H. Jegou, F. Perronnin, A. Zisserman, "Interferences in
    match kernels", 2016 (generalised max pooling, dual form). The paper normalises local features, the published code
    does not, and nor does this layer.

    Head: the thesis pools first and then projects (`project_first=False`).

    Args:
        ridge: lambda, > 0. As it grows the pooled vector turns to the direction of the average.

    Input shape:
        `[batch, height, width, channels]` or `[batch, positions, channels]`; see `FeaturePooling`.

    Output shape:
        `[batch, channels]`, float32 (or float64).

    Raises:
        InvalidInput: `ridge` is not positive.
    """

    @checked
    def __init__(self, ridge: Positive = 1.0, **kwargs: Unpack[PoolingArguments]) -> None:
        super().__init__(**kwargs)
        self.ridge = float(ridge)

    def call(self, features: tf.Tensor, mask: tf.Tensor | None = None, training: bool | None = None) -> tf.Tensor:
        features, mask = self.full_precision_positions(features, mask)
        return tf.linalg.matvec(features, self._coefficients(features), transpose_a=True)

    def spatial_weights(self, features: tf.Tensor, mask: tf.Tensor | None = None) -> tf.Tensor:
        """Return each position's share `|a_j| / sum_l |a_l|`, `[batch, positions]`; see `WeightedPooling`.

        A coefficient is negative where a feature is explained away by others.
        """
        features, mask = self.full_precision_positions(features, mask)
        return shares(tf.abs(self._coefficients(features)), mask)

    def _coefficients(self, features: tf.Tensor) -> tf.Tensor:
        """Return the coefficients `[batch, positions]`; masked positions (zero) do not affect others."""
        features = tf.cast(features, tf.float64)
        gram = tf.matmul(features, features, transpose_b=True)  # [batch, positions, positions]
        rounding = 2.0 * np.finfo(np.float64).eps * tf.linalg.trace(gram)
        ridge = tf.stop_gradient(tf.maximum(rounding, self.ridge))[:, None, None]
        gram += ridge * tf.eye(tf.shape(gram)[-1], dtype=gram.dtype)
        coefficients = tf.linalg.cholesky_solve(tf.linalg.cholesky(gram), tf.ones_like(features[..., :1]))
        return tf.cast(coefficients[..., 0], self.compute_dtype)

    def compute_output_shape(self, input_shape: InputShape) -> tuple[int | None, ...]:
        return (input_shape[0], self.num_channels(input_shape))

    def get_config(self) -> dict:
        return {**super().get_config(), "ridge": self.ridge}
