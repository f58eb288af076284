"""The layer: pools the part of an image that is close to learned prototypes."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal

import tensorflow as tf
from tensorflow import keras

from common.errors import invalid
from common.ops.call_stack import is_called_by_keras, is_recomputation
from common.ops.normalization import normalize
from common.ops.replicas import first_row_of_replica, gather_over_replicas, num_replicas
from common.ops.shapes import InputShape
from common.parameters import Count, CountOrZero, PoolingArguments, Positive, PositiveShare, Unpack, checked
from common.pooling.feature_pooling import masked_mean
from common.pooling.weighted_pooling import WeightedPooling
from gsp_dml.partial_transport import Transport, check_solver
from gsp_dml.prototype_initializer import (
    FEATURE_MEMORY,
    IMAGE_AVERAGES,
    PrototypeInitializer,
    check_prototype_initializer,
    one_feature_an_image,
    pick_prototypes,
    remember,
    serialized_initializer,
    weight_initializer,
)
from gsp_dml.transport_pooling import CompiledPooling, PoolingInputs, PoolingSettings, transport_of, transport_pooling


@keras.utils.register_keras_serializable(package="deep_metric_learning")
class GeneralizedSumPooling(WeightedPooling):
    """Generalized sum pooling (GSP): an average of local features, weighted by partial transport to m prototypes.

        pooled = sum_j p_j f_j,   p_j = (1/n - rho_j)/mu,   z_i = (1/mu) sum_j pi_ji,   rho, pi solve (P2) for the costs
        c_ji = || clip(f_j) - clip(w_i) ||,  clip(v) = v / max(1, ||v||)

    Only the share mu of the positions that is nearest to the prototypes contributes; the attributes z tell how much
    each prototype received. The features themselves are averaged, not the clipped ones. mu = 1 is average pooling.

    Reference: thesis chapter 5 (P1, P2, Prop. 5.2.1, 5.2.2); Gurbuz, Sener, Alatan, "Generalized Sum Pooling for Metric
    Learning", ICCV 2023. Errata: `transport_gradient`.

    Computes, and returns, float32 under every mixed-precision policy (float64 if dtype is float64). Closed-form
    gradient for features, prototypes and transport ratio. Works inside `tf.function`, with `jit_compile=True`, with an
    unknown batch size and unknown image sizes, and in `tf.vectorized_map` (not of TensorFlow 2.15).

    With `prototype_initializer="feature_memory"` the layer first is average pooling with attributes 0: calls with
    `training=True` collect a clipped vector of each of their images until there are `memory_size`; the call that
    completes them picks the prototypes among them by greedy k-center, and from the next call on the layer pools as
    above. Memory and progress are weights: a restored model resumes where it stopped. A frozen layer
    (`trainable = False`) neither collects features nor picks prototypes. A forward pass that `tf.recompute_grad`
    repeats collects nothing again. A layer that is still average pooling when it predicts, is saved or is
    differentiated in inference mode warns once.

    Args:
        num_prototypes: m, at least 1; thesis: 64 or 128.
        transport_ratio: mu in (0, 1], the share of the image that is kept.
        smoothing: the thesis' epsilon, above 0; thesis: 5, and 0.5 with proxy losses. The larger, the sharper.
        solver: "exact" or "fixed_point", see `partial_transport`.
        num_iterations: of the solver; None for its default.
        prototype_initializer: "feature_memory", "random", a Keras initializer, or an array `[prototypes, channels]`.
        memory_size: images in the feature memory, at least `num_prototypes`.
        memory_features: the feature to remember: "image_averages" (thesis) or "local_features", one per image.
        memory_delay: images (of the flag: update steps) that pass before the memory is filled: average pooling until
            features mean something.
        prototype_regularizer, prototype_constraint: of the prototypes, as of the weights of any Keras layer.
        trainable_transport_ratio: whether mu is a weight that starts at `transport_ratio` (then below 1).
        return_attributes: return a dictionary with "attributes" too.
        return_attention: return a dictionary with "attention" too.
        jit_compile: compile this layer (alone) with XLA: faster, but recompiled for each batch and image size.
        **kwargs: `data_format` ("channels_last", "channels_first" or None for the Keras default; for feature maps) and
            the arguments of a Keras layer.

    Call arguments:
        features: see below.
        mask: boolean `[batch, positions]` (or `[batch, height, width]`), False for padding; or None.
        training: collect features for the prototypes.

    Input shape:
        `[batch, height, width, channels]` (or channels first), or tokens `[batch, positions, channels]`.

    Output shape:
        `[batch, channels]`; or a dictionary: "pooled" `[batch, channels]`, "attributes" z `[batch, prototypes]` (sums
        to one), "attention" the transport plan pi `[batch, height, width, prototypes]` (in the layout of the input;
        `[batch, positions, prototypes]` for tokens; sums to mu).

    Examples:
        >>> features = tf.random.normal([8, 7, 7, 128])
        >>> GeneralizedSumPooling(num_prototypes=64)(features).shape
        TensorShape([8, 128])
    """

    @checked
    def __init__(
        self,
        num_prototypes: Count = 64,
        transport_ratio: PositiveShare = 0.3,
        smoothing: Positive = 5.0,
        *,
        solver: Literal["exact", "fixed_point"] = "exact",
        num_iterations: Count | None = None,
        prototype_initializer: PrototypeInitializer = FEATURE_MEMORY,
        memory_size: Count = 1024,
        memory_features: Literal["image_averages", "local_features"] = "image_averages",
        memory_delay: CountOrZero = 0,
        prototype_regularizer: str | dict | keras.regularizers.Regularizer | None = None,
        prototype_constraint: str | dict | keras.constraints.Constraint | None = None,
        trainable_transport_ratio: bool = False,
        return_attributes: bool = False,
        return_attention: bool = False,
        jit_compile: bool = False,
        **kwargs: Unpack[PoolingArguments],
    ) -> None:
        super().__init__(**kwargs)
        self.num_prototypes = int(num_prototypes)
        self.transport_ratio = float(transport_ratio)
        self.smoothing = float(smoothing)
        check_solver(solver, num_iterations)
        self.solver = solver
        self.num_iterations = num_iterations
        self.prototype_initializer = check_prototype_initializer(prototype_initializer, self.num_prototypes)
        self.memory_size = int(memory_size)
        if memory_size < num_prototypes:
            expected = f"at least num_prototypes = {num_prototypes}"
            raise invalid("memory_size", received=memory_size, expected=expected)
        self.memory_features = memory_features
        self.memory_delay = int(memory_delay)
        self.prototype_regularizer = keras.regularizers.get(prototype_regularizer)
        self.prototype_constraint = keras.constraints.get(prototype_constraint)
        self.trainable_transport_ratio = bool(trainable_transport_ratio)
        if self.trainable_transport_ratio and self.transport_ratio == 1:
            raise invalid("transport_ratio", received=1.0, expected="a number below 1 when it is trainable")
        self.return_attributes = bool(return_attributes)
        self.return_attention = bool(return_attention)
        self.jit_compile = bool(jit_compile)
        self.collects_features = isinstance(self.prototype_initializer, str) and (
            self.prototype_initializer == FEATURE_MEMORY
        )

    def build(self, input_shape: InputShape) -> None:
        channels = self.num_channels(input_shape)
        self.prototypes = self.add_weight(
            name="prototypes",
            shape=(self.num_prototypes, channels),
            initializer=weight_initializer(self.prototype_initializer, channels),
            regularizer=self.prototype_regularizer,
            constraint=self.prototype_constraint,
            trainable=True,
        )
        if self.trainable_transport_ratio:
            logit = math.log(self.transport_ratio / (1 - self.transport_ratio))
            self.transport_ratio_logit = self.add_weight(
                name="transport_ratio_logit", shape=(), initializer=keras.initializers.Constant(logit), trainable=True
            )
        if self.collects_features:
            self.memory = self.add_weight(
                name="memory", shape=(self.memory_size, channels), initializer="zeros", trainable=False
            )
            self.memory_count = self.add_weight(
                name="memory_count",
                shape=(),
                dtype="int64",
                initializer=keras.initializers.Constant(-self.memory_delay),
                trainable=False,
            )
        if self.jit_compile:
            self._compiled_pooling = CompiledPooling(self._settings(self.return_attributes))
        super().build(input_shape)

    def call(
        self, features: tf.Tensor, mask: tf.Tensor | None = None, training: bool | None = None
    ) -> tf.Tensor | dict[str, tf.Tensor]:
        layout = features
        features, mask = self.full_precision_positions(features, mask)
        has_prototypes = self.collect(features, mask, training)
        inputs = self._inputs(features, mask, has_prototypes)
        if self.jit_compile:
            pooled, transport = self._compiled_pooling(inputs)
        else:
            pooled, transport = transport_pooling(inputs, self._settings(self.return_attributes))
        pooled = self.with_warning(pooled, training)
        if not (self.return_attributes or self.return_attention):
            return pooled
        outputs = {"pooled": pooled}
        if self.return_attributes:
            outputs["attributes"] = transport.attributes
        if self.return_attention:
            outputs["attention"] = self._in_layout_of(layout, transport.plan)
        return outputs

    def _settings(self, return_attributes: bool) -> PoolingSettings:
        return PoolingSettings(
            None if self.trainable_transport_ratio else self.transport_ratio,
            self.smoothing,
            self.solver,
            self.num_iterations,
            return_attributes,
            self.return_attention,
        )

    def _inputs(self, features: tf.Tensor, mask: tf.Tensor | None, has_prototypes: tf.Tensor) -> PoolingInputs:
        ratio = None
        if self.trainable_transport_ratio:
            ratio = tf.sigmoid(tf.convert_to_tensor(self.transport_ratio_logit))
        prototypes = tf.convert_to_tensor(self.prototypes)
        return PoolingInputs(features, prototypes, ratio, mask, has_prototypes if self.collects_features else None)

    def spatial_weights(self, features: tf.Tensor, mask: tf.Tensor | None = None) -> tf.Tensor:
        features, mask = self.full_precision_positions(features, mask)
        return self.transport(features, mask, return_attributes=False).weights

    def transport(
        self,
        features: tf.Tensor,
        mask: tf.Tensor | None = None,
        has_prototypes: tf.Tensor | None = None,
        *,
        return_attributes: bool = True,
    ) -> Transport:
        """Solve the transport problem for local features.

        Args:
            features: `[batch, positions, channels]`.
            mask: boolean `[batch, positions]`, or None.
            has_prototypes: boolean scalar, or None for the present state of the layer.
            return_attributes: whether to compute the attributes.

        Returns:
            Weights `[batch, positions]`, attributes `[batch, prototypes]` (or None) and plan `[batch, positions,
            prototypes]` (None unless the layer returns attention).
        """
        has_prototypes = self.has_prototypes() if has_prototypes is None else has_prototypes
        return transport_of(self._inputs(features, mask, has_prototypes), self._settings(return_attributes))

    def has_prototypes(self) -> tf.Tensor:
        """Return whether prototypes are chosen (else: average pooling), a boolean scalar."""
        return tf.constant(True) if not self.collects_features else self.memory_count >= self.memory_size

    def collect(self, features: tf.Tensor, mask: tf.Tensor | None = None, training: bool | None = True) -> tf.Tensor:
        """Add a vector per image to the feature memory in training.

        When it is full, the prototypes are picked.

        Args:
            features: `[batch, positions, channels]`.
            mask: boolean `[batch, positions]`, or None.
            training: whether the call is one of training; a frozen layer collects nothing.

        Returns:
            A boolean scalar: whether there were prototypes before this call.
        """
        had_prototypes = self.has_prototypes()
        if not self._collects_in(training):
            return had_prototypes
        if is_recomputation():  # of a call that has counted already: one that picked prototypes had none before
            return self.memory_count > self.memory_size
        # A collective operation cannot stand inside of a condition.
        gathered = None
        if num_replicas() > 1:
            first = first_row_of_replica(tf.shape(features)[0])
            gathered = gather_over_replicas(self._vectors_to_remember(features, mask, first))

        def fill() -> tf.Tensor:
            vectors = self._vectors_to_remember(features, mask) if gathered is None else gathered
            memory, count = remember(
                tf.convert_to_tensor(self.memory), tf.convert_to_tensor(self.memory_count), vectors
            )
            self.memory.assign(memory)
            self.prototypes.assign(
                tf.cond(
                    count >= self.memory_size,
                    lambda: pick_prototypes(memory, self.num_prototypes),
                    lambda: tf.convert_to_tensor(self.prototypes),
                )
            )
            return count

        beyond = tf.constant(self.memory_size + 1, self.memory_count.dtype)  # a call after the one that picked
        self.memory_count.assign(tf.cond(had_prototypes, lambda: beyond, fill))
        return had_prototypes

    def _collects_in(self, training: bool | None) -> bool:
        return bool(training) and self.collects_features and self.trainable

    def _vectors_to_remember(
        self, features: tf.Tensor, mask: tf.Tensor | None, first_row: int | tf.Tensor = 0
    ) -> tf.Tensor:
        """Return each image's clipped vector, `[batch, channels]`; `first_row` counts in the global batch."""
        if self.memory_features == IMAGE_AVERAGES:
            vectors = masked_mean(features, mask)
        else:
            first_image = tf.convert_to_tensor(self.memory_count) + tf.cast(first_row, self.memory_count.dtype)
            vectors = one_feature_an_image(features, mask, first_image)
        return tf.stop_gradient(normalize(vectors, "clip"))

    def with_warning(self, pooled: tf.Tensor, training: bool | None) -> tf.Tensor:
        """Return a call's pooled features; warn if they are plain averages unawares.

        Args:
            pooled: `[batch, dim]`.
            training: whether the call is one of training.
        """
        if self._collects_in(training) or not self._images_missing():
            return pooled
        if is_called_by_keras("predict") and not is_called_by_keras("fit"):
            self.warn_of_unfinished_start()

        @tf.custom_gradient
        def notice(pooled: tf.Tensor) -> tuple[tf.Tensor, Callable[[tf.Tensor], tf.Tensor]]:
            def backward(upstream: tf.Tensor) -> tf.Tensor:
                self.warn_of_unfinished_start()
                return upstream

            return tf.identity(pooled), backward

        return notice(pooled)

    def unfinished_start(self) -> str:
        """Say that the layer still is average pooling."""
        missing = self._images_missing()
        if not missing:
            return ""
        needed = self.memory_size + self.memory_delay
        return (
            f"{type(self).__name__} {self.name!r} still is average pooling: it has seen {needed - missing} of the "
            f"{needed} training images that it picks its prototypes from. Train longer, or set a smaller "
            f"memory_size (at least {self.num_prototypes}) or prototype_initializer='random'. Only calls with "
            "training=True count, and none of a frozen layer."
        )

    def _images_missing(self) -> int:
        """Return the number of images still to remember; 0 for symbolic weights."""
        if not (self.collects_features and self.built):
            return 0
        with tf.init_scope():
            count = tf.get_static_value(tf.convert_to_tensor(self.memory_count))
        return 0 if count is None else max(self.memory_size - int(count), 0)

    def compute_output_shape(
        self, input_shape: InputShape
    ) -> tuple[int | None, ...] | dict[str, tuple[int | None, ...]]:
        pooled = (input_shape[0], self.num_channels(input_shape))
        if not (self.return_attributes or self.return_attention):
            return pooled
        shapes: dict[str, tuple[int | None, ...]] = {"pooled": pooled}
        if self.return_attributes:
            shapes["attributes"] = (input_shape[0], self.num_prototypes)
        if self.return_attention:
            is_channels_first = len(input_shape) == 4 and self.data_format == "channels_first"
            shape = list(input_shape)
            shape[1 if is_channels_first else -1] = self.num_prototypes
            shapes["attention"] = tuple(shape)
        return shapes

    def get_config(self) -> dict:
        return {
            **super().get_config(),
            "num_prototypes": self.num_prototypes,
            "transport_ratio": self.transport_ratio,
            "smoothing": self.smoothing,
            "solver": self.solver,
            "num_iterations": self.num_iterations,
            "prototype_initializer": serialized_initializer(self.prototype_initializer),
            "memory_size": self.memory_size,
            "memory_features": self.memory_features,
            "memory_delay": self.memory_delay,
            "prototype_regularizer": keras.regularizers.serialize(self.prototype_regularizer),
            "prototype_constraint": keras.constraints.serialize(self.prototype_constraint),
            "trainable_transport_ratio": self.trainable_transport_ratio,
            "return_attributes": self.return_attributes,
            "return_attention": self.return_attention,
            "jit_compile": self.jit_compile,
        }

    def _in_layout_of(self, features: tf.Tensor, plan: tf.Tensor) -> tf.Tensor:
        """Reshape `[batch, positions, prototypes]` to the features' layout (`[batch, height, width, prototypes]`)."""
        if len(features.shape) == 3:
            return plan
        if self.data_format == "channels_first":
            shape = tf.shape(features)
            return tf.transpose(tf.reshape(plan, [shape[0], shape[2], shape[3], self.num_prototypes]), [0, 3, 1, 2])
        return tf.reshape(plan, tf.concat([tf.shape(features)[:3], [self.num_prototypes]], 0))
