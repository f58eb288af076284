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


@pytest.mark.parametrize("share", [0.4, 0.6, 0.8, 0.98])
@pytest.mark.parametrize(
    "options", [{}, {"optimize": True}, {"restart_marker_blocks": 4}, {"progressive": True}], ids=str
)
def test_a_file_cut_off_and_closed_is_told(share, options):
    whole = jpeg(**options)
    if options == {"progressive": True} and share > 0.9:
        pytest.skip("within its last scan")
    cut = whole[: int(share * len(whole))].rstrip(b"\xff") + END
    assert decodes(cut)
    of_a_scan = " of a scan" if "progressive" in options else ""
    assert jpeg_complaint(cut) == f"the coded data{of_a_scan} end before the image does"


@pytest.mark.parametrize("kind", ["put in", "instead of data"])
def test_zero_bytes_in_the_middle_are_told(kind):
    whole = jpeg(photograph(300, 400), quality=80)
    middle = len(whole) // 2
    damaged = whole[:middle] + bytes(5000) + whole[middle + (0 if kind == "put in" else 5000) :]
    assert decodes(damaged)
    assert jpeg_complaint(damaged)


def test_padding_what_follows_and_what_the_decoder_refuses_itself_have_no_complaint_here():
    whole, png = jpeg(), io.BytesIO()
    photograph().save(png, "PNG")
    padded = [whole[:-2] + padding + END for padding in (bytes(500), b"\xff" * 500, b"\x17\x2a")]
    followed = whole + b"appended by a camera" + jpeg(Image.new("L", (9, 9)))
    refused = [b"", b"\xff\xd8", b"no image", b"\xff\xd8\xff\xda", whole[:500], whole[:-2], png.getvalue()]
    for contents in (*padded, followed, *refused):
        assert jpeg_complaint(contents) is None
