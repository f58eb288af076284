import io
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from common.data.dataset import Examples
from common.data.image_files import decode_rgb, load_rgb, read_image
from common.data.images import CenterCrop, PublishedCodeCrop, ThesisCrop
from common.data.prepared_images import prepare_images
from common.errors import InvalidInput


def smooth_image(height, width):
    rows, columns = np.mgrid[0:height, 0:width]
    channels = [255 * rows / height, 255 * columns / width, 128 + 100 * np.sin(rows / 9)]
    return Image.fromarray(np.stack(channels, axis=-1).astype(np.uint8))


def write(folder, name, image, **options):
    path = str(folder / name)
    image.save(path, **options)
    return path


def read(path, transform, seed=(0, 0)):
    return read_in_graph(tf.constant(path), transform, tf.constant(seed))


@tf.function
def read_in_graph(path, transform, seed):
    return read_image(path, transform, seed)


@pytest.mark.parametrize("options", [{}, {"progressive": True}, {"subsampling": 0}, {"optimize": True}])
@pytest.mark.parametrize("transform", [ThesisCrop(24), CenterCrop(64), CenterCrop(32)])
def test_decoding_the_window_equals_decoding_all_and_cutting(tmp_path, options, transform):
    path = write(tmp_path, "image.jpg", smooth_image(72, 95), quality=90, **options)
    whole = tf.io.decode_jpeg(tf.io.read_file(path), channels=3, dct_method="INTEGER_ACCURATE")
    difference = read(path, transform, (5, 6)).numpy().astype(int) - transform(whole, (5, 6)).numpy()
    assert np.abs(difference).max() <= 2  # chroma is interpolated anew at the window's border


def test_a_whole_image_is_decoded_accurately(tmp_path):
    noise = np.random.default_rng(0).integers(0, 256, (36, 47, 3)).astype(np.uint8)
    path = write(tmp_path, "noise.jpg", Image.fromarray(noise), quality=40)
    whole, fast = (
        CenterCrop(64)(tf.io.decode_jpeg(tf.io.read_file(path), channels=3, dct_method=method))
        for method in ("INTEGER_ACCURATE", "INTEGER_FAST")
    )
    assert np.any(whole != fast)
    np.testing.assert_array_equal(read(path, CenterCrop(64)), whole)


@pytest.mark.parametrize("mode", ["L", "CMYK", "RGB"])
def test_jpeg_modes_become_the_rgb_that_pillow_gives(tmp_path, mode):
    path = write(tmp_path, "image.jpg", smooth_image(40, 40).convert(mode), quality=95)
    expected = CenterCrop(16)(np.asarray(load_rgb(path, path))).numpy().astype(int)
    assert np.abs(read(path, CenterCrop(16)).numpy() - expected).mean() < 3


@pytest.mark.parametrize(
    ("name", "mode"), [("a.png", "RGB"), ("b.png", "L"), ("c.png", "P"), ("d.bmp", "RGB"), ("e.png", "1")]
)
def test_other_formats_are_read(tmp_path, name, mode):
    path = write(tmp_path, name, smooth_image(40, 50).convert(mode))
    expected = CenterCrop(16)(np.asarray(Image.open(path).convert("RGB")))
    np.testing.assert_array_equal(read(path, CenterCrop(16)), expected)


def test_a_png_named_jpg_is_read(tmp_path):
    path = str(tmp_path / "image.jpg")
    smooth_image(40, 50).save(path, format="PNG")
    assert read(path, CenterCrop(16)).shape == (16, 16, 3)


def test_bytes_after_the_end_of_a_jpeg_do_no_harm(tmp_path):
    path = write(tmp_path, "image.jpg", smooth_image(40, 50), quality=90)
    expected = read(path, CenterCrop(16)).numpy().astype(int)
    with open(path, "ab") as file:
        file.write(b"appended by a camera")
    assert np.abs(read(path, CenterCrop(16)).numpy() - expected).max() <= 1


