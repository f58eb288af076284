"""Copies of a data set's images with a given shorter side, made once, so that training decodes small files."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import io
import os
import threading
from collections.abc import Sequence

import numpy as np
from PIL import Image

from common.data.content_digests import content_digests
from common.data.dataset import Examples
from common.data.file_names import FileNames
from common.data.image_files import load_rgb
from common.data.image_jobs import run_image_jobs
from common.data.images import scaled_side
from common.data.regular_files import read_regular_file
from common.errors import check_positive, invalid

_QUALITY = 95
_VERSION = 1  # of what copies look like


def prepare_images(examples: Examples, cache_dir: str, shorter_side: int, boxes: bool = False) -> Examples:
    """Writes copies whose shorter side is `shorter_side`, and returns the same examples as those copies.

    Copies are RGB JPEG files of quality 95, resized bilinearly with antialiasing (torchvision's rule: the longer side
    is rounded down). An image whose shorter side is smaller is enlarged, as the recipe of the thesis resizes all
    images to a shorter side of 256. EXIF orientation is ignored, as it is wherever images are read.

    A copy's name holds the digest of the source's contents, the shorter side and the box: different sources and sizes
    never mix, a source that changes is prepared again, and one that is moved is not. Copies appear under their name
    only when complete, so that an interrupted preparation continues where it stopped, and several processes may prepare
    the same images.

    Args:
        examples: image files.
        cache_dir: folder for the copies and the sources' digests, made if need be; about 50 kB an image at 256.
        shorter_side: in pixels.
        boxes: crop to `examples.boxes` (left, top, right, bottom; exclusive) first.

    Returns:
        The examples, in the same order, with the copies' paths and without boxes.

    Raises:
        InvalidInput: images that cannot be read to their end (it names them), or a folder that cannot be written.
    """
    check_positive("shorter_side", shorter_side)
    if examples.paths is None or (boxes and examples.boxes is None):
        raise invalid("examples", received="no boxes" if boxes else "no paths", expected="image files (with boxes)")
    folder = os.path.join(cache_dir, "prepared", f"shorter_side_{shorter_side}" + ("_boxes" if boxes else ""))
    sources, crops = examples.paths, examples.boxes if boxes else None
    digests = content_digests(sources, cache_dir)
    copies = FileNames(
        os.path.join(folder, _copy_name(source, _box(crops, row), digests[row].decode()))
        for row, source in enumerate(sources)
    )
    missing = _missing(copies)

    def prepare(row: int) -> None:
        _prepare(sources[row], _box(crops, row), digests[row].decode(), copies[row], shorter_side)

    jobs = (functools.partial(prepare, row) for row in missing.tolist())
    run_image_jobs(jobs, "preparing images", len(missing))
    return dataclasses.replace(examples, paths=copies, boxes=None)


def _box(crops: np.ndarray | None, row: int) -> list[float] | None:
    return None if crops is None else crops[row].tolist()


def _copy_name(source: str, box: Sequence[float] | None, content: str) -> str:
    """`ab/stem-abcdef0123456789.jpg`, from a digest of all that decides what the copy looks like."""
    digest = hashlib.sha256(repr((content, box, _QUALITY, _VERSION)).encode()).hexdigest()
    stem = os.path.splitext(os.path.basename(source))[0][:40]
    return os.path.join(digest[:2], f"{stem}-{digest[:20]}.jpg")


def _missing(copies: FileNames) -> np.ndarray:
    """Rows of the copies that are not there, one of those that are the same file."""
    missing: list[int] = []
    for folder, rows in copies.by_folder():
        seen = set(os.listdir(folder)) if os.path.isdir(folder) else set()
        for row, name in zip(rows.tolist(), copies.base_names(rows)):
            if name not in seen:
                seen.add(name)
                missing.append(row)
    return np.array(sorted(missing), np.int64)


def _prepare(source: str, box: Sequence[float] | None, content: str, copy: str, shorter_side: int) -> None:
    contents = read_regular_file(source)
    if hashlib.sha256(contents).hexdigest() != content:
        raise invalid("image file", received=source, expected="one that does not change meanwhile", fix="Begin again.")
    image = load_rgb(io.BytesIO(contents), source)
    if box is not None:
        image = image.crop(_box_inside(image, box))
    width, height = (scaled_side(side, min(image.size), shorter_side) for side in image.size)
    image = image.resize((width, height), Image.Resampling.BILINEAR)
    os.makedirs(os.path.dirname(copy), exist_ok=True)
    temporary = f"{copy}.{os.getpid()}.{threading.get_ident()}.part"
    try:
        image.save(temporary, "JPEG", quality=_QUALITY)
        os.replace(temporary, copy)
    finally:
        if os.path.exists(temporary):
            os.unlink(temporary)


def _box_inside(image: Image.Image, box: Sequence[float]) -> tuple[int, int, int, int]:
    left, top = max(0, int(box[0])), max(0, int(box[1]))
    return left, top, max(left + 1, min(image.width, int(box[2]))), max(top + 1, min(image.height, int(box[3])))
