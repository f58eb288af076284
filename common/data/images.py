"""Crops, flips and resizing of images, as stateless functions of seed pairs.

An `ImageTransform` first gives the window of an image that it needs, so that the rest need not be decoded, and then
transforms that window. Every random number comes from the example's seed pair: the same pair gives the same image, in
any order of draws and with any number of threads.
"""

from __future__ import annotations

import abc
from dataclasses import dataclass
from typing import ClassVar, TypeAlias

import numpy as np
import tensorflow as tf

from common.data.philox import uniform_of_each

Seed: TypeAlias = tf.Tensor | tuple[int, int]  # a pair of integers
_RESIZE_PER_CROP = 256 / 227  # evaluation resizes the shorter side to 256 for a crop of 227
_LONG = 16  # times as long as wide: of such pictures, only what a crop needs is enlarged
_TWO_TAPS_SUFFICE = 1.6  # shrinking less, every pixel still has at least a fifth of a weight in bilinear interpolation
_NUM_DRAWS = 23  # random numbers of an example: ten areas, ten aspects, top, left, flip


class ImageTransform(abc.ABC):
    """Conversion of an image to a model's input: a window and its processing.

    Called with a whole image `[height, width, channels]` and the example's seed pair `[2]` int32, it returns the input
    `[out_height, out_width, channels]`. With `works_on_batches`, also images `[batch, height, width, channels]` of one
    size with seeds `[batch, 2]`: the same bits as image by image.
    """

    works_on_batches: ClassVar[bool] = False

    @property
    @abc.abstractmethod
    def output_size(self) -> int | None:
        """Height and width of the result in pixels, or None for the image's own."""

    @abc.abstractmethod
    def window(self, height: tf.Tensor, width: tf.Tensor, seed: Seed) -> tf.Tensor:
        """Return the window that `finish` needs, int32 `[4]`: top, left, height, width."""

    @abc.abstractmethod
    def finish(self, window: tf.Tensor, height: tf.Tensor, width: tf.Tensor, seed: Seed) -> tf.Tensor:
        """Make the input from the window; `height` and `width` are the whole image's."""

    def __call__(self, image: tf.Tensor, seed: Seed = (0, 0)) -> tf.Tensor:
        """Transform a whole image `[height, width, channels]` with the example's seed pair."""
        image = tf.convert_to_tensor(image)
        height, width = tf.shape(image)[0], tf.shape(image)[1]
        return self.finish(cut(image, self.window(height, width, seed)), height, width, seed)


@dataclass(frozen=True)
class Identity(ImageTransform):
    """Inputs as they are: images of one size, or tokens."""

    works_on_batches: ClassVar[bool] = True
    output_size: ClassVar[None] = None

    def window(self, height: tf.Tensor, width: tf.Tensor, seed: Seed) -> tf.Tensor:
        """Return the whole image."""
        return tf.stack([0, 0, height, width])

    def finish(self, window: tf.Tensor, height: tf.Tensor, width: tf.Tensor, seed: Seed) -> tf.Tensor:
        """Return the window."""
        return window

    def __call__(self, image: tf.Tensor, seed: Seed = (0, 0)) -> tf.Tensor:
        """Return the given image, batch of images or tokens."""
        return image


NoAugmentation = Identity


@dataclass(frozen=True)
class _Square(ImageTransform):
    """A transform whose result has `size` pixels in height and width."""

    size: int

    @property
    def output_size(self) -> int:
        """The size of the crop."""
        return self.size


