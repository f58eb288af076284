"""The loss of one projection problem: a batch against the proxies of all classes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import tensorflow as tf
from tensorflow import keras

from ccp_dml.class_representatives import Representatives
from common.errors import check_non_negative, invalid
from common.losses.composed_loss import LossAround
from common.losses.metric_loss import MetricLoss
from common.ops.normalization import normalize
from common.parameters import LayerArguments, Unpack
from common.references.proxy_bank import ProxyBank
from common.references.reference_set import References


@keras.utils.register_keras_serializable(package="deep_metric_learning")
class ChanceConstrainedLoss(LossAround):
    """Any metric loss between a batch and the proxies of all classes.

    The loss is `loss(batch, proxies) + w · loss(batch, batch)`. Proxies are weights of this layer, so they are trained,
    saved and restored with the model. They are among the `proxy_variables`; the thesis' multiplier for them is 1 at a
    learning rate of 1e-5, where they hardly move. Between projection problems `AlternatingProjections` replaces them.

    The mean over pairs is the one of `loss` (C1's, for one, is a sum over proxies). So are the anchors of triplet and
    multi-similarity: the batch over the proxies by default, each proxy over the batch with `anchors="references"`; the
    thesis leaves it open.

    Reference: thesis eq. 3.2.11 and Algorithm 1 (w = 0); the published code has w = .1 and the batch as the anchors.

    Args:
        loss: the `MetricLoss` of both terms. It normalises embeddings and proxies alike.
        proxies: the `ProxyBank` of all training classes.
        in_batch_weight: w, at least 0.
        warm_up_in_batch: `loss(batch, batch)` alone until the first projection problem begins
            (`ProjectionRules.start_step`, `start_patience`): for a network or a head that begins at random.
        jit_compile: compile `loss(batch, proxies)` alone with XLA: faster with many proxies, as for Stanford
            Online Products, but recompiled for each batch size. For a `loss` without weights of its own.
        **kwargs: `name`, `dtype`; see `MetricLoss`.

    Call arguments: those of `MetricLoss`, embeddings `[batch, dim]` and labels `[batch]`. With `references` the loss
    is over them, without the proxies.

    Raises:
        InvalidInput: a negative weight, or `jit_compile` with a loss that has weights.
        tf.errors.InvalidArgumentError: a label without proxies. XLA, which drops checks, makes the loss NaN.

    Examples:
        >>> proxies = ProxyBank(num_classes=75, proxies_per_class=8, embedding_dim=128)
        >>> loss = ChanceConstrainedLoss(ContrastiveLoss(normalization="clip"), proxies)
    """

    def __init__(
        self,
        loss: MetricLoss,
        proxies: ProxyBank,
        in_batch_weight: float = 0.0,
        warm_up_in_batch: bool = False,
        jit_compile: bool = False,
        **kwargs: Unpack[LayerArguments],
    ) -> None:
        super().__init__(loss, **kwargs)
        self.proxies = proxies
        self.in_batch_weight = check_non_negative("in_batch_weight", in_batch_weight)
        self.warm_up_in_batch = bool(warm_up_in_batch)
        self.jit_compile = bool(jit_compile)
        self.has_begun = False  # a first projection problem; a loss from a file may have
        self._proxy_loss: MetricLoss | CompiledLoss = loss
        if self.jit_compile:
            if loss.weights:
                expected = "False for a loss with weights of its own"
                raise invalid("jit_compile", received=f"True for {loss.name}", expected=expected)
            self._proxy_loss = CompiledLoss(loss)
        if self.warm_up_in_batch:
            self.started = self.add_weight(
                name="started", shape=(), dtype="int32", initializer="zeros", trainable=False
            )

    @property
    def proxy_variables(self) -> list[tf.Variable]:
        """The variables of the loss, and the proxies."""
        return [*super().proxy_variables, self.proxies.proxies]

    def call(
        self,
        embeddings: tf.Tensor,
        labels: tf.Tensor,
        references: References | None = None,
        training: bool | None = None,
        sample_weight: tf.Tensor | None = None,
    ) -> tf.Tensor:  # noqa: D102 (MetricLoss)
        del training  # taken so that Keras 2 hands it on to a loss with a memory
        if references is not None:
            return self.loss(embeddings, labels, references, sample_weight=sample_weight)
        if not self.warm_up_in_batch:
            return self._problem_loss(embeddings, labels, sample_weight)
        started = tf.convert_to_tensor(self.started) > 0
        zero = tf.zeros([], self.loss.compute_dtype)
        # One branch of each is empty: TensorFlow logs a type error of the gradient of a condition with two losses.
        problem_loss = tf.cond(started, lambda: self._problem_loss(embeddings, labels, sample_weight), lambda: zero)
        return problem_loss + tf.cond(
            started, lambda: zero, lambda: self.loss(embeddings, labels, sample_weight=sample_weight)
        )

    def check_labels(self, labels: tf.Tensor, references: References | None = None) -> tf.Tensor | None:
        """Reject labels without proxies, unless references are given."""
        return self.proxies.check_labels(labels) if references is None else None

    def _problem_loss(self, embeddings: tf.Tensor, labels: tf.Tensor, sample_weight: tf.Tensor | None) -> tf.Tensor:
        proxy_loss = self._proxy_loss(embeddings, labels, self.proxies.references(), sample_weight=sample_weight)
        if self.in_batch_weight == 0:
            return proxy_loss
        return proxy_loss + self.in_batch_weight * self.loss(embeddings, labels, sample_weight=sample_weight)

    @property
    def representatives_per_class(self) -> int:
        """The number of proxies per class."""
        return self.proxies.proxies_per_class

    def representatives(self) -> np.ndarray:
        """Return the normalised proxies, as compared by the loss: `[classes, proxies_per_class, dim]`."""
        proxies = normalize(self.proxies.references().embeddings, self.normalization)
        return proxies.numpy().reshape(self._shape)

    def start_problem(self, problem: int, chosen: Representatives) -> None:
        """Begin a problem from the chosen embeddings.

        Args:
            problem: index of the problem.
            chosen: of every class, `[classes, proxies_per_class, dim]`.

        Raises:
            InvalidInput: they are not as many as the proxies, or of another dimension.
        """
        del problem
        if chosen.embeddings.shape != self._shape:
            raise invalid("representatives", received=chosen.embeddings.shape, expected=f"the shape {self._shape}")
        self.proxies.proxies.assign(chosen.embeddings.reshape(-1, self.proxies.embedding_dim))
        self.has_begun = True
        if self.warm_up_in_batch:
            self.started.assign(1)

    def unfinished_start(self) -> str:
        """Say that no projection problem has begun."""
        if self.has_begun:
            return ""
        result = "the loss still is that of the batch alone" if self.warm_up_in_batch else "its proxies began at random"
        return (
            f"{type(self).__name__} {self.name!r}: no projection problem has begun, so {result}. Train longer, or "
            "begin problems: AlternatingProjections in the callbacks of fit, or start_problem in a loop of your own."
        )

    @property
    def _shape(self) -> tuple[int, int, int]:
        return self.proxies.num_classes, self.proxies.proxies_per_class, self.proxies.embedding_dim

    def get_config(self) -> dict:  # noqa: D102
        return {
            **super().get_config(),
            "proxies": keras.utils.serialize_keras_object(self.proxies),
            "in_batch_weight": self.in_batch_weight,
            "warm_up_in_batch": self.warm_up_in_batch,
            "jit_compile": self.jit_compile,
        }

    @classmethod
    def from_config(cls, config: dict) -> ChanceConstrainedLoss:
        """Return the loss that `get_config` describes."""
        loss = super().from_config({**config, "proxies": keras.utils.deserialize_keras_object(config["proxies"])})
        loss.has_begun = True
        return loss


class CompiledLoss:
    """`loss(embeddings, labels, references)` and its gradients, computed together.

    The gradients are those of embeddings and references. A loss is a scalar, so its gradients can be computed at once
    and scaled on the way back. One program reads and writes the references a few times; single operations pass over
    them a dozen times. Not meant to be differentiated twice.

    Args:
        loss: a `MetricLoss` without weights.
    """

    def __init__(self, loss: MetricLoss) -> None:
        self.loss = loss
        self._program = tf.function(self._loss_and_gradients, jit_compile=True, autograph=False)

    def __call__(
        self,
        embeddings: tf.Tensor,
        labels: tf.Tensor,
        references: References,
        sample_weight: tf.Tensor | None = None,
    ) -> tf.Tensor:
        """Return the scalar loss of `embeddings` `[batch, dim]`, `labels` `[batch]`, `sample_weight` `[batch]`."""

        @tf.custom_gradient
        def compiled(
            embeddings: tf.Tensor, vectors: tf.Tensor
        ) -> tuple[tf.Tensor, Callable[[tf.Tensor], list[tf.Tensor]]]:
            stopped = tf.stop_gradient(embeddings), tf.stop_gradient(vectors)
            value, gradients = self._program(*stopped, labels, references.labels, sample_weight)
            return value, lambda upstream: [tf.cast(upstream, part.dtype) * part for part in gradients]

        return compiled(tf.convert_to_tensor(embeddings), references.embeddings)

    def _loss_and_gradients(
        self,
        embeddings: tf.Tensor,
        vectors: tf.Tensor,
        labels: tf.Tensor,
        vector_labels: tf.Tensor,
        sample_weight: tf.Tensor | None,
    ) -> tuple[tf.Tensor, list[tf.Tensor]]:
        sources = [embeddings, vectors]
        with tf.GradientTape() as tape:
            tape.watch(sources)
            references = References(embeddings=vectors, labels=vector_labels)
            value = self.loss(embeddings, labels, references, sample_weight=sample_weight)
        return value, tape.gradient(value, sources, unconnected_gradients="zero")
