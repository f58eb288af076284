"""Any network and metric loss as a Keras model, beyond `compile(loss=...)`."""

from __future__ import annotations

import functools
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow import keras

from common.errors import invalid
from common.losses.class_ids import class_ids
from common.losses.loss_layer import LossLayer
from common.losses.metric_loss import MetricLoss
from common.ops.normalization import normalize
from common.ops.pair_masks import nan_unless, unchecked_labels, wrong_labels_in_one_line
from common.ops.replicas import gather_over_replicas, num_replicas
from common.ops.unfinished_start import warn_of_unfinished_starts
from common.parameters import Count, LayerArguments, Positive, Share, Unpack, checked
from common.progress import write_notice
from common.training.callback_order import Callbacks, check_callback_order
from common.training.callbacks import labelled_batches
from common.training.devices import IS_KERAS_3, check_devices, check_micro_batches
from common.training.gradients import (
    apply_gradients,
    in_micro_batches,
    loss_and_gradients,
    weighted_loss,
)
from common.training.optimizers import GradientTransform, ProxyRateOptimizer


class ModelArguments(LayerArguments, total=False):
    """What any `MetricModel` takes beside its network and its loss."""

    attribute_loss: keras.layers.Layer | None
    attribute_weight: float
    proxy_multiplier: float
    micro_batch: int | None


