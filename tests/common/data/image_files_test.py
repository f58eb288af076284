import functools
import io
import os
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image, ImageOps

from common.data.dataset import Examples
from common.data.image_files import decode_image, decode_rgb, encoded_orientation, load_rgb, turned
from common.data.image_formats import Reading, stored_traits
from common.data.images import CenterCrop, ThesisCrop
from common.data.prepared_images import prepare_images
from common.data.regular_files import read_regular_file
from common.errors import InvalidInput
from tests.support.colour_profiles import DARK_GREY, DISPLAY_P3, PRESS, SRGB, encoded, in_display_p3


def smooth_image(height, width):
    rows, columns = np.mgrid[0:height, 0:width]
    channels = [255 * rows / height, 255 * columns / width, 128 + 100 * np.sin(rows / 9)]
    return Image.fromarray(np.stack(channels, axis=-1).astype(np.uint8))


def write(folder, name, image, **options):
    path = str(folder / name)
    image.save(path, **options)
    return path


def read(path, transform, seed=(0, 0), reading=Reading.SHOWN):
    return reader(transform, reading)(tf.constant(path), tf.constant(seed))


@functools.cache  # a trace takes half a second
def reader(transform, reading):
    """The graph that the pipeline has."""

    def decoded(path, seed):
        return decode_image(tf.io.read_file(path), path, transform, seed, reading)

    return tf.function(decoded, autograph=False)


def loaded(path, reading=Reading.SHOWN):
    return load_rgb(read_regular_file(path), str(path), reading)


def decode_in_graph(contents, transform, reading=Reading.SHOWN):
    return decoder(transform, reading)(tf.constant(contents))


@functools.cache
def decoder(transform, reading):
    return tf.function(lambda contents: decode_image(contents, "a", transform, (3, 4), reading), autograph=False)


@pytest.mark.parametrize(
    ("transform", "options"),
    [
        *((ThesisCrop(24), options) for options in ({}, {"progressive": True}, {"subsampling": 0}, {"optimize": True})),
        (CenterCrop(64), {}),
    ],
)
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
    expected = CenterCrop(16)(np.asarray(loaded(path))).numpy().astype(int)
    assert np.abs(read(path, CenterCrop(16)).numpy() - expected).mean() < 3


@pytest.mark.parametrize(
    ("name", "mode", "options"),
    [
        *(("a.png", mode, {}) for mode in ("RGB", "L", "P", "1")),
        *(("d.bmp", "RGB", {}), ("named.jpg", "RGB", {"format": "PNG"})),
    ],
)
def test_other_formats_are_read(tmp_path, name, mode, options):
    path = write(tmp_path, name, smooth_image(40, 50).convert(mode), **options)
    expected = CenterCrop(16)(np.asarray(Image.open(path).convert("RGB")))
    np.testing.assert_array_equal(read(path, CenterCrop(16)), expected)


@pytest.mark.parametrize("name", ["a.jpg", "a.png", "a.webp", "a.tif"])
def test_orientation_and_colours_are_alike_wherever_images_are_read(tmp_path, name):
    """Training (a window), evaluation (the centre), a prepared copy.

    The orientation of a TIFF file is part of that format, and Pillow always applies it.
    """
    image = smooth_image(40, 60)
    options = {"quality": 100, "subsampling": 0} if name == "a.jpg" else {"lossless": True}
    path = write(tmp_path, name, in_display_p3(image), icc_profile=DISPLAY_P3, exif=exif_of(6), **options)
    for reading in Reading:
        decoded = np.asarray(loaded(path, reading))
        is_turned = reading is not Reading.STORED or name == "a.tif"
        expected = np.asarray(image.transpose(Image.Transpose.ROTATE_270) if is_turned else image)
        distance = np.abs(decoded.astype(int) - expected).mean()
        assert distance < 4 if reading is Reading.SHOWN else distance > 6
        examples = Examples(labels=np.array([0]), paths=np.array([path]), reading=reading)
        copy = np.asarray(loaded(prepare_images(examples, str(tmp_path / "cache"), 40).paths[0]))
        assert np.abs(copy.astype(int) - decoded).mean() < 4
        for transform in (CenterCrop(16), ThesisCrop(16, flip=False)):
            difference = read(path, transform, (3, 4), reading).numpy() - transform(decoded, (3, 4)).numpy().astype(int)
            assert np.abs(difference).max() <= (1 if reading is Reading.SHOWN else 2)


