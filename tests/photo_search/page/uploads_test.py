import io
import os
import time

import numpy as np
import pytest
from PIL import Image

from common.data.image_formats import Reading
from photo_search.page.uploads import LONGEST_SIDE, Refused, read_photo
from photo_search.photos.shown import jpeg_of, small_picture
from tests.photo_search.page.hostile_files import NO_PHOTOS, encoded, jpeg, photo, png_that_declares
from tests.support.colour_profiles import DISPLAY_P3, in_display_p3

MOST = 1_000_000


@pytest.fixture
def small_copy(tmp_path):
    """What the page shows of a file with these contents."""

    def copy(contents, side):
        (tmp_path / "photo").write_bytes(contents)
        found = small_picture(str(tmp_path / "photo"), side, MOST)
        return found if isinstance(found, str) else jpeg_of(found)

    return copy


@pytest.mark.parametrize(("contents", "status", "phrase"), NO_PHOTOS.values(), ids=NO_PHOTOS)
def test_what_is_no_photo_is_refused_at_once(contents, status, phrase):
    began = time.process_time()
    with pytest.raises(Refused, match=phrase) as error:
        read_photo(contents, MOST)
    assert 400 <= error.value.status < 500
    assert error.value.status == status or status == 415 and error.value.status == 422
    assert time.process_time() - began < 2  # no bomb has gone off


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "GIF", "BMP"])
def test_every_format_is_read(kind):
    assert read_photo(encoded(photo((24, 20)), kind), MOST).shape == (20, 24, 3)


def test_fill_bytes_cost_no_time():
    began = time.process_time()
    contents = jpeg()[:2] + b"\xff" * 15_000_000 + jpeg()[2:]
    np.testing.assert_array_equal(read_photo(contents, MOST), read_photo(jpeg(), MOST))
    assert time.process_time() - began < 2


def test_unusual_pixels_are_read_as_they_look():
    grey = np.linspace(0, 65535, 100).reshape(10, 10).astype(np.uint16)
    files = {
        "16 bits": (encoded(Image.fromarray(grey), "PNG"), np.rint(grey / 257)[..., None] * np.ones(3)),
        "bilevel": (encoded(Image.new("1", (9, 9), 1), "PNG"), np.full((9, 9, 3), 255)),
        "palette": (encoded(Image.new("P", (9, 9), 0), "PNG"), np.zeros((9, 9, 3))),
        "transparent": (encoded(Image.new("RGBA", (9, 9), (9, 9, 9, 0)), "PNG"), np.full((9, 9, 3), 255)),
        "CMYK": (encoded(Image.new("CMYK", (9, 9), (0, 255, 255, 0)), "JPEG"), np.full((9, 9, 3), (255, 0, 0))),
        "1 x 1": (encoded(Image.new("RGB", (1, 1), (7, 8, 9)), "PNG"), np.full((1, 1, 3), (7, 8, 9))),
    }
    for name, (contents, expected) in files.items():
        found = read_photo(contents, MOST)
        assert found.dtype == np.uint8
        assert np.abs(found - expected).max() <= 3, name


def test_a_phone_with_two_pictures_in_a_file_has_taken_a_photo():
    contents = encoded(photo(), "MPO", save_all=True, append_images=[photo(seed=1)])
    assert read_photo(contents, MOST).shape == (20, 24, 3)


def test_limits_are_inclusive():
    wide = encoded(Image.new("L", (LONGEST_SIDE, 2)), "PNG")
    assert read_photo(wide, 2 * LONGEST_SIDE).shape == (2, LONGEST_SIDE, 3)
    with pytest.raises(Refused, match="0.059999 megapixels"):
        read_photo(wide, 2 * LONGEST_SIDE - 1)


def test_damaged_files_are_read_or_refused():
    rng = np.random.default_rng(0)
    files = [jpeg((64, 48)), jpeg((64, 48), progressive=True)]
    files += [encoded(photo((64, 48)), kind) for kind in ("PNG", "WEBP", "GIF", "BMP")]
    found = [outcome(damaged(files[place % len(files)], rng)) for place in range(600)]
    assert set(found) <= {200, 413, 415, 422}
    assert 100 < found.count(200) < 500


def damaged(contents, rng):
    changed = bytearray(contents)
    for spot in rng.integers(0, len(changed), size=rng.integers(1, 12)):
        changed[spot] = rng.integers(256)
    return bytes(changed)


def outcome(contents):
    try:
        return 200 if read_photo(contents, MOST).ndim == 3 else 0
    except Refused as error:
        return error.status


def test_a_small_copy_has_nothing_but_pixels(small_copy):
    exif = Image.Exif()
    exif[0x010E] = "a secret description"
    original = jpeg((500, 250), exif=exif)
    copy = small_copy(original, 100)
    assert b"secret" in original
    assert b"secret" not in copy
    with Image.open(io.BytesIO(copy)) as image:
        assert (image.format, image.size) == ("JPEG", (100, 50))


def test_a_small_copy_of_what_is_no_photo_is_a_phrase(small_copy):
    assert "no complete picture" in small_copy(b"text", 100)
    assert "megapixels" in small_copy(png_that_declares(5_000, 5_000), 100)


def test_photos_and_their_copies_are_upright(small_copy):
    exif = Image.Exif()
    exif[0x0112] = 6
    contents = jpeg((500, 250), exif=exif)
    assert read_photo(contents, MOST).shape == (500, 250, 3)
    assert read_photo(contents, MOST, reading=Reading.STORED).shape == (250, 500, 3)
    with Image.open(io.BytesIO(small_copy(contents, 100))) as copy:
        assert copy.size == (50, 100)


def test_photos_and_their_copies_are_in_the_colours_of_their_profile(small_copy):
    colour = (220, 60, 30)
    wide = in_display_p3(Image.new("RGB", (80, 60), colour))
    contents = encoded(wide, "JPEG", quality=95, icc_profile=DISPLAY_P3)
    assert np.abs(read_photo(contents, MOST).astype(int) - colour).max() <= 3
    assert np.abs(read_photo(contents, MOST, Reading.UPRIGHT).astype(int) - wide.getpixel((0, 0))).max() <= 3
    with Image.open(io.BytesIO(small_copy(contents, 40))) as copy:
        assert "icc_profile" not in copy.info
        assert np.abs(np.asarray(copy).astype(int) - colour).max() <= 5


def test_no_photo_starts_a_program(monkeypatch, tmp_path, small_copy):
    (tmp_path / "gs").write_text(f"#!/bin/sh\ntouch {tmp_path}/started\n")
    (tmp_path / "gs").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    contents = encoded(photo(), "EPS")
    assert small_copy(contents, 100) == "this is no complete picture"
    with pytest.raises(Refused, match="known format"):
        read_photo(contents, MOST)
    assert not (tmp_path / "started").exists()
