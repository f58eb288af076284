import functools
import inspect

import numpy as np
import pytest
import tensorflow as tf

import common.backbones as backbones
from common.backbones import InputNormalization
from common.errors import InvalidInput

keras = tf.keras


def by(factor):
    """The side of a feature map from the image's, when every halving rounds up."""
    return lambda side: -(-side // factor)


# name: (constructor, channels of the images, of the features, side of the map, trainable parameters with live batch
# norm); the first three numbers by hand, the others torchvision's, pretrainedmodels', timm's and Keras' published ones,
# without the classifier.
BACKBONES = {
    "resnet10": (backbones.resnet10, 1, 64, by(8), 151_088),
    "resnet20": (backbones.resnet20, 3, 64, by(4), 271_824),
    "resnet_v2_20": (backbones.resnet_v2_20, 1, 256, by(4), 565_552),
    "bn_inception": (backbones.bn_inception, 3, 1024, lambda side: by(4)((side + 1) // 8), 11_295_240 - 1000 * 1025),
    "efficientnet_lite0": (backbones.efficientnet_lite0, 3, 1280, by(32), 4_652_008 - 1000 * 1281),
    "mobilenet_v2": (backbones.mobilenet_v2, 3, 1280, by(32), 3_504_872 - 1000 * 1281),
    "resnet50_torchvision": (
        lambda **settings: backbones.resnet50(layout="torchvision", **settings),
        *(3, 2048, by(32), 25_557_032 - 1000 * 2049),
    ),
    "resnet50_keras": (backbones.resnet50, 3, 2048, by(32), 25_583_592 - 1000 * 2049),
}


# The other layout of ResNet-50 has the same blocks.
ENTRIES = [*list(BACKBONES)[:-1], pytest.param("resnet50_keras", marks=pytest.mark.release)]


@pytest.fixture(scope="module", params=ENTRIES)
def entry(request):
    """(model with frozen batch norm, channels, features, side of the map, parameters)"""
    return frozen(request.param), *BACKBONES[request.param][1:]


@functools.cache
def frozen(name):
    return BACKBONES[name][0](frozen_batch_norm=True)


def images_of(channels, height=33, width=40, batch=2):
    return np.random.default_rng(0).integers(0, 256, (batch, height, width, channels)).astype(np.uint8)


def test_the_table_is_complete():
    """Of all that may have batch normalisation to freeze; others have a test of their own."""
    functions = [getattr(backbones, name) for name in backbones.__all__ if callable(getattr(backbones, name))]
    found = {each.__name__ for each in functions if "frozen_batch_norm" in inspect.signature(each).parameters}
    others = {"keras_backbone", "keras_hub_backbone", "vit_small_16", "vit_base_16", "vit_mini_8"}
    assert found - others == {name.split("_torchvision")[0].split("_keras")[0] for name in BACKBONES}


@pytest.mark.parametrize("name", ["bn_inception", "mobilenet_v2", "resnet50_torchvision", "efficientnet_lite0"])
def test_what_a_network_of_imagenet_refuses(name):
    """Other channels, and weights that have to be converted: the message has both commands."""
    build, network = BACKBONES[name][0], name.removesuffix("_torchvision")
    with pytest.raises(InvalidInput, match="input_channels"):
        build(input_channels=5)
    if name != "efficientnet_lite0":  # its weights are in the package
        message = rf"convert_weights --backbone={network} .*http.*--weights={network}\.npz"
        with pytest.raises(InvalidInput, match=message):
            build(weights="imagenet")


@pytest.mark.parametrize(("name", "bound"), [("resnet10", 1.0), ("resnet20", 0.5), ("resnet_v2_20", 0.5)])
def test_small_networks_normalise_inside(name, bound):
    channels = BACKBONES[name][1]
    normalization = frozen(name).layers[1]
    assert isinstance(normalization, InputNormalization)
    black, white = normalization(tf.zeros([1, 1, 1, channels])), normalization(tf.fill([1, 1, 1, channels], 255.0))
    np.testing.assert_allclose([black[0, 0, 0, 0], white[0, 0, 0, 0]], [-bound, bound], atol=1e-6)


def test_number_of_parameters(entry):
    model, *_, num_parameters = entry
    live = sum(np.prod(weight.shape) for layer in model.layers for weight in trainable_when_live(layer))
    assert live == num_parameters


def trainable_when_live(layer):
    if isinstance(layer, keras.layers.BatchNormalization):
        return [layer.gamma, layer.beta]
    return layer.weights


def test_feature_maps_of_any_images_with_frozen_batch_norm(entry):
    """For bytes, integers and floats, trained or not; images of any size."""
    model, channels, features, side_of_map, _ = entry
    assert model.output_shape == (None, None, None, features)
    assert model.input_shape == (None, None, None, channels)
    norms = [layer for layer in model.layers if isinstance(layer, keras.layers.BatchNormalization)]
    assert norms
    before = [weight for layer in norms for weight in layer.get_weights()]
    images = images_of(channels)
    expected = model(images, training=True)
    for weight, old in zip([weight for layer in norms for weight in layer.get_weights()], before):
        np.testing.assert_array_equal(weight, old)
    for same in (images.astype(np.float32), tf.constant(images, tf.int64)):
        np.testing.assert_array_equal(model(same, training=False), expected)
    trainable = {id(weight) for weight in model.trainable_variables}
    assert not any(id(weight) in trainable for layer in norms for weight in layer.weights)
    assert len(trainable) == len(model.weights) - 4 * len(norms)

    for size in ((32, 32), (33, 47), (64, 48)):
        assert model(images_of(channels, *size, batch=1)).shape == (1, *map(side_of_map, size), features)


@pytest.mark.parametrize(
    "name",
    ["resnet10", *(pytest.param(name, marks=pytest.mark.release) for name in ("mobilenet_v2", "resnet50_keras"))],
)
def test_saved_models_are_the_same(name, tmp_path):
    model, channels = frozen(name), BACKBONES[name][1]
    model.save(tmp_path / "backbone.keras")
    copy = keras.models.load_model(tmp_path / "backbone.keras")
    images = images_of(channels)
    expected = model(images)
    np.testing.assert_array_equal(copy(images), expected)
    np.testing.assert_array_equal(copy(images, training=True), expected)  # still frozen
    assert len(copy.trainable_variables) == len(model.trainable_variables)


@keras.utils.register_keras_serializable(package="backbones_conformance_test")
class Embedding(keras.Model):
    """A subclassed model around a backbone, as the trainer makes it."""

    def __init__(self, backbone, **kwargs):
        super().__init__(**kwargs)
        self.backbone = backbone
        self.pooling = keras.layers.GlobalAveragePooling2D()
        self.head = keras.layers.Dense(3, use_bias=False)

    def call(self, images, training=None):
        return self.head(self.pooling(self.backbone(images, training=training)))


@pytest.mark.parametrize(
    ("name", "is_frozen"),
    [("resnet10", False), ("resnet10", True), pytest.param("mobilenet_v2", False, marks=pytest.mark.release)],
)
def test_inside_a_subclassed_model(name, is_frozen, tmp_path):
    build, channels, *_ = BACKBONES[name]
    model = Embedding(build(frozen_batch_norm=is_frozen))
    images = images_of(channels, batch=4)
    model(images)
    assert len(model.trainable_variables) == len(model.backbone.trainable_variables) + 1
    assert len(model.weights) == len(model.backbone.weights) + 1
    frozen, trained = model.non_trainable_variables, model.trainable_variables
    assert name != "resnet10" or len(frozen) == (4 if is_frozen else 2) * 11  # the stem, two per block, two projections
    before = [list(map(np.array, weights)) for weights in (frozen, trained)]
    model.compile(optimizer=keras.optimizers.SGD(0.1), loss="mse", run_eagerly=True)
    model.fit(images, np.ones((len(images), 3)), epochs=1, batch_size=len(images), verbose=0)
    assert all(np.array_equal(new, old) == is_frozen for new, old in zip(map(np.array, frozen), before[0]))
    assert not any(np.array_equal(new, old) for new, old in zip(map(np.array, trained), before[1]))
    model.save_weights(str(tmp_path / "model.weights.h5"))
    copy = Embedding(build(frozen_batch_norm=False))
    copy(images)
    copy.load_weights(str(tmp_path / "model.weights.h5"))
    np.testing.assert_array_equal(copy(images), model(images))