@keras.utils.register_keras_serializable(package="deep_metric_learning")
class MetricModel(keras.Model):
    """Trains a network under a metric loss of its own: `compile(optimizer)`, then `fit`.

    The loss is a part of the model, so that its weights are trained and saved: proxies, boundaries, a cross-batch
    memory, step counters. It knows the training mode, as a memory needs. A loss without weights can also go into
    `compile(loss=...)` of a plain model; see `common.losses.LossLayer`.

    A `.keras` file holds everything: weights, loss, compilation, the state of the optimisers. A loaded model trains on
    as the saved one would have. Under a `mixed_float16` policy the loss is scaled; Keras 3 saves the scale, Keras 2
    does not.

    If made and compiled in the scope of a `MirroredStrategy` or `MultiWorkerMirroredStrategy`, it trains as on one
    device with the global batch: the losses, the memory and the metrics see the batch of all replicas
    (docs/devices.md).

    As in `compile(loss=...)`, the loss includes the layers' own: regularisers of weights and activities, `add_loss`.
    `fit` and `evaluate` report the loss and the `metrics` of `compile`, which see class ids and embeddings of single
    batches (`InBatchPrecision`). Retrieval among all validation samples is a callback: `RetrievalEvaluation`.

    Args:
        network: any built Keras model from inputs to embeddings `[batch, dim]`, or to a dictionary with `embeddings`
            and, for an attribute loss, `attributes` `[batch, prototypes]`.
        metric_loss: any `MetricLoss`.
        attribute_loss: a layer called as `loss(attributes, labels)`, such as GSP's zero-shot prediction loss, or None.
        attribute_weight: w of `(1 - w) * metric_loss + w * attribute_loss`, in [0, 1].
        proxy_multiplier: learning-rate factor of the loss' `proxy_variables` (proxies), above 0; see
            `ProxyRateOptimizer`.
        micro_batch: inputs whose maps the network keeps at a time in training; None: the batch. The loss and its
            gradient are those of the whole batch, see `common.training.gradients.in_micro_batches`.
        **kwargs: `name` and `dtype` of the model.

    Input shape: that of the network.
    Output shape: `[batch, dim]`, normalised as the loss does.

    Raises:
        InvalidInput: a network without weights yet, a loss that is no `MetricLoss`, a number out of its range, sample
            weights for a loss that takes none, one-hot labels, or a callback that waits for the metric of a later one.
        tf.errors.InvalidArgumentError: in training, labels without a proxy; floats that are no class ids. XLA, which
            drops checks, makes the loss NaN.

    Examples:
        >>> network = tf.keras.Sequential([tf.keras.Input([16]), tf.keras.layers.Dense(8)])
        >>> model = MetricModel(network, ProxyAnchorLoss(num_classes=10, embedding_dim=8), proxy_multiplier=100.0)
        >>> model.compile(tf.keras.optimizers.Adam(1e-4))
    """

    @checked
    def __init__(
        self,
        network: keras.Model,
        metric_loss: MetricLoss,
        *,
        attribute_loss: keras.layers.Layer | None = None,
        attribute_weight: Share = 0.0,
        proxy_multiplier: Positive = 1.0,
        micro_batch: Count | None = None,
        **kwargs: Unpack[LayerArguments],
    ) -> None:
        super().__init__(**kwargs)
        if not getattr(network, "built", False):
            fix = "Begin it with keras.Input, or call it once on a batch."
            raise invalid("network", received=type(network).__name__, expected="one that is built", fix=fix)
        if not isinstance(metric_loss, MetricLoss):
            fix = "A loss of Keras, or a function, goes into compile(loss=...) of the network itself."
            raise invalid("metric_loss", received=type(metric_loss).__name__, expected="a MetricLoss", fix=fix)
        if attribute_loss is None and attribute_weight != 0:
            raise invalid("attribute_weight", received=attribute_weight, expected="0 without an attribute_loss")
        self.network = network
        self.metric_loss = metric_loss
        self.attribute_loss = attribute_loss
        self.attribute_weight = attribute_weight
        self.proxy_multiplier = proxy_multiplier
        self.micro_batch = micro_batch
        self.mean_loss = keras.metrics.Mean(name="loss")
        self._other_means: dict[str, keras.metrics.Mean] = {}  # also of an earlier `compile`, for Keras 3 keeps them
        self.gradient_transforms: tuple[GradientTransform, ...] = ()
        self.proxy_optimizer: keras.optimizers.Optimizer | None = None
        self._own_proxy_optimizer: keras.optimizers.Optimizer | None = None
        self._update: ProxyRateOptimizer | None = None
        self._metric_names: set[str] = set()
        self._has_warned = False
        self._other_losses: dict[str, keras.losses.Loss] = {}
        self._loss_weights: dict[str, float] = {}
        self.distribute_reduction_method = "first"  # of what a step reports: the same on each replica
        self.built = True

    def compile(
        self,
        optimizer: str | keras.optimizers.Optimizer = "adam",
        loss: Mapping[str, Any] | None = None,
        metrics: Sequence[keras.metrics.Metric] | None = None,
        jit_compile: bool = False,
        *,
        loss_weights: Mapping[str, float] | None = None,
        proxy_optimizer: str | keras.optimizers.Optimizer | None = None,
        **kwargs: Any,
    ) -> None:
        """Compile as Keras does, by default without XLA.

        Losses check labels, and XLA drops the checks.

        Args:
            optimizer: of all variables, or of those that are no proxies.
            loss: Keras losses of other outputs of the network, by name, such as
                `{"logits": keras.losses.SparseCategoricalCrossentropy(from_logits=True)}`. Their targets are the class
                ids, or entries of a dictionary of targets, where `embeddings` has the class ids.
            metrics: of embeddings.
            jit_compile: whether XLA compiles the step.
            loss_weights: of `loss` by name (default: 1).
            proxy_optimizer: of the loss' `proxy_variables`, at its own rate; None: as `proxy_multiplier` says.
            **kwargs: of Keras' `compile`.
        """
        if loss is not None and not isinstance(loss, Mapping):
            fix = f"MetricModel(network, loss) has that of embeddings: {type(self.metric_loss).__name__}."
            raise invalid("loss of compile", received=loss, expected="losses of other outputs by name", fix=fix)
        super().compile(optimizer=optimizer, metrics=metrics, jit_compile=jit_compile, **kwargs)
        self._set_other_losses(loss or {}, loss_weights or {})
        check_devices(self, self.optimizer, jit_compile=jit_compile)
        if self.micro_batch is not None:
            check_micro_batches(self.network, jit_compile=jit_compile)
        named = [*(metrics or ()), *(kwargs.get("weighted_metrics") or ())]
        self._metric_names = {getattr(each, "name", getattr(each, "__name__", str(each))) for each in named}
        self._metric_names |= {f"{name}_loss" for name in self._other_losses}
        self._own_proxy_optimizer = None if proxy_optimizer is None else keras.optimizers.get(proxy_optimizer)
        if proxy_optimizer is not None and not self.metric_loss.proxy_variables:
            raise invalid("proxy_optimizer", received=proxy_optimizer, expected="None for a loss without proxies")
        slow, fast = self._split()
        with self.distribute_strategy.scope():
            if fast:
                self._update = ProxyRateOptimizer(
                    self.optimizer, self.proxy_multiplier, proxy_optimizer=self._own_proxy_optimizer
                )
                self._update.build(slow, fast)
                self.proxy_optimizer = self._update.proxy_optimizer  # an attribute of the model: a file holds it
            else:  # the slots must exist before a file is read into them, and a loss scale before a step is traced
                self._update = self.proxy_optimizer = None
                self.optimizer.build(slow)

    def _set_other_losses(self, losses: Mapping[str, Any], weights: Mapping[str, float]) -> None:
        outputs = getattr(self.network, "output", {})  # a subclassed network does not say
        names = [name for name in outputs if name != "embeddings"] if isinstance(outputs, dict) else []
        for name in [name for name in losses if name not in names and hasattr(self.network, "output")]:
            raise invalid("loss of compile", received=name, expected=f"an output: {', '.join(names) or 'none'}")
        for name in [name for name in weights if name not in losses]:
            raise invalid("loss_weights", received=name, expected=f"a name of loss: {', '.join(losses) or 'none'}")
        for name, loss in losses.items():
            if not isinstance(loss, keras.losses.Loss):
                expected = "a Keras loss, such as keras.losses.SparseCategoricalCrossentropy(from_logits=True)"
                raise invalid(f"loss of {name}", received=loss, expected=expected)
            loss._allow_sum_over_batch_size = True  # of Keras 2, as in its own `compile`
        self._other_losses = dict(losses)
        self._loss_weights = {name: float(weights.get(name, 1.0)) for name in losses}
        means = {name: keras.metrics.Mean(name=f"{name}_loss") for name in losses if name not in self._other_means}
        self._other_means = {**self._other_means, **means}  # anew: Keras 2 exports no dictionary that has changed

    def get_compile_config(self) -> dict:
        """Return what `compile` was given."""
        found = super().get_compile_config()
        own: dict[str, Any] = {"loss": self._other_losses, "loss_weights": self._loss_weights}
        own["proxy_optimizer"] = self._own_proxy_optimizer
        return {**found, **keras.utils.serialize_keras_object(own)} if found else found  # nothing if not compiled

    def compile_from_config(self, config: dict) -> None:
        """Compile as the saved model was."""
        self.compile(**keras.utils.deserialize_keras_object(config))

    def fit(self, *args: Any, callbacks: Callbacks = None, **kwargs: Any) -> keras.callbacks.History:
        """Train as Keras' `fit` does, after checks of labels and of the callbacks' order.

        See `check_callback_order`.
        """
        check_callback_order(callbacks, self._metric_names)
        labels = args[1] if len(args) > 1 else kwargs.get("y")
        if isinstance(labels, (list, np.ndarray)) and np.asarray(labels[:1]).dtype.kind in "US":
            class_ids(labels)  # Keras cannot make tensors of them
        with wrong_labels_in_one_line():
            history = super().fit(*args, callbacks=callbacks, **kwargs)
        warn_of_unfinished_starts(self)
        return history

    def evaluate(self, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 (a number, a list or a dictionary)
        """Evaluate as Keras' `evaluate` does.

        A notice says once that the loss is NaN, as it is where it does not know the classes.
        """
        with wrong_labels_in_one_line():
            found = super().evaluate(*args, **kwargs)
        if not self._has_warned and np.isnan(self.mean_loss.result()):
            self._has_warned = True
            name = type(self.metric_loss).__name__
            write_notice(
                f"warning: the loss of evaluate or of validation_data is NaN. {name} may know only the classes that it "
                "trains. RetrievalEvaluation(inputs, labels) measures others, in callbacks: monitor val_MAP@R."
            )
        return found

    def predict(self, *args: Any, **kwargs: Any) -> np.ndarray:
        """Embed as Keras' `predict` does; warn of a start that training has not finished."""
        warn_of_unfinished_starts(self)
        return super().predict(*args, **kwargs)

    def export(self, filepath: str | os.PathLike, *args: Any, **kwargs: Any) -> None:
        """Export what `call` does, as Keras' `export` of a functional model.

        Args:
            filepath: the folder or file to write.
            *args: of Keras' `export`.
            **kwargs: of Keras' `export`.

        Raises:
            InvalidInput: the network is a subclass of `keras.Model`, which does not say what its inputs are.
        """
        if not getattr(self.network, "inputs", None):
            fix = "Wrap it: inputs = keras.Input(shape); MetricModel(keras.Model(inputs, network(inputs)), loss)."
            raise invalid("network of export", received="a subclassed model", expected="a functional one", fix=fix)
        model = keras.Model(self.network.input, self(self.network.input))
        model(self.network.input)  # ONNX wants a model that was called
        model.export(filepath, *args, **kwargs)

    def call(self, inputs: tf.Tensor, training: bool | None = None) -> tf.Tensor:
        """Return normalised embeddings `[batch, dim]`."""
        return self.outputs_of(inputs, training=training)["embeddings"]

    def outputs_of(self, inputs: tf.Tensor, training: bool | None = None) -> dict[str, tf.Tensor]:
        """Return normalised `embeddings` `[batch, dim]`, and the network's other outputs."""
        if training and self.micro_batch is not None:
            network = functools.partial(self.network, training=True)
            outputs = in_micro_batches(network, inputs, self.micro_batch)
        else:
            outputs = self.network(inputs, training=training)
        outputs = outputs if isinstance(outputs, dict) else {"embeddings": outputs}
        if "embeddings" not in outputs:
            raise invalid("outputs of the network", received=sorted(outputs), expected="one that is called embeddings")
        return {**outputs, "embeddings": normalize(outputs["embeddings"], self.metric_loss.normalization)}

    def train_step(self, data: tuple) -> dict[str, tf.Tensor]:
        """Make one update from a batch of inputs and class ids."""
        inputs, targets, weights = _unpacked(data, self._other_losses)
        sample_weight = weights.get("embeddings")
        variables, found = list(self.trainable_variables), {}

        def compute_loss() -> tf.Tensor:
            found.update(self.outputs_of(inputs, training=True))
            found.update(self._values_of_others(found, targets, weights))
            return self._loss_of(found, targets["embeddings"], sample_weight, training=True)

        loss, gradients = loss_and_gradients(compute_loss, variables, self.optimizer)
        for transform in self.gradient_transforms:
            gradients = transform(gradients, variables)
        if self._update is None:
            apply_gradients(self.optimizer, gradients, variables)
        else:
            self._update.apply(gradients, variables, self._split()[1])
        return self._reported(inputs, targets["embeddings"], found, loss, sample_weight)

    def test_step(self, data: tuple) -> dict[str, tf.Tensor]:
        """Return a batch's loss and metrics in inference mode.

        The batch has inputs and class ids. The loss is NaN where it does not know their classes.
        """
        inputs, targets, weights = _unpacked(data, self._other_losses)
        labels, sample_weight = targets["embeddings"], weights.get("embeddings")
        found = self.outputs_of(inputs, training=False)
        known, are_known = self._known_labels(found, targets)
        values = self._values_of_others(found, {**targets, "embeddings": known}, weights)
        of_ids = [f"{name}_loss" for name in self._other_losses if name not in targets]
        found.update({**values, **{name: nan_unless(are_known, values[name]) for name in of_ids}})
        loss = nan_unless(are_known, self._loss_of(found, known, sample_weight, training=False))
        return self._reported(inputs, labels, found, loss, sample_weight)

    @property
    def metrics(self) -> list[keras.metrics.Metric]:
        """The mean loss of the epoch, and the metrics of `compile`."""
        own = [self.mean_loss, *(self._other_means[name] for name in self._other_losses)]
        known = {"loss", *(mean.name for mean in self._other_means.values())}
        return [*own, *(metric for metric in super().metrics if metric.name not in known)]

    def embed(self, x: Any, batch_size: int = 32) -> np.ndarray:  # noqa: ANN401
        """Return embeddings float32 `[inputs, dim]`, in inference mode.

        Args:
            x: inputs as an array or a dictionary of arrays; or batches, such as a `tf.data.Dataset` or a generator: of
                inputs, or of (inputs, labels).
            batch_size: inputs in a pass, of arrays.
        """
        found = [self._embedding_step(inputs).numpy() for inputs, _ in labelled_batches(x, batch_size)]
        return np.concatenate(found).astype(np.float32)

    @tf.function(reduce_retracing=True, autograph=False)
    def _embedding_step(self, inputs: tf.Tensor) -> tf.Tensor:
        return self(inputs, training=False)

    @property
    def compiled_update(self) -> ProxyRateOptimizer | keras.optimizers.Optimizer:
        """The optimiser of all variables, after `compile`."""
        return self.optimizer if self._update is None else self._update

    def _split(self) -> tuple[list[tf.Variable], list[tf.Variable]]:
        """Split the trained variables by rate: the optimiser's own, and the faster."""
        is_faster = self.proxy_multiplier != 1 or self._own_proxy_optimizer is not None
        fast_ids = {id(variable) for variable in self.metric_loss.proxy_variables if is_faster}
        variables = list(self.trainable_variables)
        return [v for v in variables if id(v) not in fast_ids], [v for v in variables if id(v) in fast_ids]

    def _known_labels(
        self, outputs: dict[str, tf.Tensor], targets: dict[str, tf.Tensor]
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Return the labels, and whether the losses know all of them; zeros if not."""
        labels = targets["embeddings"]
        everywhere = gather_over_replicas(class_ids(labels)[0])
        losses = [*self.metric_loss._flatten_layers(), *([self.attribute_loss] if self.attribute_loss else [])]
        with unchecked_labels():
            found = [loss.check_labels(everywhere) for loss in losses if isinstance(loss, LossLayer)]
        for name, loss in self._other_losses.items():
            if name not in targets and isinstance(loss, keras.losses.SparseCategoricalCrossentropy):
                found.append(tf.reduce_all(everywhere < outputs[name].shape[-1]))
        are_known = tf.reduce_all([True, *(each for each in found if each is not None)])
        return tf.where(are_known, labels, tf.zeros_like(labels)), are_known

    def _values_of_others(
        self, outputs: dict[str, tf.Tensor], targets: dict[str, tf.Tensor], weights: dict[str, tf.Tensor]
    ) -> dict[str, tf.Tensor]:
        """Return the losses of other outputs, of the batch of all replicas, by `NAME_loss`."""
        values = {}
        for name, loss in self._other_losses.items():
            given = [targets.get(name, targets["embeddings"]), outputs[name]]
            given += [weights[name]] if name in weights else []
            value = loss(*(gather_over_replicas(each) for each in given))
            is_share = IS_KERAS_3 and loss.reduction not in ("sum", "none", None)  # Keras 3 divides by the replicas
            values[f"{name}_loss"] = value * num_replicas() if is_share else value
        return values

    def _loss_of(
        self, outputs: dict[str, tf.Tensor], labels: tf.Tensor, sample_weight: tf.Tensor | None, *, training: bool
    ) -> tf.Tensor:
        ids, are_exact = class_ids(labels)
        losses = self.metric_loss, self.attribute_loss, self.attribute_weight
        settings: dict[str, Any] = {"training": training, "network_losses": self.network.losses}
        value = weighted_loss(outputs, ids, *losses, sample_weight=sample_weight, **settings)
        for name, weight in self._loss_weights.items():
            value += weight * tf.cast(outputs[f"{name}_loss"], value.dtype)
        return nan_unless(are_exact, value)

    def _reported(
        self,
        inputs: tf.Tensor,
        labels: tf.Tensor,
        outputs: dict[str, tf.Tensor],
        loss: tf.Tensor,
        sample_weight: tf.Tensor | None,
    ) -> dict[str, tf.Tensor]:
        embeddings = outputs["embeddings"]
        if self._metric_names:  # which see the global batch, as the loss does
            labels, embeddings = gather_over_replicas(labels), gather_over_replicas(embeddings)
        metrics = self.compute_metrics(inputs, labels, embeddings, sample_weight)
        self.mean_loss.update_state(loss)
        others = [self._other_means[name] for name in self._other_losses]
        for mean in others:
            mean.update_state(outputs[mean.name])
        return {**metrics, **{mean.name: mean.result() for mean in others}, "loss": self.mean_loss.result()}

    def get_config(self) -> dict:
        """Return the constructor's arguments."""
        policy = keras.utils.serialize_keras_object(self.dtype_policy)
        parts = {"network": self.network, "metric_loss": self.metric_loss, "attribute_loss": self.attribute_loss}
        return {
            "name": self.name,
            "dtype": policy,
            **{name: part and keras.utils.serialize_keras_object(part) for name, part in parts.items()},
            "attribute_weight": self.attribute_weight,
            "proxy_multiplier": self.proxy_multiplier,
            "micro_batch": self.micro_batch,
        }

    @classmethod
    def from_config(cls, config: dict, custom_objects: dict | None = None) -> MetricModel:
        """Return the model that `get_config` describes, before loading weights."""
        parts = {
            name: value and keras.utils.deserialize_keras_object(value, custom_objects)
            for name, value in config.items()
            if name in ("dtype", "network", "metric_loss", "attribute_loss")
        }
        return cls(**{**config, **parts})


def _unpacked(data: tuple, others: Iterable[str]) -> tuple[tf.Tensor, dict[str, tf.Tensor], dict[str, tf.Tensor]]:
    """Return inputs, targets with the class ids as `embeddings`, and weights by output."""
    inputs, targets, weights = keras.utils.unpack_x_y_sample_weight(data)
    if targets is None:
        raise invalid("data", received="inputs alone", expected="inputs and class ids, as in fit(inputs, labels)")
    targets = targets if isinstance(targets, dict) else {"embeddings": targets}
    if "embeddings" not in targets:
        raise invalid("targets", received=", ".join(targets), expected="class ids as embeddings")
    if not isinstance(weights, dict):
        weights = {} if weights is None else dict.fromkeys(("embeddings", *others), weights)
    return inputs, targets, {name: each for name, each in weights.items() if each is not None}
