import io

import numpy as np
import pytest
from PIL import Image, TiffImagePlugin

from common.data.rgb_conversion import to_rgb
from tests.support.colour_profiles import CYAN_OF_PRESS, DARK_GREY, DISPLAY_P3, PRESS, in_display_p3


def written_and_opened(image, **options):
    file = io.BytesIO()
    image.save(file, **options)
    return Image.open(io.BytesIO(file.getvalue()))


RAMP = np.linspace(0, 65535, 16 * 24).reshape(16, 24)


@pytest.mark.parametrize(
    ("order", "options"),
    [
        ("<u2", {"format": "PNG"}),
        ("<u2", {"format": "PPM"}),
        ("<u2", {"format": "TIFF"}),
        (">u2", {"format": "TIFF"}),
        ("<u2", {"format": "TIFF", "compression": "tiff_lzw"}),
    ],
    ids=str,
)
def test_16_bits_are_scaled_by_their_range(order, options):
    values = RAMP.astype(order)
    mode = "I;16B" if order == ">u2" else "I;16"
    image = written_and_opened(Image.frombytes(mode, (24, 16), values.tobytes()), **options)
    rgb = to_rgb(image)
    assert (rgb.mode, rgb.size) == ("RGB", (24, 16))
    np.testing.assert_array_equal(np.asarray(rgb)[..., 0], np.rint(values.astype(float) / 257))
    assert np.asarray(rgb).mean() == pytest.approx(127.5, abs=0.5)


def test_12_bits_of_a_tiff_file_are_scaled_by_theirs():
    """Two pixels in three bytes: 0xABC and 0xFFF, as no version of Pillow writes them."""
    tags = {256: 2, 257: 1, 258: 12, 259: 1, 262: 1, 273: 0, 277: 1, 278: 1, 279: 3}
    size = 8 + 2 + 12 * len(tags) + 4
    tags[273] = size
    entries = b"".join(
        tag.to_bytes(2, "little") + b"\4\0\1\0\0\0" + value.to_bytes(4, "little") for tag, value in tags.items()
    )
    file = b"II*\0\x08\0\0\0" + len(tags).to_bytes(2, "little") + entries + bytes(4) + b"\xab\xcf\xff"
    image = Image.open(io.BytesIO(file))
    assert image.mode == "I;16"
    np.testing.assert_array_equal(np.asarray(to_rgb(image))[0, :, 1], [round(0xABC * 255 / 4095), 255])


SIGNED = TiffImagePlugin.ImageFileDirectory_v2()
SIGNED[339] = 2  # the tag of the sample format


@pytest.mark.parametrize(
    ("values", "kind", "options"),
    [
        (RAMP.astype(np.int32) * 1000, "32-bit integers", {}),
        (RAMP.astype(np.float32) / 65535, "floating-point numbers", {}),
        (RAMP.astype(np.uint16), "(signed|32-bit) integers", {"tiffinfo": SIGNED}),
    ],
)
def test_values_without_a_range_are_refused(values, kind, options):
    image = written_and_opened(Image.fromarray(values), format="TIFF", **options)
    if options and image.mode != "I":
        pytest.skip("this version of Pillow does not write the sign")
    with pytest.raises(ValueError, match=f"its pixels are {kind}.*save it with 8 or 16 bits"):
        to_rgb(image)


@pytest.mark.parametrize("options", [{"format": "PNG"}, {"format": "TIFF"}, {"format": "WEBP", "lossless": True}])
def test_what_is_transparent_lies_on_white(options):
    """Black and red columns: opaque, half, fully transparent; what is under the last is green."""
    pixels = np.array(4 * [[(0, 0, 0, 255), (255, 0, 0, 128), (0, 255, 0, 0)]], np.uint8)
    rgb = np.asarray(to_rgb(written_and_opened(Image.fromarray(pixels), **options)))[0].astype(int)
    np.testing.assert_allclose(rgb, [(0, 0, 0), (255, 127, 127), (255, 255, 255)], atol=1)


