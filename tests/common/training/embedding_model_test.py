import numpy as np
import pytest
import tensorflow as tf

from common.backbones import CutNetwork
from common.errors import InvalidInput
from common.losses import ContrastiveLoss, CosineContrastiveLoss, ProxyNCALoss
from common.pooling import DeLFPooling, GlobalAveragePooling, GlobalMaxPooling, SecondOrderAttentionPooling
from common.training import (
    EmbeddingHead,
    EmbeddingModel,
    MetricModel,
    ProxyRateOptimizer,
    model_above_cut,
)
from common.training.devices import precision_policy, scaled_optimizer
from tests.support.eager_functions import eagerly
from tests.support.samples import sampled

keras = tf.keras


def make_backbone():
    return keras.Sequential([keras.Input((None, None, 3)), keras.layers.Conv2D(5, 3, strides=2)])


@keras.utils.register_keras_serializable(package="tests")
class AttributePooling(GlobalAveragePooling):
    """Average pooling that also returns the first two channels as attributes."""

    def call(self, features, mask=None, training=None):
        pooled = super().call(features)
        return {"pooled": pooled, "attributes": pooled[:, :2]}


class SquaredAttributes(keras.layers.Layer):
    """A loss on attributes with a value that is easy to compute by hand."""

    def call(self, attributes, labels):
        return tf.reduce_sum(tf.square(attributes)) + tf.cast(tf.reduce_sum(labels), tf.float32)


def images(batch=6, size=9, seed=0):
    return np.random.default_rng(seed).normal(0, 1, (batch, size, size, 3)).astype(np.float32)


def test_projection_and_a_maximum_do_not_commute():
    features = tf.constant(images(size=4))
    after, before = (EmbeddingHead(GlobalMaxPooling(), 7, project_first=first) for first in (False, True))
    after(features), before(features)
    before.set_weights(after.get_weights())
    kernel = after.get_weights()[0]
    pooled = features.numpy().max(axis=(1, 2))
    np.testing.assert_allclose(after(features)["embeddings"], pooled @ kernel, rtol=1e-5, atol=1e-6)
    projected = (features.numpy() @ kernel).max(axis=(1, 2))
    np.testing.assert_allclose(before(features)["embeddings"], projected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("project_first", "channels"), [(False, 3), (True, 7)])
def test_weights_of_the_pooling_are_for_the_channels_that_it_sees(project_first, channels):
    head = EmbeddingHead(DeLFPooling(4), 7, project_first=project_first)
    head.build((None, 5, 5, 3))
    assert tuple(head.pooling.hidden.kernel.shape) == (channels, 4)
    assert head(tf.constant(images(size=5)))["embeddings"].shape == (6, 7)


def test_without_a_size_nothing_is_projected():
    head = EmbeddingHead(GlobalAveragePooling(), None)
    features = tf.constant(np.random.default_rng(0).normal(size=(2, 5, 3)).astype(np.float32))
    np.testing.assert_allclose(head(features)["embeddings"], tf.reduce_mean(features, axis=1), rtol=1e-6)
    assert head.weights == []
    assert EmbeddingHead.from_config(head.get_config()).embedding_dim is None
    with pytest.raises(InvalidInput, match="project_first"):
        EmbeddingHead(GlobalAveragePooling(), None, project_first=True)


@pytest.mark.parametrize("normalization", ["unit", "clip", "none"])
def test_embeddings_leave_normalized(normalization):
    head = EmbeddingHead(GlobalAveragePooling(), 4)
    model = EmbeddingModel(make_backbone(), head, ContrastiveLoss(), normalization=normalization)
    inputs = tf.constant(images())
    raw = model.head(model.backbone(inputs))["embeddings"].numpy()
    norms = np.linalg.norm(raw, axis=1, keepdims=True)
    expected = {"unit": raw / norms, "clip": raw / np.maximum(norms, 1), "none": raw}[normalization]
    np.testing.assert_allclose(model(inputs), expected, rtol=1e-5, atol=1e-6)