@pytest.mark.parametrize(
    ("profile", "mode"),
    [(None, "RGB"), (SRGB, "RGB"), (DISPLAY_P3[:300], "RGB"), (b"no profile", "RGB"), (DARK_GREY, "RGB"), (PRESS, "L")],
    ids=["none", "of sRGB", "cut off", "damaged", "of grey", "of a press"],
)
@pytest.mark.parametrize("kind", ["JPEG", "PNG"])
def test_without_a_profile_that_changes_colours_no_bit_changes(kind, profile, mode):
    """Also where the graph takes a JPEG file to Pillow only if it has to."""
    image = smooth_image(40, 60).convert(mode)
    options, profiled = {"exif": exif_of(6), "quality": 90}, {} if profile is None else {"icc_profile": profile}
    contents, plain = encoded(image, kind, **options, **profiled), encoded(image, kind, **options)
    before = decode_in_graph(plain, ThesisCrop(16), Reading.UPRIGHT)
    np.testing.assert_array_equal(decode_in_graph(contents, ThesisCrop(16)), before)
    np.testing.assert_array_equal(decode_rgb(contents), decode_rgb(plain, Reading.UPRIGHT))
    assert not stored_traits(contents).has_profile


def exif_of(orientation, order="<", lead=()):
    """Exif data of a camera: some entries, the orientation, and more entries behind it."""
    entries = [*lead, (0x010F, 2, 4, b"ABC\0"), (0x0112, 3, 1, struct.pack(f"{order}HH", orientation, 0))]
    entries += [(0x0128, 3, 1, struct.pack(f"{order}HH", 2, 0))]
    head = {"<": b"II*\0", ">": b"MM\0*"}[order] + struct.pack(f"{order}I", 8)
    body = b"".join(struct.pack(f"{order}HHI", *entry[:3]) + entry[3] for entry in entries)
    return b"Exif\0\0" + head + struct.pack(f"{order}H", len(entries)) + body + bytes(4)


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("kind", ["JPEG", "PNG"])
def test_every_orientation_is_that_of_pillow(kind, order):
    for orientation in range(1, 9):
        stream = io.BytesIO()
        smooth_image(6, 9).save(stream, kind, exif=exif_of(orientation, order), quality=95, comment=b"x" * 300)
        contents = stream.getvalue()
        expected = np.asarray(ImageOps.exif_transpose(Image.open(io.BytesIO(contents))))
        np.testing.assert_array_equal(np.asarray(decode_rgb(contents)), expected)
        assert orientation_in_graph(tf.constant(contents)).numpy() == orientation == stored_traits(contents).orientation
        stored = tf.constant(np.asarray(decode_rgb(contents, Reading.STORED)))
        np.testing.assert_array_equal(turned_in_graph(stored, tf.constant(orientation)), expected)


orientation_in_graph, turned_in_graph = (tf.function(each, autograph=False) for each in (encoded_orientation, turned))


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize(("kind", "layout"), [(1, "Bxxx"), (4, "I")], ids=["byte", "long"])
def test_an_orientation_may_be_any_whole_number(order, kind, layout):
    for orientation, expected in ((6, 6), (65536 + 6, 1)):
        value = struct.pack(order + layout, orientation % 256 if kind == 1 else orientation)
        contents = jpeg_with(exif_of(9, order, lead=[(0x0112, kind, 1, value)]))
        expected = 6 if kind == 1 else expected
        assert orientation_in_graph(tf.constant(contents)).numpy() == expected == stored_traits(contents).orientation