@pytest.mark.parametrize(
    ("mode", "transparent", "format"),
    [
        ("P", 1, "PNG"),
        ("P", 1, "GIF"),
        ("P", b"\xff\x00", "PNG"),
        ("L", 90, "PNG"),
        ("I;16", 90 * 257, "PNG"),
        ("RGB", (90, 90, 90), "PNG"),
        ("LA", None, "PNG"),
    ],
)
def test_every_way_of_being_transparent_counts(mode, transparent, format):
    grey = np.array([[30, 90]], np.uint8)
    image = Image.fromarray(grey.astype(np.uint16) * 257) if mode == "I;16" else Image.fromarray(grey)
    if mode == "P":
        image = Image.new("P", (2, 1))
        image.putpalette([30, 30, 30, 90, 90, 90])
        image.putdata([0, 1])
    elif mode in ("LA", "RGB"):
        image = image.convert(mode)
    if mode == "LA":
        image.putalpha(Image.fromarray(np.array([[255, 0]], np.uint8)))
    options = {} if transparent is None else {"transparency": transparent}
    opened = written_and_opened(image, format=format, **options)
    np.testing.assert_array_equal(np.asarray(to_rgb(opened))[0, :, 0], [30, 255])


@pytest.mark.parametrize("mode", ["1", "L", "CMYK", "RGB"])
def test_other_images_are_what_pillow_makes_of_them(mode):
    pixels = np.random.default_rng(0).integers(0, 256, (9, 7, 3)).astype(np.uint8)
    image = written_and_opened(Image.fromarray(pixels).convert(mode), format="TIFF")
    np.testing.assert_array_equal(to_rgb(image), image.convert("RGB"))


@pytest.mark.parametrize("format", ["JPEG", "TIFF"])
def test_inks_are_those_of_their_profile(format):
    for inks, colour in (((255, 0, 0, 0), CYAN_OF_PRESS), ((0, 0, 0, 0), (255, 255, 255)), ((0, 0, 0, 255), (0, 0, 0))):
        image = written_and_opened(Image.new("CMYK", (16, 16), inks), format=format, icc_profile=PRESS)
        assert np.abs(np.asarray(to_rgb(image), int) - colour).max() <= 2


@pytest.mark.parametrize("mode", ["L", "LA", "I;16"])
def test_greys_are_those_of_their_profile(mode):
    """The darker curve v^3 of a profile, as values of sRGB."""
    grey = np.arange(256, dtype=np.uint8)[None]
    linear = (grey / 255.0) ** 3
    expected = 255 * np.where(linear <= 0.0031308, 12.92 * linear, 1.055 * linear ** (1 / 2.4) - 0.055)
    image = Image.fromarray(grey.astype(np.uint16) * 257) if mode == "I;16" else Image.fromarray(grey).convert(mode)
    rgb = np.asarray(to_rgb(written_and_opened(image, format="PNG", icc_profile=DARK_GREY)))
    np.testing.assert_allclose(rgb, np.repeat(expected[..., None], 3, axis=2), atol=2)
    plain = np.asarray(to_rgb(written_and_opened(image, format="PNG", icc_profile=DARK_GREY), applies_profile=False))
    np.testing.assert_array_equal(plain, np.repeat(grey[..., None], 3, axis=2))


def test_what_is_transparent_has_the_colours_of_its_profile_and_lies_on_white():
    wide = in_display_p3(Image.new("RGB", (3, 1), (220, 60, 30)))
    layer = wide.copy()
    layer.putalpha(Image.fromarray(np.array([[255, 128, 0]], np.uint8)))
    rgb = np.asarray(to_rgb(written_and_opened(layer, format="PNG", icc_profile=DISPLAY_P3)))[0].astype(int)
    np.testing.assert_allclose(rgb, [(220, 60, 30), (237, 157, 142), (255, 255, 255)], atol=2)
    palette = wide.quantize(2)
    rgb = np.asarray(to_rgb(written_and_opened(palette, format="PNG", icc_profile=DISPLAY_P3)), int)
    assert np.abs(rgb - (220, 60, 30)).max() <= 2