def test_the_two_losses_are_mixed():
    head = EmbeddingHead(AttributePooling(), 4)
    metric_loss, attribute_loss = CosineContrastiveLoss(), SquaredAttributes()
    model = EmbeddingModel(make_backbone(), head, metric_loss, attribute_loss=attribute_loss, attribute_weight=0.25)
    inputs, labels = tf.constant(images()), tf.constant([0, 0, 1, 1, 2, 2])
    outputs = model.outputs_of(inputs, training=True)
    expected = 0.75 * metric_loss(outputs["embeddings"], labels) + 0.25 * attribute_loss(outputs["attributes"], labels)
    np.testing.assert_allclose(model.training_loss(inputs, labels), expected, rtol=1e-6)


def test_embed_keeps_the_order_and_the_last_smaller_batch():
    model = small_model()
    inputs = images(batch=7)
    batches = tf.data.Dataset.from_tensor_slices(inputs).batch(3)
    np.testing.assert_allclose(model.embed(batches), model(tf.constant(inputs)), rtol=1e-5, atol=1e-6)
    features = model.embed(batches, output="features")
    averages = model.backbone(inputs).numpy().mean(axis=(1, 2))
    np.testing.assert_allclose(features, averages / np.linalg.norm(averages, axis=1, keepdims=True), rtol=1e-5)
    with pytest.raises(InvalidInput, match="output.*embeddings, features"):
        model.embed(batches, output="logits")


@pytest.mark.parametrize("labels", [[3, 3, 3, 1, 1, 1], [[3, 0], [3, 1], [3, 2], [1, 3], [1, 4], [1, 5]]])
def test_weights_are_made_from_an_image_of_each_of_two_classes(labels):
    model = small_model()
    seen = []
    model.outputs_of = lambda inputs, training: seen.append(inputs) or EmbeddingModel.outputs_of(model, inputs)
    model.metric_loss.call = lambda embeddings, labels, references=None: tf.reduce_sum(embeddings)
    model.build_from_batch(images(), tf.constant(labels))
    np.testing.assert_array_equal(seen[0], images()[[3, 0]])


@pytest.mark.parametrize("num_views", [1, 2])
def test_what_layers_add_is_in_the_loss_once(num_views):
    """Of two views that of the first, which alone has a gradient."""
    regularizer = keras.regularizers.L2(0.5)
    settings = {"kernel_regularizer": regularizer, "activity_regularizer": regularizer}
    backbone = keras.Sequential([keras.Input((None, None, 3)), keras.layers.Conv2D(4, 1, **settings)])
    model = EmbeddingModel(backbone, EmbeddingHead(GlobalAveragePooling(), 4), ContrastiveLoss(), num_views=num_views)
    inputs, labels = tf.constant(images(12)), np.repeat(np.arange(6), 2)
    value = float(model.training_loss(inputs, labels))
    backbone(inputs[: 12 // num_views])
    added = float(tf.add_n(backbone.losses))
    without = float(model.metric_loss(model.outputs_of(inputs)["embeddings"], labels))
    assert added > 1.0
    assert value == pytest.approx(without + added, rel=1e-5)


@keras.utils.register_keras_serializable(package="tests")
class CenteredPooling(GlobalAveragePooling):
    """Average pooling less the mean of the batch, which it must see whole."""

    collects_features = True

    def call(self, features, mask=None, training=None):
        pooled = super().call(features)
        return pooled - tf.reduce_mean(pooled, axis=0)


@sampled("num_views, warming_up, pooling", [1, 2], [True, False], [SecondOrderAttentionPooling, CenteredPooling])
def test_micro_batches_step_like_the_batch(num_views, warming_up, pooling):
    def stepped(micro_batch):
        keras.utils.set_random_seed(0)
        head, loss = EmbeddingHead(pooling(), 4), ProxyNCALoss(3, 4)
        model = EmbeddingModel(make_backbone(), head, loss, num_views=num_views, micro_batch=micro_batch)
        inputs, labels = images(6 * num_views), tf.tile(tf.constant([0, 0, 1, 1, 2, 2]), [num_views])
        model.build_from_batch(inputs, labels)
        model.compile_training(ProxyRateOptimizer(keras.optimizers.SGD(0.1), 10.0), warming_up=warming_up)
        with eagerly(True):
            model.fit(tf.data.Dataset.from_tensors((inputs, labels)), verbose=0)
        return model.get_weights()

    for weight, expected in zip(stepped(4), stepped(None)):
        np.testing.assert_allclose(weight, expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    ("layer", "message"),
    [
        (keras.layers.BatchNormalization(), "BatchNormalization.*statistics would be those of a part"),
        (keras.layers.Dropout(0.5), "Dropout.*random numbers differ"),
        (keras.layers.Dense(2, activity_regularizer="l2"), "Dense.*regularisation of activities"),
    ],
)
def test_layers_that_micro_batches_would_change_are_refused(layer, message):
    network = keras.Sequential([keras.Input([2]), layer])
    with pytest.raises(InvalidInput, match=message):
        MetricModel(network, ContrastiveLoss(), micro_batch=2).compile()


def small_model(**settings):
    return EmbeddingModel(make_backbone(), EmbeddingHead(GlobalAveragePooling(), 4), ContrastiveLoss(), **settings)


def metric_model(**settings):
    return MetricModel(keras.Sequential([keras.Input([2]), keras.layers.Dense(2)]), ContrastiveLoss(), **settings)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: metric_model(micro_batch=2).compile(jit_compile=True), "jit_compile: .*False with micro_batch"),
        (lambda: metric_model(micro_batch=0), "micro_batch: received 0"),
        (lambda: small_model(attribute_weight=0.1), "attribute_weight.*0.1.*0 without an attribute_loss"),
        (lambda: small_model(normalization="l2"), "normalization.*'l2'.*unit"),
        (lambda: EmbeddingHead(GlobalAveragePooling(), 0), "embedding_dim"),
        (lambda: small_model(num_views=3), "num_views: received 3, expected one of 1, 2"),
        (lambda: small_model(num_views=2, attribute_loss=SquaredAttributes()), "2, expected 1 with"),
    ],
)
def test_what_does_not_fit_is_refused(make, message):
    with pytest.raises(InvalidInput, match=message):
        make()