def test_a_picture_of_many_scans_or_chunks_is_refused():
    stream = io.BytesIO()
    smooth_image(64, 64).save(stream, "JPEG", progressive=True)
    contents = stream.getvalue()
    scan = contents[contents.rindex(b"\xff\xda") : -2]
    assert "more than 100 scans" in decode_rgb(contents[:-2] + 200 * scan + contents[-2:])
    assert decode_rgb(contents + 200 * b"\xff\xda").size == (64, 64)  # behind its end, as in the video of some phones
    png = io.BytesIO()
    smooth_image(8, 8).save(png, "PNG")
    chunk = struct.pack(">I", 0) + b"tEXt" + struct.pack(">I", zlib.crc32(b"tEXt"))
    assert "more than 1,000 parts" in decode_rgb(png.getvalue()[:33] + 1100 * chunk + png.getvalue()[33:])


def test_exif_without_an_orientation_is_upright():
    """Odd files: no EXIF, a value that means nothing, another type, damage, EXIF after the pixels of a PNG file."""
    upright, whole = exif_of(1), exif_of(6)
    damaged = [whole[:place] for place in range(6, len(whole) - 17)]
    damaged += [whole[:10] + offset + whole[14:] for offset in (b"\xff\xff\xff\xff", b"\0\0\1\0", b"\x7f\0\0\0")]
    cases = [(upright, 1), (exif_of(0), 1), (exif_of(9), 1), (exif_of(6, lead=[(0x0112, 2, 1, b"\3\0\0\0")]), 6)]
    cases += [(exif, 1) for exif in damaged]
    files = [(jpeg_with(exif), orientation) for exif, orientation in cases]
    png = io.BytesIO()
    smooth_image(8, 8).save(png, "PNG")
    chunk = b"eXIf" + exif_of(8)[6:]
    late = struct.pack(">I", len(chunk) - 4) + chunk + struct.pack(">I", zlib.crc32(chunk))
    files += [(png.getvalue(), 1), (png.getvalue()[:-12] + late + png.getvalue()[-12:], 8)]
    files += [(b"", 1), (b"\xff\xd8", 1), (b"\xff\xd8\xff\xe1", 1), (png.getvalue()[:40], 1), (b"GIF89a" + bytes(9), 1)]
    for contents, orientation in files:
        assert orientation_in_graph(tf.constant(contents)).numpy() == orientation
        assert stored_traits(contents).orientation == orientation


def jpeg_with(exif):
    stream = io.BytesIO()
    smooth_image(8, 8).save(stream, "JPEG")
    contents = stream.getvalue()
    return contents[:2] + b"\xff\xe1" + struct.pack(">H", len(exif) + 2) + exif + contents[2:]


@pytest.mark.parametrize("name", ["a.jpg", "a.png", "a.eps"])
def test_no_image_starts_a_program(tmp_path, monkeypatch, name):
    """Pillow reads EPS by Ghostscript, whatever a file is called: a stand-in for it says that it was started."""
    program = tmp_path / "gs"
    program.write_text(f"#!/bin/sh\ntouch {tmp_path}/started\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    (tmp_path / name).write_bytes(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EndComments\nshowpage\n%%EOF\n")
    assert decode_rgb((tmp_path / name).read_bytes()) == "its format is unknown"
    with pytest.raises(InvalidInput, match=f"{name}.*its format is unknown"):
        loaded(tmp_path / name)
    assert not (tmp_path / "started").exists()


@pytest.mark.parametrize("damage", ["truncated", "text", "empty", "short", "missing"])
def test_a_damaged_or_missing_file_is_named(tmp_path, damage):
    path = Path(write(tmp_path, "damaged.jpg", smooth_image(60, 60), quality=90))
    whole = path.read_bytes()
    damaged = {"truncated": whole[: len(whole) // 2], "text": b"not an image", "short": b"\xff\xd8"}
    path.write_bytes(damaged.get(damage, b""))
    error, message = tf.errors.InvalidArgumentError, "InvalidInput: Invalid image file.*damaged.jpg"
    if damage == "missing":
        path.unlink()
        error, message = tf.errors.NotFoundError, "damaged.jpg"
    with pytest.raises(error, match=message):
        read(str(path), CenterCrop(16))
    with pytest.raises(InvalidInput, match="damaged.jpg"):
        loaded(path)
