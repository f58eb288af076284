import numpy as np
import pytest
import tensorflow as tf

from common.data import CenterCrop, NativeCrop
from common.data.image_formats import Reading
from common.deployment import EmbeddingNormalization, ImagePreprocessing
from common.errors import InvalidInput


@pytest.mark.parametrize(
    ("mode", "expected"),
    [("unit", [[0.6, 0.8], [0.6, 0.8]]), ("clip", [[0.6, 0.8], [0.3, 0.4]]), ("none", [[3, 4], [0.3, 0.4]])],
)
def test_lengths_by_hand(mode, expected):
    layer = EmbeddingNormalization.from_config(EmbeddingNormalization(mode).get_config())
    np.testing.assert_allclose(layer(np.array([[3, 4], [0.3, 0.4]], np.float32)), expected, rtol=1e-6)


def test_features_are_brought_to_length_one_by_one():
    layer = EmbeddingNormalization.from_config(EmbeddingNormalization("unit", (2, 1)).get_config())
    np.testing.assert_allclose(layer(np.array([[3, 4, -9]], np.float32)), [[0.6, 0.8, -1.0]], rtol=1e-6)
    assert "sizes" not in EmbeddingNormalization().get_config()
    with pytest.raises(InvalidInput, match="'sphere', expected one of unit, clip, none"):
        EmbeddingNormalization("sphere")


keras = tf.keras


def drawn(*shape):
    return np.random.default_rng(0).integers(0, 256, shape).astype(np.uint8)


@pytest.mark.parametrize(
    ("size", "antialias"),
    [((16, 16), True), ((18, 18), False), ((18, 25), True), ((50, 40), True), ((50, 40), False), ((9, 12), True)],
)
@pytest.mark.parametrize(("crop", "transform"), [("center", CenterCrop), ("native", NativeCrop)])
def test_images_are_those_of_the_evaluation(crop, transform, size, antialias):
    images = drawn(3, *size, 3)
    layer = ImagePreprocessing(16, crop, antialias)
    expected = np.stack([transform(16, antialias)(image) for image in images])
    np.testing.assert_array_equal(layer(images.astype(np.float32)), expected)


def test_values_are_clipped_and_whole_and_the_margin_is_cut():
    image = np.full((1, 16, 16, 1), 7.4, np.float32)
    image[0, 0, 0], image[0, 0, 1] = 300, -5
    prepared = np.asarray(ImagePreprocessing(16, "native")(image))
    assert prepared[0, 0, :3, 0].tolist() == [255, 0, 7]
    assert (prepared[0, 1:] == 7).all()
    image = drawn(1, 18, 20, 3)  # 256/227 of 16 is 18: nothing is resized
    np.testing.assert_array_equal(ImagePreprocessing(16)(image), image[:, 1:17, 2:18])


def test_images_scaled_to_one_are_refused_where_values_are_known():
    layer, scaled = ImagePreprocessing(16), drawn(2, 20, 20, 3) / np.float32(255)
    with pytest.raises(InvalidInput, match="values from 0 to 1.*Multiply"):
        layer(scaled)
    assert tf.function(layer)(scaled).shape == (2, 16, 16, 3)
    assert layer(drawn(1, 20, 20, 3) // 255).shape == (1, 16, 16, 3)


def test_a_configuration_makes_the_same_layer_and_those_of_before_keep_their_reading():
    layer = ImagePreprocessing(24, "native", False, name="preprocessing")
    config = layer.get_config()
    again = ImagePreprocessing.from_config(config)
    assert (again.transform, again.name) == (NativeCrop(24, antialias=False), "preprocessing")
    assert layer.compute_output_shape((None, None, None, 3)) == (None, 24, 24, 3)
    assert layer(keras.Input((None, None, 3))).shape == (None, 24, 24, 3)
    assert again.reading is Reading.SHOWN
    del config["reading"]
    for of_before, reading in (({}, 0), ({"exif_orientation": False}, 0), ({"exif_orientation": True}, 1)):
        old = ImagePreprocessing.from_config({**config, **of_before})
        assert old.reading == reading == ImagePreprocessing.from_config(old.get_config()).reading
    for wrong in ((0,), (16, "left")):
        with pytest.raises(InvalidInput, match="image_size|crop"):
            ImagePreprocessing(*wrong)
