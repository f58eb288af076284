"""Self-distillation of similarities: an embedding follows larger ones of the same features."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf
from tensorflow import keras

from common.errors import check_positive, invalid
from common.losses.component_loss import components
from common.losses.composed_loss import LossOfParts
from common.losses.metric_loss import MetricLoss
from common.ops.distances import pairwise_inner_products
from common.ops.normalization import normalize
from common.parameters import Count, CountOrZero, LayerArguments, NotNegative, Positive, Unpack, checked
from common.references.reference_set import References


def similarity_divergence(embeddings: tf.Tensor, teacher: tf.Tensor, temperature: float) -> tf.Tensor:
    """Return `T²/n Σ_i KL(softmax(S'_i / T) ‖ softmax(S_i / T))` of a batch's cosines.

    S_i and S'_i are the cosines of row i with all rows, itself included, in the one space and in the teacher's.

    Args:
        embeddings: `[n, dim]`.
        teacher: `[n, dim of its own]`.
        temperature: T, greater than 0.

    Returns:
        A scalar; 0 without embeddings. Exact gradient in the embeddings, none in the teacher.
    """
    unit, fixed = normalize(embeddings, "unit"), tf.stop_gradient(normalize(teacher, "unit"))
    logs = tf.nn.log_softmax(pairwise_inner_products(unit, unit) / temperature)  # [n, n]
    expected = tf.nn.log_softmax(pairwise_inner_products(fixed, fixed) / temperature)
    total = tf.reduce_sum(tf.exp(expected) * (expected - logs))
    return temperature**2 * total / tf.cast(tf.maximum(tf.shape(logs)[0], 1), logs.dtype)


@keras.utils.register_keras_serializable(package="deep_metric_learning")
class SelfDistillationLoss(LossOfParts):
    """S2SD: an embedding learns from larger ones, which only training makes.

    `½ [L(e) + mean_k L_k(g_k(φ))] + w mean_k D(e, g_k(φ)) + w_φ D(e, φ)`. φ is the pooled feature that e was projected
    from, `g_k(φ) = V_k relu(W_k φ + b_k) + c_k` a branch, and D the divergence of their similarities
    (`similarity_divergence`). The last term counts from a step on. The step is a weight that advances in calls with
    `training=True`.

    Reference: Roth, Milbich, Ommer, Cohen, Ghassemi: Simultaneous Similarity-based Self-Distillation for Deep Metric
    Learning, ICML 2021 (MSDF; w_φ = 0 is MSD, and DSD with one branch). As in its authors' code, D has the factor T² /
    n, and the teacher is the first argument of KL.

    Gradient: exact, without that of D in the branches and in φ, its teachers.

    Args:
        losses: L of the embedding, then a `MetricLoss` L_k of each branch.
        embedding_dim: components of e, the first of each input.
        feature_dim: components of φ, the others.
        branch_dims: components of each g_k, and of its hidden layer.
        weight: w, at least 0.
        feature_weight: w_φ, at least 0.
        temperature: T, greater than 0.
        start_step: training steps before the last term counts.
        **kwargs: `name`, `dtype`; see `MetricLoss`.

    Input shape: e and φ side by side, `[batch, embedding_dim + feature_dim]`; references alike.

    Raises:
        InvalidInput: an argument is out of its range, or there are not as many losses as spaces; in the call,
            embeddings of another length.

    Examples:
        >>> parts = [ContrastiveLoss(), ContrastiveLoss()]
        >>> loss = SelfDistillationLoss(parts, embedding_dim=8, feature_dim=32, branch_dims=[64])
        >>> loss(tf.random.normal([16, 40]), tf.repeat(tf.range(4), 4))
    """

    @checked
    def __init__(
        self,
        losses: Sequence[MetricLoss],
        embedding_dim: Count,
        feature_dim: Count,
        branch_dims: Sequence[int],
        *,
        weight: NotNegative = 50.0,
        feature_weight: NotNegative = 50.0,
        temperature: Positive = 1.0,
        start_step: CountOrZero = 1000,
        **kwargs: Unpack[LayerArguments],
    ) -> None:
        super().__init__(losses, **kwargs)
        self.embedding_dim = embedding_dim
        self.feature_dim = feature_dim
        self.branch_dims = tuple(check_positive("branch_dims", size) for size in branch_dims)
        if not self.branch_dims or len(losses) != 1 + len(self.branch_dims):
            expected = f"one for the embedding and one for each of {len(self.branch_dims)} branches, at least two"
            raise invalid("number of losses", received=len(losses), expected=expected)
        self.weight = weight
        self.feature_weight = feature_weight
        self.temperature = temperature
        self.start_step = start_step
        self.branches = tuple(self._branch(place, size) for place, size in enumerate(self.branch_dims))
        self.step = self.add_weight(name="step", shape=(), dtype="int64", initializer="zeros", trainable=False)

    def call(
        self,
        embeddings: tf.Tensor,
        labels: tf.Tensor,
        references: References | None = None,
        training: bool | None = None,
    ) -> tf.Tensor:
        """Return the loss of a batch; see the class."""
        embeddings, size = tf.convert_to_tensor(embeddings), self.embedding_dim + self.feature_dim
        if embeddings.shape[-1] is not None and embeddings.shape[-1] != size:
            expected = f"{size}: {self.embedding_dim} of the embedding and {self.feature_dim} of its features"
            raise invalid("dimension of embeddings", received=embeddings.shape[-1], expected=expected)
        student, others = components(embeddings, references, 0, self.embedding_dim)
        features, feature_references = components(embeddings, references, self.embedding_dim, self.feature_dim)
        own = self.parts[0](student, labels, others)
        losses, divergences = [], []
        for part, branch in zip(self.parts[1:], self.branches):
            larger, larger_references = _through(branch, features), feature_references
            if larger_references is not None:
                projected = _through(branch, larger_references.embeddings)
                larger_references = larger_references._replace(embeddings=projected)
            losses.append(part(larger, labels, larger_references))
            divergences.append(similarity_divergence(student, larger, self.temperature))
        is_started = tf.cast(tf.convert_to_tensor(self.step) >= self.start_step, student.dtype)
        from_features = is_started * similarity_divergence(student, features, self.temperature)
        if training:
            self.step.assign_add(1)
        count = len(self.branches)
        value = 0.5 * (own + tf.add_n(losses) / count) + self.weight * tf.add_n(divergences) / count
        return value + self.feature_weight * from_features

    def _branch(self, place: int, size: int) -> tuple[tf.Variable, ...]:
        """Add the weights of a branch: two kernels with biases."""
        weights = []
        for layer, inputs in enumerate((self.feature_dim, size)):
            name = f"branch_{place}_layer_{layer}"
            weights.append(self.add_weight(name=f"{name}_kernel", shape=(inputs, size), initializer="glorot_uniform"))
            weights.append(self.add_weight(name=f"{name}_bias", shape=(size,), initializer="zeros"))
        return tuple(weights)

    def get_config(self) -> dict:
        """Return the constructor's arguments."""
        return {
            **super().get_config(),
            "embedding_dim": self.embedding_dim,
            "feature_dim": self.feature_dim,
            "branch_dims": list(self.branch_dims),
            "weight": self.weight,
            "feature_weight": self.feature_weight,
            "temperature": self.temperature,
            "start_step": self.start_step,
        }


def _through(branch: tuple[tf.Variable, ...], features: tf.Tensor) -> tf.Tensor:
    """Return a branch's embeddings of features `[n, feature_dim]`."""
    kernel, bias, out_kernel, out_bias = (tf.convert_to_tensor(weight) for weight in branch)
    features = tf.cast(features, kernel.dtype)  # Keras 2 leaves references in their own type
    return tf.matmul(tf.nn.relu(tf.matmul(features, kernel) + bias), out_kernel) + out_bias
