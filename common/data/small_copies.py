"""Small copies of images, as JPEG files' contents."""

from __future__ import annotations

import io
from collections.abc import Sequence

from PIL import Image

from common.data.content_digests import content_digest
from common.data.image_files import load_rgb
from common.data.images import scaled_side
from common.data.regular_files import read_regular_file
from common.errors import invalid

QUALITY = 95  # of the JPEG files
COPY_VERSION = 1  # of what copies look like


def small_copy(
    source: str, box: Sequence[float] | None, content: str, shorter_side: int, exif_orientation: bool = True
) -> bytes:
    """Return an RGB JPEG file's contents of the resized image (bilinear, antialiased).

    Args:
        source: image file.
        box: left, top, right, bottom (exclusive) in pixels, to which the image is cut first; None: all of it.
        content: `content_digest` that the file has to have.
        shorter_side: of the copy, in pixels.
        exif_orientation: turn the image as its EXIF orientation says.

    Raises:
        InvalidInput: the file cannot be read to its end, or has changed; it names it.
    """
    contents = read_regular_file(source)
    if content_digest(contents, exif_orientation) != content:
        raise invalid("image file", received=source, expected="one that does not change meanwhile", fix="Begin again.")
    image = load_rgb(io.BytesIO(contents), source, exif_orientation)
    if box is not None:
        image = image.crop(_box_inside(image, box))
    width, height = (scaled_side(side, min(image.size), shorter_side) for side in image.size)
    encoded = io.BytesIO()
    image.resize((width, height), Image.Resampling.BILINEAR).save(encoded, "JPEG", quality=QUALITY)
    return encoded.getvalue()


def _box_inside(image: Image.Image, box: Sequence[float]) -> tuple[int, int, int, int]:
    left, top = max(0, int(box[0])), max(0, int(box[1]))
    return left, top, max(left + 1, min(image.width, int(box[2]))), max(top + 1, min(image.height, int(box[3])))