@pytest.mark.parametrize("warming_up", [True, False])
def test_statistics_of_the_backbone_wait_for_the_end_of_the_warm_up(warming_up):
    backbone = keras.Sequential([keras.Input((None, None, 3)), keras.layers.BatchNormalization()])
    model = EmbeddingModel(backbone, EmbeddingHead(GlobalAveragePooling(), 4), ProxyNCALoss(3, 4))
    batch = tf.constant(images() + 5.0), tf.constant([0, 0, 1, 1, 2, 2])
    model.build_from_batch(*batch)
    before = [np.array(weight) for weight in backbone.get_weights()]
    model.compile_training(ProxyRateOptimizer(keras.optimizers.SGD(0.1)), warming_up=warming_up)
    model.train_step(batch)
    assert all(np.array_equal(old, new) == warming_up for old, new in zip(before, backbone.get_weights()))


def test_features_side_by_side_are_normalised_apart():
    lower = make_backbone()
    network = CutNetwork(lower, keras.Sequential([keras.Input((None, None, 5)), keras.layers.ReLU()]))
    model = EmbeddingModel(network, EmbeddingHead(GlobalAveragePooling(), 5), ContrastiveLoss(), feature_sizes=(3, 2))
    embeddings = model.embed(tf.data.Dataset.from_tensors(images()))
    above = model_above_cut(model).embed(tf.data.Dataset.from_tensors(np.array(lower(images()))))
    np.testing.assert_allclose(above, embeddings, rtol=1e-6)
    for part in np.split(embeddings, [3], axis=1):
        np.testing.assert_allclose(np.linalg.norm(part, axis=1), 1.0, rtol=1e-6)