@pytest.mark.parametrize(
    ("name", "is_turned"), [("a.jpg", False), ("a.png", False), ("a.webp", False), ("a.tif", True)]
)
def test_orientation_is_alike_wherever_images_are_read(tmp_path, name, is_turned):
    """Training (a window), evaluation (the centre), a prepared copy of either size: EXIF is ignored by all of them.

    The orientation of a TIFF file is part of that format, and Pillow applies it.
    """
    exif = Image.Exif()
    exif[0x0112] = 6  # rotated by a quarter
    image = smooth_image(40, 60)
    path = write(tmp_path, name, image, exif=exif, quality=95, lossless=True)
    expected = CenterCrop(16)(np.asarray(image.transpose(Image.Transpose.ROTATE_270) if is_turned else image)).numpy()
    copies = prepare_images(Examples(labels=np.array([0]), paths=np.array([path])), str(tmp_path / "cache"), 40)
    for source in (path, copies.paths[0]):
        for transform in (CenterCrop(16), PublishedCodeCrop(16, flip=False), ThesisCrop(16, flip=False)):
            whole = transform(np.asarray(load_rgb(source, source)), (3, 4)).numpy().astype(int)
            assert np.abs(read(source, transform, (3, 4)).numpy() - whole).mean() < 2
        assert np.abs(read(source, CenterCrop(16)).numpy().astype(int) - expected).mean() < 2


def test_16_bit_and_transparent_images_are_read_in_a_graph(tmp_path):
    ramp = np.linspace(0, 65535, 64 * 64).reshape(64, 64).astype(np.uint16)
    path = write(tmp_path, "deep.png", Image.fromarray(ramp))
    assert read(path, CenterCrop(56)).numpy().mean() == pytest.approx(127.5, abs=4)
    path = write(tmp_path, "clear.png", Image.new("RGBA", (64, 64), (0, 0, 0, 0)))
    assert read(path, CenterCrop(56)).numpy().min() == 255


def test_an_image_without_a_range_is_named(tmp_path):
    path = write(tmp_path, "depth.tif", Image.fromarray(np.full((40, 40), 0.25, np.float32)))
    with pytest.raises(InvalidInput, match="depth.tif.*floating-point numbers.*8 or 16 bits"):
        load_rgb(path, path)
    with pytest.raises(tf.errors.InvalidArgumentError, match="Invalid image file.*depth.tif.*floating-point"):
        read(path, CenterCrop(16))


@pytest.mark.parametrize("damage", ["truncated", "text", "empty", "short"])
def test_a_damaged_file_is_named(tmp_path, damage):
    path = write(tmp_path, "damaged.jpg", smooth_image(60, 60), quality=90)
    whole = Path(path).read_bytes()
    half = whole[: len(whole) // 2]
    damaged = {"truncated": half, "text": b"not an image", "empty": b"", "short": b"\xff\xd8"}
    Path(path).write_bytes(damaged[damage])
    with pytest.raises(tf.errors.InvalidArgumentError, match="InvalidInput: Invalid image file.*damaged.jpg"):
        read(path, ThesisCrop(16))
    with pytest.raises(InvalidInput, match="damaged.jpg"):
        load_rgb(path, path)


def test_a_jpeg_cut_off_and_closed_is_named(tmp_path):
    path = write(tmp_path, "closed.jpg", smooth_image(200, 200), quality=90)
    whole = Path(path).read_bytes()
    Path(path).write_bytes(whole[: len(whole) // 2] + b"\xff\xd9")
    with pytest.raises(InvalidInput, match="closed.jpg.*the coded data end before the image does"):
        load_rgb(path, path)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(tf.errors.NotFoundError, match="nowhere.jpg"):
        read(str(tmp_path / "nowhere.jpg"), ThesisCrop(16))


def test_load_rgb_takes_streams():
    stream = io.BytesIO()
    smooth_image(8, 9).convert("L").save(stream, "PNG")
    assert load_rgb(stream, "a stream").size == (9, 8)


def test_decode_rgb_gives_the_image_or_the_reason():
    stream = io.BytesIO()
    smooth_image(8, 9).save(stream, "PNG")
    assert decode_rgb(stream.getvalue()).mode == "RGB"
    assert decode_rgb(b"no image") == "its format is unknown"