@dataclass(frozen=True)
class ThesisCrop(_Square):
    """Random crop of .16 to 1 of the area, resize, random flip.

    The aspect is from 3/4 to 4/3, the result `size` x `size`. The thesis resizes the shorter side to 256 first. Area
    and aspect are relative, so the window is drawn on the image as it is and resized once; on prepared copies with a
    shorter side of 256 both are the same.

    Args:
        size: height and width of the result in pixels.
        flip: whether to mirror left and right with probability 1/2.
        antialias: low-pass filter if the window is more than 1.6 times as large as the result. On prepared copies it
            never is (at most 1.51), and the filter would take longest; not in the published code.

    Output: uint8 `[size, size, channels]`.
    """

    flip: bool = True
    antialias: bool = True

    def window(self, height: tf.Tensor, width: tf.Tensor, seed: Seed) -> tf.Tensor:
        """Call `random_resized_crop_window`."""
        return random_resized_crop_window(height, width, seed)

    def finish(self, window: tf.Tensor, height: tf.Tensor, width: tf.Tensor, seed: Seed) -> tf.Tensor:
        """Resize and mirror."""
        resized = to_uint8(resize(window, self.size, self.size, self.antialias, filter_above=_TWO_TAPS_SUFFICE))
        return random_flip(resized, seed) if self.flip else resized


@dataclass(frozen=True)
class JitteredCrop(ThesisCrop):
    """`ThesisCrop` with another brightness and hue.

    Brightness is multiplied by .8 to 1.2, and hue turned by at most a fifth of the circle.

    Reference: Milbich's dissertation, section 2.3.3 ("Adv."); the ranges are its public code's.
    """

    def finish(self, window: tf.Tensor, height: tf.Tensor, width: tf.Tensor, seed: Seed) -> tf.Tensor:
        """Resize, mirror and change colours."""
        image = tf.cast(super().finish(window, height, width, seed), tf.float32) / 255
        own = tf.bitwise.bitwise_xor(tf.convert_to_tensor(seed, tf.int32), [0, 2])  # independent of the crop
        brightness, hue = tf.unstack(tf.random.stateless_uniform([2], own, -0.2, 0.2, alg="philox"))
        return to_uint8(255 * tf.image.adjust_hue(tf.clip_by_value((1 + brightness) * image, 0, 1), hue))


@dataclass(frozen=True)
class PublishedCodeCrop(_Square):
    """The crop of the authors' published code: TensorFlow's distorted bounding box, without antialiasing.

    Area from .16 to 1, aspect uniform (torchvision: log-uniform) in .75 to 1.33, at most 100 attempts. It keeps
    less on average than `ThesisCrop` (mean area .43 against .475 on 4:3 images) and aliases on large photographs. The
    published code applies it to images in their original resolution: give it the original files, not prepared copies.

    Args:
        size: height and width of the result in pixels.
        flip: whether to mirror left and right with probability 1/2.

    Output: uint8 `[size, size, channels]`.
    """

    flip: bool = True

    def window(self, height: tf.Tensor, width: tf.Tensor, seed: Seed) -> tf.Tensor:
        """Call TensorFlow's `sample_distorted_bounding_box` over the whole image."""
        begin, extent, _ = tf.image.stateless_sample_distorted_bounding_box(
            tf.stack([height, width, 3]),
            bounding_boxes=tf.zeros([1, 0, 4]),
            seed=tf.bitwise.bitwise_xor(tf.convert_to_tensor(seed, tf.int32), [0, 1]),  # independent of the flip
            min_object_covered=0.0,
            aspect_ratio_range=(0.75, 1.33),
            area_range=(0.16, 1.0),
            max_attempts=100,
            use_image_if_no_bounding_boxes=True,
        )
        return tf.concat([begin[:2], extent[:2]], axis=0)

    def finish(self, window: tf.Tensor, height: tf.Tensor, width: tf.Tensor, seed: Seed) -> tf.Tensor:
        """Resize and mirror."""
        resized = to_uint8(resize(window, self.size, self.size, antialias=False))
        return random_flip(resized, seed) if self.flip else resized


