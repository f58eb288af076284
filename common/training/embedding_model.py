"""The trained model: backbone, head and loss, with a common train step."""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Sequence

import numpy as np
import tensorflow as tf
from tensorflow import keras

from common.backbones.folded_network import FeatureFunction, folded_network
from common.errors import check_choice, check_fraction, check_positive, invalid
from common.losses.class_ids import class_column
from common.losses.metric_loss import MetricLoss
from common.ops.normalization import NORMALIZATIONS, normalize, normalize_groups
from common.pooling.feature_pooling import FeaturePooling
from common.training.devices import check_devices, check_micro_batches, objection_to_parts
from common.training.embedding_head import EmbeddingHead
from common.training.gradients import (
    are_finite,
    compared_vectors,
    in_micro_batches,
    loss_and_gradients,
    loss_scale,
    weighted_loss,
    without_scale,
)
from common.training.optimizers import GradientTransform, ProxyRateOptimizer, StatefulTransform
from common.training.perturbations import Perturbations
from common.training.traced_functions import TracedFunctions


class EmbeddingModel(keras.Model):
    """Maps images to embeddings and trains them under a metric loss.

    The loss is `(1 - w) * metric_loss(embeddings, labels) + w * attribute_loss(attributes, labels)`, plus the layers'
    own losses (regularisers, `add_loss`); without an attribute loss it is the metric loss alone.

    Reference: thesis section 5.2.3, equation 5.2.5 (the mixture with the zero-shot prediction loss, lambda =
    `attribute_weight`).

    Args:
        backbone: images `[batch, height, width, channels]` to feature maps (or tokens to token features).
        head: feature maps to a dictionary with `embeddings` (and `attributes`).
        metric_loss: any `MetricLoss`.
        normalization: how embeddings leave the model: `unit`, `clip` (v / max(1, |v|)) or `none`.
        attribute_loss: a layer called as `loss(attributes, labels)`, or `None`.
        attribute_weight: `w` above, in [0, 1].
        feature_sizes: sizes of several features concatenated in the embedding; each is normalised separately. None: one
            feature.
        num_views: 2 for training batches that hold each image twice, as `common.data.TwoViews` makes them: the second
            half is embedded in a separate pass, without gradient, and the loss sees both halves stacked.
        micro_batch: images whose maps are kept at a time in training; None: the batch. The gradient is that of the
            whole batch, see `in_micro_batches`, which the losses see. A head that is no `EmbeddingHead`, or collects
            features, sees the last maps of the whole batch.
        perturbations: of images and features in training; None: none.

    Input shape:
        That of the backbone.

    Output shape:
        `[batch, embedding_dim]`, normalised.
    """

    def __init__(
        self,
        backbone: keras.Model,
        head: EmbeddingHead,
        metric_loss: MetricLoss,
        *,
        normalization: str = "unit",
        attribute_loss: keras.layers.Layer | None = None,
        attribute_weight: float = 0.0,
        feature_sizes: Sequence[int] | None = None,
        num_views: int = 1,
        micro_batch: int | None = None,
        perturbations: Perturbations | None = None,
    ) -> None:
        super().__init__(name="embedding_model")
        if attribute_loss is None and attribute_weight != 0:
            raise invalid("attribute_weight", received=attribute_weight, expected="0 without an attribute_loss")
        self.backbone = backbone
        self.head = head
        self.metric_loss = metric_loss
        self.normalization = check_choice("normalization", normalization, NORMALIZATIONS)
        self.attribute_loss = attribute_loss
        self.attribute_weight = check_fraction("attribute_weight", attribute_weight, zero_allowed=True)
        self.num_views = check_choice("num_views", num_views, (1, 2))
        if num_views == 2 and attribute_loss is not None:
            fix = "Its attributes are those of one view."
            raise invalid("num_views", received=2, expected="1 with an attribute_loss", fix=fix)
        self.micro_batch = None if micro_batch is None else check_positive("micro_batch", micro_batch)
        self.feature_sizes = None if feature_sizes is None else tuple(feature_sizes)
        self.perturbations = perturbations
        self.gradient_transforms: tuple[GradientTransform, ...] = ()
        self.update: ProxyRateOptimizer | None = None
        self.warming_up = False
        self._folded: FeatureFunction | None = None
        self._shared: Callable[..., Callable] | None = None
        self.distribute_reduction_method = "first"  # of what a step reports: the same on each replica

    def call(self, inputs: tf.Tensor, training: bool | None = None) -> tf.Tensor:
        return self.outputs_of(inputs, training=training)["embeddings"]

    def outputs_of(self, inputs: tf.Tensor, training: bool | None = None) -> dict[str, tf.Tensor]:
        """Return normalised `embeddings` `[batch, embedding_dim]`, and the head's other outputs."""
        perturbations = self.perturbations if training else None
        if perturbations:
            step = tf.convert_to_tensor(without_scale(self.compiled_update.optimizer).iterations)
            inputs = perturbations.of_images(inputs, step)

        def network(images: tf.Tensor) -> tf.Tensor:
            features = self.features_of(images, training=bool(training) and not self.warming_up)
            return tf.stop_gradient(features) if training and self.warming_up else features

        def head_of(images: tf.Tensor) -> dict[str, tf.Tensor]:
            return self.head(network(images), training=training)

        size = self.micro_batch if training else None
        if size is not None and not perturbations and _works_by_row(self.head):
            outputs = in_micro_batches(head_of, inputs, size)
        else:
            features = network(inputs) if size is None else in_micro_batches(network, inputs, size)
            if perturbations:
                features = perturbations.of_features(features, step)
            outputs = self.head(features, training=training)
        if self.feature_sizes is None:
            return {**outputs, "embeddings": normalize(outputs["embeddings"], self.normalization)}
        embeddings = normalize_groups(outputs["embeddings"], self.normalization, self.feature_sizes)
        return {**outputs, "embeddings": embeddings}

    def features_of(self, inputs: tf.Tensor, *, training: bool) -> tf.Tensor:
        """Return the backbone's output, with `fold_batch_norm` the same up to rounding."""
        network = self._folded or self.backbone
        return network(inputs, training=training)

    @property
    def folds_batch_norm(self) -> bool:
        """True after `fold_batch_norm` was called."""
        return self._folded is not None

    def fold_batch_norm(self) -> None:
        """Fold the backbone's frozen batch normalisation into its convolutions.

        It takes effect at the next trace. Training and embedding are faster; weights, files and `backbone` are
        unchanged. See `folded_network`.
        """
        self._folded, _ = folded_network(self.backbone)

    def build_from_spec(self, inputs: tf.TensorSpec, labels: tf.TensorSpec) -> None:
        """Create all weights from the types of inputs and labels, without a batch."""
        numbers, shape = tf.range(2, dtype=tf.int64), labels.shape[1:]
        if labels.dtype == tf.bool:
            classes = tf.one_hot(numbers, shape[0], True, False)
        else:
            classes = tf.reshape(tf.repeat(numbers, shape.num_elements()), [2, *shape])
        self.build_from_batch(tf.zeros([2, *inputs.shape[1:]], inputs.dtype), classes)

    def build_from_batch(self, inputs: tf.Tensor, labels: tf.Tensor) -> None:
        """Create all weights by embedding two images of different classes, without training.

        Two suffice: an eager network keeps the maps of all its layers, gigabytes for a batch of photographs.
        """
        places = np.unique(class_column(labels), axis=0, return_index=True)[1][:2]
        inputs, labels = tf.gather(inputs, places), tf.gather(labels, places)
        outputs = self.outputs_of(inputs, training=False)
        self.metric_loss(compared_vectors(outputs), labels)
        if self.attribute_loss is not None:
            self.attribute_loss(outputs["attributes"], class_column(labels))
        self.built = True

    def compile_training(
        self,
        update: ProxyRateOptimizer,
        gradient_transforms: Sequence[GradientTransform] = (),
        *,
        warming_up: bool = False,
        jit_compile: bool = False,
    ) -> None:
        """Set the update of the weights, and retrace the train step.

        Args:
            update: the optimiser (and its faster copy), made in the scope of the model's strategy.
            gradient_transforms: callables `(gradients, variables) -> gradients`, applied in order; on several replicas
                they receive the gradients of the global batch.
            warming_up: train the head and the losses only; the backbone runs in inference mode.
            jit_compile: compile the step with XLA, which drops the checks of labels.

        Raises:
            InvalidInput: see `check_devices` and `check_micro_batches`.
        """
        check_devices(self, update.optimizer, jit_compile=jit_compile)
        if self.micro_batch is not None:
            check_micro_batches(self.backbone, jit_compile=jit_compile)
        self.update = update
        self.gradient_transforms = tuple(gradient_transforms)
        self.warming_up = warming_up
        with self.distribute_strategy.scope():
            update.build(*self._split(self.trained_variables))
        self.compile(optimizer=update.optimizer, jit_compile=jit_compile)

    def share_traces(self, traces: TracedFunctions, kind: Hashable) -> None:
        """Train and embed with traced functions shared by models of one kind.

        Args:
            traces: of the models of a data set.
            kind: everything except variables that decides the functions of the model, its update and the transforms of
                gradients.
        """
        self._shared = functools.partial(traces.function, kind)

    def make_train_function(self, force: bool = False) -> Callable:  # noqa: D102
        is_one_device = self.distribute_strategy.num_replicas_in_sync == 1
        shared = self._sharing()
        if shared is None or self.run_eagerly or self.jit_compile or not is_one_device:
            return super().make_train_function(force)
        if force or self.train_function is None:
            self.train_function: Callable | None = self._shared_train_function(shared)
        return self.train_function

    def _sharing(self) -> Callable[..., Callable] | None:
        """Return the lookup of shared traced functions, or None.

        None if it was not requested, or if functions run as Python.
        """
        return None if tf.config.functions_run_eagerly() else self._shared

    def _shared_train_function(self, shared: Callable[..., Callable]) -> Callable:
        step = tf.function(lambda iterator: self.train_step(iterator.get_next()), autograph=False)
        found: list[Callable] = []

        def train_function(iterator: tf.data.Iterator) -> dict[str, tf.Tensor]:
            if not found:
                variables = [*self.variables, *self.compiled_update.state_variables]
                for transform in self.gradient_transforms:
                    variables += transform.state_variables if isinstance(transform, StatefulTransform) else []
                inputs, trace = iterator.element_spec, functools.partial(step.get_concrete_function, iterator)
                found.append(shared("warm-up" if self.warming_up else "training", inputs, trace, variables))
            return found[0](iterator)

        return train_function

    @property
    def compiled_update(self) -> ProxyRateOptimizer:
        """The optimiser set by `compile_training`."""
        if self.update is None:
            raise ValueError("The model has no optimiser yet: call compile_training first.")
        return self.update

    @property
    def trained_variables(self) -> list[tf.Variable]:
        """The variables that the next train step updates."""
        if not self.warming_up:
            return list(self.trainable_variables)
        parts: list[keras.layers.Layer] = [self.head, self.metric_loss]
        parts += [self.attribute_loss] if self.attribute_loss is not None else []
        return [variable for part in parts for variable in part.trainable_variables]

    def _split(self, variables: list[tf.Variable]) -> tuple[list[tf.Variable], list[tf.Variable]]:
        proxy_ids = {id(variable) for variable in self.metric_loss.proxy_variables}
        network = [variable for variable in variables if id(variable) not in proxy_ids]
        return network, [variable for variable in variables if id(variable) in proxy_ids]

    def training_loss(self, inputs: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        """Return the scalar loss of one batch, in training mode."""
        views = tf.split(inputs, self.num_views) if self.num_views > 1 else [inputs]
        outputs = self.outputs_of(views[0], training=True)
        added = [*self.backbone.losses, *self.head.losses]  # before another pass replaces them
        for view in views[1:]:
            keys = tf.stop_gradient(self.outputs_of(view, training=True)["embeddings"])
            outputs = {**outputs, "embeddings": tf.concat([outputs["embeddings"], keys], axis=0)}
        losses = self.metric_loss, self.attribute_loss, self.attribute_weight
        return weighted_loss(outputs, labels, *losses, training=True, network_losses=added)

    def train_step(self, data: tuple[tf.Tensor, tf.Tensor]) -> dict[str, tf.Tensor]:
        inputs, labels = data
        variables, update = self.trained_variables, self.compiled_update
        loss, gradients = loss_and_gradients(lambda: self.training_loss(inputs, labels), variables, update.optimizer)
        finite, scale = are_finite(gradients), loss_scale(update.optimizer)
        if scale is not None and without_scale(update.optimizer) is not update.optimizer:
            finite |= scale > 1  # which is halved until gradients are finite: such a step is only left out
        for transform in self.gradient_transforms:
            gradients = transform(gradients, variables)
        update.apply(gradients, variables, self._split(variables)[1])
        return {"loss": loss, "gradients_are_finite": tf.cast(finite, tf.float32)}

    def embed(
        self,
        batches: tf.data.Dataset,
        *,
        output: str = "embeddings",
        advance: Callable[[int], object] = lambda _: None,
    ) -> np.ndarray:
        """Embed every batch in inference mode.

        Args:
            batches: inputs without labels.
            output: `embeddings`, or `features` for the backbone's global average, of unit length (the
                frozen backbone without training), or `averages` for that average as it is, or `pooled` for what the
                head pools.
            advance: called with the size of each batch, once it is embedded.

        Returns:
            float32 `[examples, embedding_dim]` (or `[examples, channels]`).
        """
        steps = {
            "embeddings": self._embedding_step,
            "features": self._feature_step,
            "averages": self._average_step,
            "pooled": self._pooled_step,
        }
        step = steps[check_choice("output", output, tuple(steps))]
        shared = self._sharing()
        if shared is not None and isinstance(batches, tf.data.Dataset):
            inputs = batches.element_spec
            step = shared(output, inputs, functools.partial(step.get_concrete_function, inputs), self.variables)
        found = []
        for inputs in batches:
            found.append(step(inputs).numpy())
            advance(len(found[-1]))
        return np.concatenate(found).astype(np.float32)

    @tf.function(reduce_retracing=True, autograph=False)
    def _embedding_step(self, inputs: tf.Tensor) -> tf.Tensor:
        return self.outputs_of(inputs, training=False)["embeddings"]

    @tf.function(reduce_retracing=True, autograph=False)
    def _feature_step(self, inputs: tf.Tensor) -> tf.Tensor:
        return normalize(self._averages_of(inputs), "unit")

    @tf.function(reduce_retracing=True, autograph=False)
    def _average_step(self, inputs: tf.Tensor) -> tf.Tensor:
        return self._averages_of(inputs)

    @tf.function(reduce_retracing=True, autograph=False)
    def _pooled_step(self, inputs: tf.Tensor) -> tf.Tensor:
        return self.head.pooling(self.backbone(inputs, training=False), training=False)

    def _averages_of(self, inputs: tf.Tensor) -> tf.Tensor:
        features = self.features_of(inputs, training=False)
        return tf.reduce_mean(features, axis=list(range(1, len(features.shape) - 1)))


def _works_by_row(head: keras.layers.Layer) -> bool:
    """Return whether each output depends on one image alone."""
    return isinstance(head, EmbeddingHead) and isinstance(head.pooling, FeaturePooling) and not objection_to_parts(head)
