import colorsys
import math
import resource

import numpy as np
import pytest
import tensorflow as tf

from common.data import images
from common.data.images import (
    CenterCrop,
    JitteredCrop,
    NativeCrop,
    PublishedCodeCrop,
    RandomShift,
    ReducedCrop,
    ThesisCrop,
    cut,
    random_resized_crop_window,
    resize,
    to_uint8,
    uniform_draws,
)

SCALE, RATIO = (0.16, 1.0), (3 / 4, 4 / 3)


def seeds(count):
    return np.random.default_rng(0).integers(0, 2**31 - 1, size=(count, 2), dtype=np.int32)


def random_image(height, width, channels=3):
    return np.random.default_rng(1).integers(0, 256, size=(height, width, channels), dtype=np.uint8)


def torchvision_window(height, width, next_uniform, next_position):
    """The rule of torchvision's RandomResizedCrop.get_params, written out."""
    for attempt in range(10):
        area = height * width * (SCALE[0] + (SCALE[1] - SCALE[0]) * next_uniform("area", attempt))
        low, high = math.log(RATIO[0]), math.log(RATIO[1])
        aspect = math.exp(low + (high - low) * next_uniform("aspect", attempt))
        crop_width, crop_height = round(math.sqrt(area * aspect)), round(math.sqrt(area / aspect))
        if 0 < crop_width <= width and 0 < crop_height <= height:
            top = math.floor(next_position("top") * (height - crop_height + 1))
            return top, math.floor(next_position("left") * (width - crop_width + 1)), crop_height, crop_width
    if width / height < RATIO[0]:
        crop_width, crop_height = width, round(width / RATIO[0])
    elif width / height > RATIO[1]:
        crop_width, crop_height = round(height * RATIO[1]), height
    else:
        crop_width, crop_height = width, height
    return (height - crop_height) // 2, (width - crop_width) // 2, crop_height, crop_width


def of_each(function, pairs, dtype):
    """What a function makes of each seed, traced once."""
    return tf.function(lambda pairs: tf.map_fn(function, pairs, dtype))(pairs).numpy()


def windows(transform_window, height, width, count):
    return of_each(lambda pair: transform_window(height, width, pair), seeds(count), tf.int32)


@pytest.mark.parametrize(("height", "width"), [(256, 341), (176, 176), (40, 400), (400, 30), (20, 2000), (11, 9)])
def test_crop_window_equals_the_torchvision_rule_on_the_same_draws(height, width):
    pairs = seeds(100)
    for window, draws in zip(
        windows(random_resized_crop_window, height, width, len(pairs)),
        of_each(uniform_draws, pairs, tf.float32).astype(np.float64),
    ):
        expected = torchvision_window(
            height,
            width,
            lambda kind, attempt, draws=draws: draws[attempt + (10 if kind == "aspect" else 0)],
            lambda axis, draws=draws: draws[20 if axis == "top" else 21],
        )
        assert tuple(window) == expected


@pytest.mark.parametrize(
    ("transform", "height", "width", "mean_area"),
    [
        (ThesisCrop(8), 256, 341, 0.475),
        (ThesisCrop(8), 256, 256, 0.52),
        (PublishedCodeCrop(8), 256, 341, 0.43),
        (PublishedCodeCrop(8), 256, 256, 0.466),
    ],
)
def test_crop_statistics(transform, height, width, mean_area):
    tops, lefts, heights, widths = windows(transform.window, height, width, 3000).T
    areas = heights * widths / (height * width)
    assert areas.mean() == pytest.approx(mean_area, abs=0.015)
    assert areas.min() > 0.155
    assert np.all((tops >= 0) & (lefts >= 0) & (tops + heights <= height) & (lefts + widths <= width))
    free = height - heights > 20
    assert (tops[free] / (height - heights[free])).mean() == pytest.approx(0.5, abs=0.03)


def test_a_reduced_crop_has_one_scale_and_any_place():
    transform, side = ReducedCrop(227), 256
    places = windows(transform.window, side, side + 40, 400)
    assert (places[:, 2:] == 227).all()
    assert (places[:, :2].min(axis=0) == 0).all()
    assert (places[:, :2].max(axis=0) == [29, 69]).all()
    image = random_image(side, side + 40)
    top, left = transform.window(side, side + 40, [3, 4]).numpy()[:2]
    expected = image[top : top + 227, left : left + 227]
    given = transform(image, [3, 4]).numpy()
    assert (given == expected).all() or (given == expected[:, ::-1]).all()
    assert transform(random_image(100, 80), [3, 4]).shape == (227, 227, 3)  # resized first


def test_jitter_turns_the_hue_and_scales_the_brightness():
    image, hues, values = np.full((8, 8, 3), [120, 60, 90], np.uint8), [], []
    pairs = np.stack([np.arange(200), np.ones(200)], axis=1).astype(np.int32)
    for jittered in of_each(lambda pair: JitteredCrop(8)(image, pair), pairs, tf.uint8):
        pixel = jittered[0, 0] / 255
        hue, saturation, value = colorsys.rgb_to_hsv(*pixel)
        assert saturation == pytest.approx(0.5, abs=0.02)
        hues.append((hue - 11 / 12 + 0.5) % 1 - 0.5)
        values.append(value * 255 / 120)
    for drawn, middle in ((hues, 0.0), (values, 1.0)):
        assert (abs(np.array(drawn) - middle) < 0.21).all()
        assert np.std(drawn) == pytest.approx(0.4 / 12**0.5, rel=0.15)


