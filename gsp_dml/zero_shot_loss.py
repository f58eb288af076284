"""The zero-shot prediction loss: attributes must transfer from some classes to others."""

from __future__ import annotations

from typing import Literal

import tensorflow as tf
from tensorflow import keras

from common.errors import check_positive
from common.losses.loss_layer import LossLayer
from common.ops.pair_masks import check_class_ids, integer_labels, nan_unless
from common.ops.precision import at_least_float32, in_full_precision
from common.parameters import Count, LayerArguments, Positive, Unpack, checked
from common.references.proxy_bank import proxy_initializer, serialized_initializer
from common.references.reference_set import References
from gsp_dml.zero_shot_halves import half_of


@keras.utils.register_keras_serializable(package="deep_metric_learning")
class ZeroShotPredictionLoss(LossLayer):
    """Regression from attributes to label embeddings, transferred between halves of a batch's classes.

        A_b = V_b (Z_b^T Z_b + ridge I)^-1 Z_b^T       for each half b; columns z_i and v_(y_i)
        L = sum_b 1/|b'| sum_{i in b'} - log softmax_{y_i}( scale v_1^T A_b z_i, ..., scale v_C^T A_b z_i )

    with b' the other half. The softmax runs over all training classes, in both directions. The halves have no class in
    common, so the map from attributes to labels is tested on classes that it has not seen.

    Reference: thesis section 5.2.3, problem (P3) and equation 5.2.4; ICCV 2023 equation 4.4. Erratum: as printed,
    log(1 + sum_j exp((v_j - v_(y_i))^T A z_i)) counts j = y_i twice; this is the cross-entropy that the text names.
    Published code: logit_scale 9.5, reduction "mean", halves "even_odd", label_initializer "he_normal_over_proxies".

    Exact gradient through the regression (one Cholesky factorisation of a batch x batch matrix). Attributes that are
    all zero (the prototypes are not there yet) give the constant 2 log C with gradient zero.

    Args:
        num_classes: C, number of training classes, at least 2; labels are 0..C-1.
        embedding_dim: dimension of the label embeddings; the thesis does not state it, here usually the embedding's.
        ridge: regularisation of the regression, above 0.
        logit_scale: factor on the logits, above 0.
        reduction: "sum_of_means" (equation 5.2.4) or "mean" over the whole batch.
        halves: "classes" (classes in the order in which the batch shows them go to one half and the other in turn) or
            "even_odd" (positions of the batch; disjoint only if it is interleaved over an even number of classes, or
            has one sample of each: `zero_shot_halves.check_halves`).
        label_initializer: as of `common.references.ProxyBank`.
        dtype: of the computation, "float32" or "float64"; None: float64 if the global policy is that.

    Call arguments:
        attributes: z, `[batch, prototypes]`.
        labels: integers, `[batch]`, of two classes at least.

    Output: a scalar.

    Raises:
        InvalidInput: an argument is out of its range.
        tf.errors.InvalidArgumentError: the batch has one class only, or a label is not in 0..C-1. Inside XLA, which
            drops checks, the loss is NaN.

    Examples:
        >>> loss = ZeroShotPredictionLoss(num_classes=100, embedding_dim=128)
        >>> value = loss(outputs["attributes"], labels)
    """

    @checked
    def __init__(
        self,
        num_classes: int,
        embedding_dim: Count,
        *,
        ridge: Positive = 0.05,
        logit_scale: Positive = 1.0,
        reduction: Literal["sum_of_means", "mean"] = "sum_of_means",
        halves: Literal["classes", "even_odd"] = "classes",
        label_initializer: str | dict | keras.initializers.Initializer = "he_normal",
        **kwargs: Unpack[LayerArguments],
    ) -> None:
        super().__init__(**in_full_precision(kwargs))
        check_positive("num_classes - 1", num_classes - 1)
        self.num_classes = int(num_classes)
        self.embedding_dim = int(embedding_dim)
        self.ridge = float(ridge)
        self.logit_scale = float(logit_scale)
        self.reduction = reduction
        self.halves = halves
        self.label_initializer = label_initializer
        self.label_embeddings = self.add_weight(
            name="label_embeddings",
            shape=(self.num_classes, self.embedding_dim),
            initializer=proxy_initializer(label_initializer),
            trainable=True,
        )
        self.built = True  # the constructor makes all of the state

    @property
    def proxy_variables(self) -> list[tf.Variable]:
        """Label embeddings train at the base learning rate."""
        return []

    def call(self, attributes: tf.Tensor, labels: tf.Tensor, sample_weight: tf.Tensor | None = None) -> tf.Tensor:
        attributes = tf.cast(attributes, self.compute_dtype)
        labels = tf.clip_by_value(integer_labels(labels), 0, self.num_classes - 1)  # `check_labels` has seen the others
        half = half_of(labels, self.halves)
        members = tf.cast(tf.equal(half[None, :], tf.constant([[0], [1]])), attributes.dtype)  # [2, batch]
        sizes = tf.reduce_sum(members, axis=1)
        tf.debugging.assert_positive(
            sizes, "The zero-shot loss needs a batch of at least two classes to split: draw more classes per batch."
        )
        label_embeddings = tf.convert_to_tensor(self.label_embeddings)
        predictions = predict_other_half(attributes, tf.gather(label_embeddings, labels), half, self.ridge)
        logits = self.logit_scale * tf.matmul(predictions, label_embeddings, transpose_b=True)  # [batch, classes]
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
        losses = losses if sample_weight is None else losses * sample_weight
        sums = tf.linalg.matvec(members, losses)
        loss = tf.reduce_sum(sums / sizes) if self.reduction == "sum_of_means" else tf.reduce_mean(losses)
        return nan_unless(tf.reduce_min(sizes) > 0, loss)

    def check_labels(self, labels: tf.Tensor, references: References | None = None) -> tf.Tensor:
        """Reject labels without a label embedding."""
        return check_class_ids(labels, self.num_classes)

    def get_config(self) -> dict:
        return {
            **super().get_config(),
            "num_classes": self.num_classes,
            "embedding_dim": self.embedding_dim,
            "ridge": self.ridge,
            "logit_scale": self.logit_scale,
            "reduction": self.reduction,
            "halves": self.halves,
            "label_initializer": serialized_initializer(self.label_initializer),
        }


def predict_other_half(attributes: tf.Tensor, targets: tf.Tensor, half: tf.Tensor, ridge: float) -> tf.Tensor:
    """Predict each half's targets by ridge regression on the other half.

        t_i = V_b (Z_b^T Z_b + ridge I)^-1 Z_b^T z_i,       b the half that i is not in

    In dual form: the Gram matrix of the batch, with entries across the halves set to zero, holds both problems in
    one matrix, which stays well conditioned for any attributes because of the ridge.

    Reference: thesis (P3) and its solution.

    Args:
        attributes: z, `[batch, prototypes]`.
        targets: v, `[batch, dim]`.
        half: integers, `[batch]`: 0 or 1.
        ridge: above 0.

    Returns:
        `[batch, dim]`. Exact gradient.
    """
    attributes, targets = at_least_float32(attributes), at_least_float32(targets)
    gram = tf.matmul(attributes, attributes, transpose_b=True)
    same = tf.cast(tf.equal(half[:, None], half[None, :]), gram.dtype)  # [batch, batch]
    factor = tf.linalg.cholesky(gram * same + ridge * tf.eye(tf.shape(gram)[0], dtype=gram.dtype))
    return tf.matmul(gram * (1.0 - same), tf.linalg.cholesky_solve(factor, targets))