@dataclass(frozen=True)
class RandomShift(Identity):
    """Translation of small images by up to `pixels` per direction, repeating the border pixels.

    Args:
        pixels: largest shift; rows and columns are drawn uniformly from -pixels to pixels.
        flip: whether to mirror left and right with probability 1/2; never for characters.

    Output: as the images, `[height, width, channels]` or `[batch, height, width, channels]`.
    """

    pixels: int
    flip: bool = False

    def finish(self, window: tf.Tensor, height: tf.Tensor, width: tf.Tensor, seed: Seed) -> tf.Tensor:
        """Shift and mirror one image."""
        return self(window, seed)

    def __call__(self, image: tf.Tensor, seed: Seed = (0, 0)) -> tf.Tensor:
        """Shift and mirror an image, or a batch's images by their seed pairs."""
        image, seed = tf.convert_to_tensor(image), tf.convert_to_tensor(seed, tf.int32)
        if image.shape.rank == 3:
            return self._shift(image[None], seed[None])[0]
        return self._shift(image, seed)

    def _shift(self, images: tf.Tensor, seeds: tf.Tensor) -> tf.Tensor:
        height, width = tf.shape(images)[1], tf.shape(images)[2]
        draws = uniform_of_each(seeds, _NUM_DRAWS)
        shifts = tf.cast(tf.floor((2 * self.pixels + 1) * draws[:, :2]), tf.int32) - self.pixels
        rows = tf.clip_by_value(tf.range(height) + shifts[:, 0:1], 0, height - 1)  # [batch, height]
        columns = tf.clip_by_value(tf.range(width) + shifts[:, 1:2], 0, width - 1)
        if self.flip:
            columns = tf.where(draws[:, -1:] < 0.5, columns[:, ::-1], columns)
        return tf.gather(tf.gather(images, rows, batch_dims=1, axis=1), columns, batch_dims=1, axis=2)


