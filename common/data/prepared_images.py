"""Copies of a data set's images with a given shorter side, made once, so that training decodes small files."""

from __future__ import annotations

import dataclasses
import hashlib
import os
import threading
from concurrent.futures import ThreadPoolExecutor, as_completed

import numpy as np
from PIL import Image
from tqdm import tqdm

from common.data.dataset import Examples
from common.data.image_files import load_rgb
from common.data.images import scaled_side
from common.ops.checks import InvalidInput, check_positive, invalid

_QUALITY = 95
_NUM_SHOWN = 5  # unreadable images that an error names


def prepare_images(examples: Examples, cache_dir: str, shorter_side: int, boxes: bool = False) -> Examples:
    """Writes copies whose shorter side is `shorter_side`, and returns the same examples as those copies.

    Copies are RGB JPEG files of quality 95, resized bilinearly with antialiasing (torchvision's rule: the longer side
    is rounded down). An image whose shorter side is smaller is enlarged, as the recipe of the thesis resizes all
    images to a shorter side of 256. EXIF orientation is ignored.

    A copy's name holds the source's path, size and time of change, the shorter side and the box: different sources and
    sizes never mix, and a source that changes is prepared anew. Copies appear under their name only when complete, so
    that an interrupted preparation continues where it stopped, and several processes may prepare the same images.

    Args:
        examples: image files.
        cache_dir: folder for the copies, made if need be; it takes about 50 kB an image at 256.
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
    crops = examples.boxes.tolist() if boxes else [None] * len(examples)
    sources = [str(path) for path in examples.paths]
    copies = [os.path.join(folder, _copy_name(source, crop)) for source, crop in zip(sources, crops)]

    present = _files_below(folder)
    missing = {copy: job for copy, job in zip(copies, zip(sources, crops)) if copy not in present}
    if missing:
        _prepare_all(missing, shorter_side)
    return dataclasses.replace(examples, paths=np.array(copies), boxes=None)


def _copy_name(source: str, box) -> str:
    """`ab/stem-abcdef0123456789.jpg`, from a digest of all that decides what the copy looks like."""
    absolute = os.path.abspath(source)
    try:
        status = os.stat(absolute)
    except OSError as error:
        raise invalid("image file", received=source, expected=f"an existing file ({error.strerror})") from error
    key = repr((absolute, status.st_size, status.st_mtime_ns, box, _QUALITY))
    digest = hashlib.sha256(key.encode("utf-8", "surrogateescape")).hexdigest()
    stem = os.path.splitext(os.path.basename(source))[0][:40]
    return os.path.join(digest[:2], f"{stem}-{digest[:20]}.jpg")


def _files_below(folder: str) -> set[str]:
    return {os.path.join(directory, name) for directory, _, names in os.walk(folder) for name in names}


def _prepare_all(missing: dict[str, tuple], shorter_side: int):
    """Makes copies in parallel threads (decoding, resizing and encoding release the interpreter)."""
    unreadable = []
    pool = ThreadPoolExecutor(max_workers=os.cpu_count())
    try:
        jobs = [pool.submit(_prepare, *job, copy, shorter_side) for copy, job in missing.items()]
        for job in tqdm(as_completed(jobs), total=len(jobs), desc="preparing images", unit="image"):
            try:
                job.result()
            except OSError as error:
                raise _cannot_write(error) from error
            except InvalidInput as error:
                unreadable.append(str(error))
    finally:
        pool.shutdown(cancel_futures=True)
    if unreadable:
        unreadable.sort()
        more = f" And {len(unreadable) - _NUM_SHOWN} more images." if len(unreadable) > _NUM_SHOWN else ""
        raise InvalidInput(" ".join(unreadable[:_NUM_SHOWN]) + more)


def _prepare(source: str, box, copy: str, shorter_side: int):
    image = load_rgb(source, source)
    if box is not None:
        image = image.crop(_box_inside(image, box))
    size = tuple(scaled_side(side, min(image.size), shorter_side) for side in image.size)
    image = image.resize(size, Image.Resampling.BILINEAR)
    os.makedirs(os.path.dirname(copy), exist_ok=True)
    temporary = f"{copy}.{os.getpid()}.{threading.get_ident()}.part"
    try:
        image.save(temporary, "JPEG", quality=_QUALITY)
        os.replace(temporary, copy)
    finally:
        if os.path.exists(temporary):
            os.unlink(temporary)


def _box_inside(image: Image.Image, box) -> tuple[int, int, int, int]:
    left, top = max(0, int(box[0])), max(0, int(box[1]))
    return left, top, max(left + 1, min(image.width, int(box[2]))), max(top + 1, min(image.height, int(box[3])))


def _cannot_write(error: OSError) -> InvalidInput:
    return invalid(
        "--cache_dir",
        received=error.filename or str(error),
        expected=f"a folder with room that can be written ({error.strerror or error})",
        fix="Free some space or name another folder; what is prepared already is kept.",
    )
