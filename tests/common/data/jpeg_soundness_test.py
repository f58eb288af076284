import io

import numpy as np
import pytest
from PIL import Image

from common.data.jpeg_soundness import jpeg_complaint

END = b"\xff\xd9"


def photograph(height=120, width=160):
    rows, columns = np.mgrid[0:height, 0:width]
    noise = np.random.default_rng(0).normal(0, 12, (height, width, 3))
    channels = np.stack([255 * rows / height, 255 * columns / width, 128 + 100 * np.sin(rows / 9)], axis=-1)
    return Image.fromarray(np.clip(channels + noise, 0, 255).astype(np.uint8))


def jpeg(image=None, **options):
    file = io.BytesIO()
    (image or photograph()).save(file, "JPEG", **{"quality": 90, **options})
    return file.getvalue()


@pytest.mark.parametrize("mode", ["RGB", "L", "CMYK"])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"quality": 5},
        {"quality": 100, "subsampling": 0},
        {"optimize": True},
        {"progressive": True},
        {"progressive": True, "quality": 20},
        {"restart_marker_blocks": 4},
        {"exif": b"Exif\0\0" + bytes(300)},
    ],
    ids=str,
)
def test_sound_files_have_no_complaint(mode, options):
    for size in ((120, 160), (1, 1), (17, 9), (8, 300)):
        assert jpeg_complaint(jpeg(photograph(*size).convert(mode), **options)) is None
    flat = Image.new(mode, (200, 100))
    assert jpeg_complaint(jpeg(flat, **options)) is None


def decodes(contents):
    """Whether Pillow takes it without a word, as it does of damage that only makes libjpeg warn."""
    with Image.open(io.BytesIO(contents)) as image:
        image.load()
    return True


@pytest.mark.parametrize("share", [0.3, 0.5, 0.9, 0.98])
@pytest.mark.parametrize("options", [{}, {"optimize": True}, {"restart_marker_blocks": 4}], ids=str)
def test_a_file_cut_off_and_closed_is_told(share, options):
    whole = jpeg(**options)
    cut = whole[: int(share * len(whole))].rstrip(b"\xff") + END
    assert decodes(cut)
    assert jpeg_complaint(cut) == "the coded data end before the image does"


def test_a_progressive_file_cut_off_within_a_scan_and_closed_is_told():
    whole = jpeg(progressive=True)
    for share in (0.4, 0.6, 0.8):
        cut = whole[: int(share * len(whole))].rstrip(b"\xff") + END
        assert decodes(cut)
        assert "before the image does" in jpeg_complaint(cut)


@pytest.mark.parametrize("kind", ["put in", "instead of data"])
def test_zero_bytes_in_the_middle_are_told(kind):
    whole = jpeg(photograph(300, 400), quality=80)
    middle = len(whole) // 2
    damaged = whole[:middle] + bytes(5000) + whole[middle + (0 if kind == "put in" else 5000) :]
    assert decodes(damaged)
    assert jpeg_complaint(damaged)


@pytest.mark.parametrize("padding", [bytes(500), b"\xff" * 500, b"\x17\x2a"])
def test_padding_is_no_damage(padding):
    whole = jpeg()
    assert jpeg_complaint(whole[:-2] + padding + END) is None


def test_what_comes_after_the_end_is_no_damage():
    whole = jpeg()
    assert jpeg_complaint(whole + b"appended by a camera" + jpeg(Image.new("L", (9, 9)))) is None


@pytest.mark.parametrize("contents", [b"", b"\xff\xd8", b"no image", b"\xff\xd8\xff\xda", jpeg()[:500], jpeg()[:-2]])
def test_what_the_decoder_refuses_itself_has_no_complaint_here(contents):
    assert jpeg_complaint(contents) is None


def test_other_formats_have_none():
    file = io.BytesIO()
    photograph().save(file, "PNG")
    assert jpeg_complaint(file.getvalue()) is None