@pytest.mark.parametrize(("shape", "filtered"), [((60, 80), True), ((25, 33), False)])
def test_thesis_crop_without_flip_is_the_resized_window(shape, filtered):
    image, transform = random_image(*shape), ThesisCrop(24, flip=False)
    top, left, height, width = transform.window(*shape, [1, 2]).numpy()
    assert (max(height, width) > 1.6 * 24) == filtered
    expected = resize(image[top : top + height, left : left + width], 24, 24, antialias=filtered)
    np.testing.assert_array_equal(transform(image, [1, 2]), np.floor(expected.numpy() + 0.5))


def test_resize_filters_above_the_given_factor_in_either_direction():
    image = random_image(16, 24)
    plain, smooth = (resize(image, 16, 16, antialias=choice).numpy() for choice in (False, True))
    assert np.abs(plain - smooth).max() > 1
    np.testing.assert_array_equal(resize(image, 16, 16, antialias=True, filter_above=1.5), plain)
    np.testing.assert_array_equal(resize(image, 16, 16, antialias=True, filter_above=1.4), smooth)
    sideways = image.transpose(1, 0, 2)
    np.testing.assert_array_equal(
        resize(sideways, 16, 16, antialias=True, filter_above=1.4), resize(sideways, 16, 16, antialias=True)
    )


def test_resize_antialiases_only_where_asked_and_never_what_is_enlarged():
    stripes = np.zeros((64, 64, 1), np.uint8)
    stripes[:, ::4] = 255
    smooth, aliased = (resize(stripes, 16, 16, antialias=choice).numpy() for choice in (True, False))
    assert smooth[4:-4, 4:-4].std() < 2  # the mean grey everywhere
    assert smooth.mean() == pytest.approx(255 / 4, abs=4)
    assert abs(aliased.mean() - 255 / 4) > 20
    image = random_image(9, 7)
    expected = tf.image.resize(image, [21, 16], antialias=True)
    np.testing.assert_allclose(resize(image, 21, 16, antialias=True), expected, atol=1e-3)


def test_center_crop_resizes_the_shorter_side_in_proportion():
    assert CenterCrop(227).shorter_side == 256
    assert CenterCrop(64).shorter_side == 72
    image = np.zeros((100, 50, 3), np.uint8)
    image[50:] = 200  # lower half
    result = CenterCrop(64)(image).numpy()
    assert result[:30].max() == 0
    assert result[34:].min() == 200


def test_center_crop_takes_the_middle_pixels_and_resizes_an_image_of_exactly_its_size():
    image, transform = random_image(72, 90), CenterCrop(64)
    np.testing.assert_array_equal(transform.window(72, 90, (0, 0)), [4, 13, 64, 64])
    np.testing.assert_array_equal(transform(image), image[4:68, 13:77])
    np.testing.assert_array_equal(transform.window(64, 64, (0, 0)), [0, 0, 64, 64])
    assert (transform(image[:64, :64]).numpy() != image[:64, :64]).any()


@pytest.mark.parametrize("crop", [CenterCrop, NativeCrop, ReducedCrop])
def test_only_the_crop_of_a_thin_picture_is_enlarged(crop):
    """The pixels are those of the enlarged picture, from which others are cut, to the last bit."""
    transform = tf.function(crop(48))
    for shape, is_thin in [((900, 7), True), ((40, 800), True), ((60, 30), False), ((30, 480), False)]:
        image = random_image(*shape)
        found = transform(image, [5, 6]).numpy().astype(int)
        side = crop(48).shorter_side
        height, width = (length * side // min(shape) for length in shape)
        place = crop(48)._place(height, width, [5, 6])
        whole = to_uint8(cut(resize(image, height, width, antialias=True), place)).numpy()
        mirrored = crop is ReducedCrop and bool(images.uniform_draws([5, 6])[-1] < 0.5)
        difference = np.abs(found - (whole[:, ::-1] if mirrored else whole))
        assert difference.max() <= (1 if is_thin else 0)
        assert (difference > 0).mean() < 0.01
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert transform(np.full((1, 60_000, 3), 9, np.uint8), [5, 6]).numpy().min() == 9
    assert transform(np.zeros((9_000_000, 1, 3), np.uint8), [5, 6]).shape == (48, 48, 3)  # sides beyond 32 bits
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 300_000  # kB


def test_random_shift_never_mirrors_unless_asked():
    images = np.zeros((60, 3, 9, 1), np.uint8)
    images[:, :, 7] = 1
    plain, both = (
        RandomShift(1, flip=flip)(images, seeds(60)).numpy()[:, :, :4].any(axis=(1, 2, 3)).mean()
        for flip in (False, True)
    )
    assert plain == 0
    assert 0.3 < both < 0.7