@dataclass(frozen=True)
class ResizedCenter(_Square):
    """Resizes the shorter side to `shorter_side`, then takes the central `size` x `size` crop.

    Args:
        size: height and width of the result in pixels.
        antialias: low-pass filter if the image shrinks; not in the published code.

    Output: uint8 `[size, size, channels]`. An image whose shorter side is already right is not resized, and only its
    central crop is decoded.
    """

    antialias: bool = True

    @property
    @abc.abstractmethod
    def shorter_side(self) -> int:
        """Shorter side in pixels before the crop; best for prepared copies."""

    def window(self, height: tf.Tensor, width: tf.Tensor, seed: Seed) -> tf.Tensor:
        """Return the central crop if no resizing is needed, else the whole image."""
        whole = tf.stack([0, 0, height, width])
        return tf.cond(self._is_resized(height, width), lambda: self._place(height, width, seed), lambda: whole)

    def finish(self, window: tf.Tensor, height: tf.Tensor, width: tf.Tensor, seed: Seed) -> tf.Tensor:
        """Resize the shorter side and crop, unless the window is the crop."""
        resized = self._is_resized(height, width)
        return tf.cond(resized, lambda: to_uint8(window), lambda: self._resize_and_crop(window, seed))

    def _is_resized(self, height: tf.Tensor, width: tf.Tensor) -> tf.Tensor:
        return tf.equal(tf.minimum(height, width), self.shorter_side)

    def _place(self, height: tf.Tensor, width: tf.Tensor, seed: Seed) -> tf.Tensor:
        del seed
        return tf.stack([(height - self.size) // 2, (width - self.size) // 2, self.size, self.size])

    def _resize_and_crop(self, image: tf.Tensor, seed: Seed) -> tf.Tensor:
        height, width = tf.unstack(tf.shape(image, tf.int64)[:2])  # a thin picture's scaled side may need 64 bits
        shorter, longer = tf.minimum(height, width), tf.maximum(height, width)
        sides = [scaled_side(side, shorter, self.shorter_side) for side in (height, width)]
        place = self._place(sides[0], sides[1], seed)

        def from_whole() -> tf.Tensor:
            new_height, new_width = (tf.cast(side, tf.int32) for side in sides)
            return cut(resize(image, new_height, new_width, antialias=self.antialias), place)

        is_thin = (longer > _LONG * shorter) & (shorter < self.shorter_side)
        crop = tf.cond(is_thin, lambda: _enlarged_part(image, sides, place), from_whole)
        return to_uint8(crop)


@dataclass(frozen=True)
class CenterCrop(ResizedCenter):
    """The thesis' evaluation: shorter side to 256/227 of `size`, then the central crop.

    Reference: Gürbüz's thesis, set-up of the experiments of chapters 3 and 5 (256 and 227); other sizes keep the
    proportion, rounded to a pixel.
    """

    @property
    def shorter_side(self) -> int:
        """256/227 of the size, rounded."""
        return round(self.size * _RESIZE_PER_CROP)


@dataclass(frozen=True)
class ReducedCrop(CenterCrop):
    """Resize as `CenterCrop` does, crop at a random place, random flip.

    Reference: Milbich's dissertation, sections 2.3.3 ("Red."), 3.3 and 4.3, which resizes to 256 for 224; here to 253,
    as the evaluation.
    """

    def finish(self, window: tf.Tensor, height: tf.Tensor, width: tf.Tensor, seed: Seed) -> tf.Tensor:
        """Resize, crop and mirror."""
        return random_flip(super().finish(window, height, width, seed), seed)

    def _place(self, height: tf.Tensor, width: tf.Tensor, seed: Seed) -> tf.Tensor:
        space = tf.stack([height, width]) - self.size + 1
        top_left = tf.cast(tf.floor(uniform_draws(seed)[20:22] * tf.cast(space, tf.float32)), space.dtype)
        return tf.concat([top_left, [self.size, self.size]], axis=0)


@dataclass(frozen=True)
class NativeCrop(ResizedCenter):
    """Resize to `size` for data sets of one native size; native images stay unchanged.

    The shorter side is resized to `size`, and the centre is taken, without the margin of `CenterCrop`.
    """

    @property
    def shorter_side(self) -> int:
        """The size."""
        return self.size


def random_resized_crop_window(
    height: tf.Tensor,
    width: tf.Tensor,
    seed: Seed,
    scale: tuple[float, float] = (0.16, 1.0),
    ratio: tuple[float, float] = (3 / 4, 4 / 3),
) -> tf.Tensor:
    """Draw a window of random area and aspect, by torchvision's RandomResizedCrop rule.

    Ten times: area ~ U(scale) x height x width, log(aspect) ~ U(log ratio), window width = round(sqrt(area x aspect)),
    window height = round(sqrt(area / aspect)). The first that fits is placed uniformly; if none does, the largest
    central window with an aspect in `ratio` is taken.

    Args:
        height: of the image in pixels.
        width: of the image in pixels.
        seed: int32 `[2]`.
        scale: smallest and largest share of the area, in (0, 1].
        ratio: smallest and largest width / height.

    Returns:
        int32 `[4]`: top, left, height, width.
    """
    limits = tf.cast(tf.stack([height, width]), tf.float64)[:, tf.newaxis]  # [2, 1]
    low, high = np.repeat([scale, np.log(ratio) / 2, (0, 1)], [10, 10, 3], axis=0).T  # [23] each
    drawn = low + (high - low) * tf.cast(uniform_draws(seed), tf.float64)
    shares, half_log_aspects, place, _ = tf.split(drawn, [10, 10, 2, 1])
    factors = tf.exp(half_log_aspects * np.array([[-1.0], [1.0]]))  # [2, 10]
    sides = tf.round(tf.sqrt(tf.reduce_prod(limits) * shares) * factors)
    fits = tf.reduce_all((sides > 0) & (sides <= limits), axis=0)
    # What is taken if none fits stands behind them; argmax gives the first True.
    sides = tf.concat([sides, _largest_window(limits, ratio)], axis=1)  # [2, 11]
    chosen = tf.argmax(tf.concat([tf.cast(fits, tf.int32), [1]], axis=0))
    side = tf.gather(sides, chosen, axis=1)
    space = limits[:, 0] - side
    offset = tf.where(chosen < 10, place * (space + 1), space / 2)
    return tf.cast(tf.floor(tf.concat([offset, side], axis=0)), tf.int32)


def _largest_window(limits: tf.Tensor, ratio: tuple[float, float]) -> tf.Tensor:
    """Return height and width of the largest window with aspect in `ratio`, `[2, 1]`."""
    return tf.minimum(limits, tf.round(limits[::-1] * np.array([[1 / ratio[0]], [ratio[1]]])))


def random_flip(image: tf.Tensor, seed: Seed) -> tf.Tensor:
    """Mirror `[height, width, channels]` left and right with probability 1/2."""
    is_mirrored = uniform_draws(seed)[-1] < 0.5
    return tf.cond(is_mirrored, lambda: tf.raw_ops.Reverse(tensor=image, dims=[False, True, False]), lambda: image)


def resize(
    image: tf.Tensor, height: int | tf.Tensor, width: int | tf.Tensor, antialias: bool, filter_above: float = 1.0
) -> tf.Tensor:
    """Resize `[height, width, channels]` bilinearly to float32, with half-pixel centres.

    Args:
        image: any numeric type.
        height: of the result in pixels.
        width: of the result in pixels.
        antialias: widens the filter where an axis shrinks, as Pillow and torchvision do. Enlarging is the same either
            way, and the plain operator, which is five times as fast, does it.
        filter_above: the factor, at least 1, by which an axis must shrink for the filter to apply.
    """

    def resized(filtered: bool) -> tf.Tensor:
        return tf.image.resize(image, [height, width], antialias=filtered)

    if not antialias:
        return resized(False)
    factors = tf.shape(image)[:2] / tf.stack([height, width])
    shrinks = tf.reduce_any(factors > filter_above)
    return tf.cond(shrinks, lambda: resized(True), lambda: resized(False))


def _enlarged_part(image: tf.Tensor, sides: list[tf.Tensor], place: tf.Tensor) -> tf.Tensor:
    """Return what `resize` to `sides`, which must enlarge, and `cut` at `place` give.

    Its memory follows the size of the crop, and not the picture's. Rounding differs.
    """
    for axis in (0, 1):
        count, begin = tf.shape(image, tf.int64)[axis], place[axis]
        scale = tf.cast(count, tf.float64) / tf.cast(sides[axis], tf.float64)
        centers = tf.cast(begin + tf.range(place[2 + axis]), tf.float64) + 0.5
        position = tf.clip_by_value(centers * scale - 0.5, 0.0, tf.cast(count - 1, tf.float64))
        before = tf.cast(position, tf.int64)  # rounded down
        share = tf.cast(position - tf.floor(position), tf.float32)
        share = share[:, tf.newaxis, tf.newaxis] if axis == 0 else share[:, tf.newaxis]
        low = tf.cast(tf.gather(image, before, axis=axis), tf.float32)
        high = tf.cast(tf.gather(image, tf.minimum(before + 1, count - 1), axis=axis), tf.float32)
        image = low + (high - low) * share
    return image


def scaled_side(side: int | tf.Tensor, shorter: int | tf.Tensor, shorter_side: int) -> int | tf.Tensor:
    """Return a side, rounded down, after resizing the shorter one to `shorter_side`."""
    return side * shorter_side // shorter


def cut(image: tf.Tensor, window: tf.Tensor) -> tf.Tensor:
    """Cut a window (top, left, height, width) from `[height, width, channels]`."""
    top, left, height, width = tf.unstack(window)
    return image[top : top + height, left : left + width]


def to_uint8(image: tf.Tensor) -> tf.Tensor:
    """Round pixels in 0..255 to uint8; uint8 images stay."""
    return image if image.dtype == tf.uint8 else tf.cast(image + 0.5, tf.uint8)


def uniform_draws(seed: Seed) -> tf.Tensor:
    """Draw `[23]` numbers in [0, 1) from a seed pair `[2]`, once per graph."""
    return tf.random.stateless_uniform([_NUM_DRAWS], tf.convert_to_tensor(seed, tf.int32), alg="philox")
