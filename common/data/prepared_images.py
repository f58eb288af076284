"""Small copies of a data set's images with a given shorter side, made once."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import hashlib
import io
import os
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
from PIL import Image

from common.data.content_digests import content_digest, content_digests
from common.data.dataset import Dataset, Examples, parts_of
from common.data.file_names import FileNames
from common.data.image_files import load_rgb
from common.data.image_formats import COPIES, Reading
from common.data.image_jobs import run_image_jobs
from common.data.images import scaled_side
from common.data.left_out import check_images
from common.data.regular_files import read_regular_file
from common.errors import check_choice, check_given, check_positive, invalid
from common.files import mark_used
from common.progress import write_notice

_QUALITY = 95  # of the JPEG files
_COMPRESSED_QUALITY = 93  # less changes MAP@R by more than .1; WebP of this size changes it more, and decodes slowly
_LONGEST_SIDE = 65_500  # pixels of a JPEG file that libjpeg writes
_COPY_VERSION = 1  # of what copies look like
_DESCRIPTION = "preparing images"
_BYTES_AT_256 = {"exact": 50_000, "compressed": 40_000}  # of a copy of a photograph


def with_copies(
    dataset: Dataset,
    cache_dir: str,
    shorter_side: int,
    originals: Sequence[str] = (),
    copies: str = COPIES[0],
) -> Dataset:
    """Return a data set of image files whose parts are copies, see `prepare_images`.

    Args:
        dataset: image files.
        cache_dir: folder for the copies and the digests.
        shorter_side: in pixels.
        originals: parts whose files are read as they are, once `check_images` has found them whole.
        copies: see `prepare_images`.

    Raises:
        InvalidInput: images that cannot be read to their end (it names them), or a folder that cannot be written.
    """
    parts = dict(parts_of(dataset))
    for part in originals:
        check_images(parts[part], cache_dir)
    made: dict[str, Any] = {
        part: prepare_images(examples, cache_dir, shorter_side, copies=copies)
        for part, examples in parts.items()
        if part not in originals
    }
    return dataclasses.replace(dataset, **made)


def prepare_images(
    examples: Examples, cache_dir: str, shorter_side: int, boxes: bool = False, copies: str = COPIES[0]
) -> Examples:
    """Write copies with the shorter side `shorter_side`; return the examples as copies.

    Copies are RGB JPEG files of quality 95, resized bilinearly with antialiasing (torchvision's rule: the longer side
    is rounded down). An image with a smaller shorter side is enlarged, as the recipe of the thesis resizes all images
    to a shorter side of 256. The sources are read as `examples.reading` says. Copies have neither orientation nor
    profile, so the returned examples have the reading `STORED`.

    Compressed copies have quality 93 instead. They are other images, so figures differ a little.

    Args:
        examples: image files.
        cache_dir: folder for the copies and the sources' digests, made if need be; about 50 kB an image at 256.
        shorter_side: in pixels.
        boxes: crop to `examples.boxes` (left, top, right, bottom; exclusive) first.
        copies: `exact`, or `compressed` to smaller files.

    Returns:
        The examples, in the same order and without boxes: with the copies' paths.

    Raises:
        InvalidInput: images that cannot be read to their end (it names them), or a folder that cannot be written.
    """
    check_positive("shorter_side", shorter_side)
    check_choice("copies", copies, COPIES)
    if examples.paths is None or (boxes and examples.boxes is None):
        raise invalid("examples", received="no boxes" if boxes else "no paths", expected="image files (with boxes)")
    crops = examples.boxes if boxes else None
    sources = _Sources(examples, crops, cache_dir, shorter_side, copies)
    name = f"shorter_side_{shorter_side}" + ("_boxes" if boxes else "") + ("_compressed" if copies != "exact" else "")
    folder = os.path.join(cache_dir, "prepared", name)
    made = dataclasses.replace(examples, boxes=None, reading=Reading.STORED, paths=_made(sources, folder))
    mark_used(folder)
    return made


class _Sources:
    """Images to copy; `crops` are boxes `[images, 4]`, or None for whole images."""

    def __init__(
        self, examples: Examples, crops: np.ndarray | None, cache_dir: str, shorter_side: int, copies: str
    ) -> None:
        self.paths, self._reading = check_given("paths", examples.paths), examples.reading
        self._crops, self.shorter_side, self.copies = crops, shorter_side, copies
        self._quality = _COMPRESSED_QUALITY if copies == "compressed" else _QUALITY
        self._digests = content_digests(self.paths, cache_dir, reading=examples.reading)

    def copy_name(self, row: int) -> str:
        """Return `ab/stem-abcdef0123456789.jpg`, from a digest of all that affects the copy."""
        described = repr((self._digests[row].decode(), self._box(row), self._quality, _COPY_VERSION))
        digest = hashlib.sha256(described.encode()).hexdigest()
        stem = os.path.splitext(os.path.basename(self.paths[row]))[0][:40]
        return os.path.join(digest[:2], f"{stem}-{digest[:20]}.jpg")

    def copy(self, row: int) -> bytes:
        """Return a copy's contents, an RGB JPEG file of the resized image (bilinear, antialiased).

        Raises:
            InvalidInput: the file cannot be read to its end, or has changed; it names it.
        """
        source, box = self.paths[row], self._box(row)
        contents = read_regular_file(source)
        if content_digest(contents, self._reading) != self._digests[row].decode():
            expected = "one that does not change meanwhile"
            raise invalid("image file", received=source, expected=expected, fix="Begin again.")
        image = load_rgb(contents, source, self._reading)
        if box is not None:
            image = image.crop(_box_inside(image, box))
        image = image.crop(_longest_part(image, self.shorter_side))
        width, height = (scaled_side(side, min(image.size), self.shorter_side) for side in image.size)
        resized = image.resize((width, height), Image.Resampling.BILINEAR)
        if self._quality < _QUALITY:
            with contextlib.suppress(OSError):  # noise may need more room than Pillow gives this encoder
                return _encoded(resized, quality=self._quality, optimize=True)
        return _encoded(resized, quality=self._quality)

    def _box(self, row: int) -> Sequence[float] | None:
        return None if self._crops is None else self._crops[row].tolist()


def _made(sources: _Sources, folder: str) -> FileNames:
    """Announce and make missing copies; return the paths of all."""
    copies = FileNames(os.path.join(folder, sources.copy_name(row)) for row in range(len(sources.paths)))
    rows = _missing(copies)
    if len(rows):
        megabytes = len(rows) * _BYTES_AT_256[sources.copies] * (sources.shorter_side / 256) ** 2 / 1e6
        what = f"{len(rows):,} copies of images, about {max(1, megabytes):,.0f} MB"
        write_notice(f"{what}, are written to {folder} (python -m experiments.clean --cache removes them)")

    def prepare(row: int) -> None:
        _write(copies[row], sources.copy(row))

    run_image_jobs((functools.partial(prepare, row) for row in rows.tolist()), _DESCRIPTION, len(rows))
    return copies


def _missing(copies: FileNames) -> np.ndarray:
    """Return the rows of missing copies, one per file."""
    missing: list[int] = []
    for folder, rows in copies.by_folder():
        seen = set(os.listdir(folder)) if os.path.isdir(folder) else set()
        for row, name in zip(rows.tolist(), copies.base_names(rows)):
            if name not in seen:
                seen.add(name)
                missing.append(row)
    return np.array(sorted(missing), np.int64)


def _write(copy: str, contents: bytes) -> None:
    os.makedirs(os.path.dirname(copy), exist_ok=True)
    temporary = f"{copy}.{os.getpid()}.{threading.get_ident()}.part"
    try:
        with open(temporary, "wb") as file:
            file.write(contents)
        os.replace(temporary, copy)
    finally:
        if os.path.exists(temporary):
            os.unlink(temporary)


def _encoded(image: Image.Image, **settings: Any) -> bytes:  # noqa: ANN401
    encoded = io.BytesIO()
    image.save(encoded, "JPEG", **settings)
    return encoded.getvalue()


def _longest_part(image: Image.Image, shorter_side: int) -> tuple[int, int, int, int]:
    """Return the central box whose copy fits into a JPEG file."""
    longest = max(1, min(image.size) * _LONGEST_SIDE // shorter_side)
    width, height = (min(side, longest) for side in image.size)
    left, top = (image.width - width) // 2, (image.height - height) // 2
    return left, top, left + width, top + height


def _box_inside(image: Image.Image, box: Sequence[float]) -> tuple[int, int, int, int]:
    left, top = max(0, int(box[0])), max(0, int(box[1]))
    return left, top, max(left + 1, min(image.width, int(box[2]))), max(top + 1, min(image.height, int(box[3])))