def steps_of(precision="float32", jit_compile=False):
    """The losses of four steps, and the weights after them, of a small network."""
    keras.utils.set_random_seed(5)
    with precision_policy(precision):
        images = keras.Input((6, 6, 3))
        backbone = keras.Model(images, keras.layers.Conv2D(8, 3, activation="relu")(images))
        head = EmbeddingHead(GlobalAveragePooling(), 4)
    model = EmbeddingModel(backbone, head, ProxyNCALoss(3, 4))
    rng = np.random.default_rng(0)
    data = tf.data.Dataset.from_tensors((rng.normal(size=(12, 6, 6, 3)).astype("float32"), np.arange(12) % 3)).repeat(4)
    model.build_from_batch(*next(iter(data)))
    optimizer = scaled_optimizer(keras.optimizers.SGD(0.05), precision)
    model.compile_training(ProxyRateOptimizer(optimizer, 2.0), jit_compile=jit_compile)
    losses = []

    def keep(batch, logs):
        losses.append(logs["loss"])
        assert logs["gradients_are_finite"] == 1.0  # also where a scaled one overflows and its step is left out

    model.fit(data, callbacks=[keras.callbacks.LambdaCallback(on_train_batch_end=keep)], verbose=0)
    assert model.backbone.weights[0].dtype in ("float32", tf.float32)
    return np.array(losses), model.get_weights()


def test_xla_and_half_precision_step_like_float32():
    expected, weights = steps_of()
    compiled, compiled_weights = steps_of(jit_compile=True)
    np.testing.assert_allclose(compiled, expected, rtol=1e-5)
    for found, weight in zip(compiled_weights, weights, strict=True):
        np.testing.assert_allclose(found, weight, atol=1e-5)
    for precision, bound in (("mixed_float16", 0.01), ("mixed_bfloat16", 0.05)):
        losses = steps_of(precision)[0]
        made = losses[np.append(True, np.diff(losses) != 0)]  # a step whose scaled gradients overflow is left out
        assert len(made) >= 2
        np.testing.assert_allclose(made, expected[: len(made)], rtol=bound)


def normalised_model(fold):
    """A model with frozen batch normalisation of other statistics than those it begins with."""
    keras.utils.set_random_seed(0)
    inputs = keras.Input((None, None, 3))
    maps = keras.layers.BatchNormalization(trainable=False, name="bn")(keras.layers.Conv2D(5, 3, name="conv")(inputs))
    network = keras.Model(inputs, keras.layers.ReLU()(maps))
    network.get_layer("bn").set_weights([np.arange(1.0, 6), np.arange(5.0) - 2, np.arange(5.0) / 10, np.arange(3.0, 8)])
    model = EmbeddingModel(network, EmbeddingHead(GlobalAveragePooling(), 4), ContrastiveLoss())
    if fold:
        model.fold_batch_norm()
    model.build_from_batch(images(12), np.arange(12) % 3)
    return model


def test_folded_batch_norm_trains_the_same_weights_in_the_same_order():
    plain, folded = normalised_model(False), normalised_model(True)
    start = plain.get_weights()
    for model in (plain, folded):
        model.compile_training(ProxyRateOptimizer(keras.optimizers.SGD(0.1)))
        for seed in range(3):
            model.train_step((tf.constant(images(12, seed=seed)), tf.constant(np.arange(12) % 3)))
    assert [model.folds_batch_norm for model in (plain, folded)] == [False, True]
    names, expected_names = ([w.name.split("/")[-1] for w in model.weights] for model in (folded, plain))
    assert names == expected_names
    for weight, expected in zip(folded.get_weights(), plain.get_weights()):
        np.testing.assert_allclose(weight, expected, rtol=0, atol=1e-5)
    moved = [np.abs(new - old).max() > 1e-3 for new, old in zip(folded.get_weights(), start)]
    assert moved[:2] == [True, True]  # kernel and bias of the convolution
    assert not any(moved[2:6])


def test_folded_batch_norm_embeds_and_gives_features_by_convolutions_alone():
    plain, folded = normalised_model(False), normalised_model(True)
    batches = [images(3, seed=seed) for seed in range(2)]
    for output in ("embeddings", "features"):
        expected = plain.embed(batches, output=output)
        np.testing.assert_allclose(folded.embed(batches, output=output), expected, rtol=0, atol=1e-6)
    operations = folded._embedding_step.get_concrete_function(tf.TensorSpec([3, 9, 9, 3])).graph.get_operations()
    assert not [operation for operation in operations if "BatchNorm" in operation.type or "bn/" in operation.name]
