"""Records of finished drawings by digest of their sources, and images by their content."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import pathlib
import re
from collections.abc import Sequence

import numpy as np
from PIL import Image

from common.files import read_json, write_atomically, write_json
from experiments.rows.rows import Row

READABLE = 0o644  # pages and images are for others, such as a web server of another account
_VERSION = 2  # of the drawings; a higher one redraws everything
_IMAGES, _RECORDS = "images", "drawings"
_OWN_NAME = re.compile(r"[0-9a-f]{20}\.png|[a-z]+-[0-9a-f]{20}\.json")


class Drawings:
    """The drawings of a report's folder, recorded as JSON (image names and texts)."""

    def __init__(self, folder: pathlib.Path):
        self.folder = folder
        self._used: set[str] = set()

    def record(self, kind: str, row: Row, options: Sequence, draw) -> dict:
        """Return a run's record, cached for the same result and options.

        `draw` makes it. A record with a true `"is_incomplete"` is not kept, so that it is tried again.
        """
        result = hashlib.sha256((row.folder / "result.json").read_bytes()).hexdigest()
        basis = json.dumps([_VERSION, kind, result, row.config, options], sort_keys=True)
        name = f"{kind}-{_digest(basis.encode())}.json"
        record = read_json(self.folder / _RECORDS / name)
        if record is None or not all((self.folder / image).exists() for image in images_in(record)):
            record = draw()
            if not record.get("is_incomplete"):
                write_json(self.folder / _RECORDS / name, record)
        self._used |= {name, *(pathlib.PurePosixPath(image).name for image in images_in(record))}
        return record

    def image(self, pixels: np.ndarray) -> str:
        """Write an image in 0..255, grey or RGB; return its relative path."""
        pixels = np.clip(np.rint(np.asarray(pixels, np.float64)), 0, 255).astype(np.uint8)
        file = io.BytesIO()
        Image.fromarray(pixels[..., 0] if pixels.shape[-1] == 1 else pixels).save(file, "PNG", optimize=True)
        name = f"{_IMAGES}/{_digest(file.getvalue())}.png"
        if not (self.folder / name).exists():
            write_atomically(self.folder / name, lambda target: target.write(file.getvalue()))
            (self.folder / name).chmod(READABLE)
        return name

    def remove_unused(self) -> None:
        """Remove unused drawings of earlier reports; other files stay."""
        for place in (_IMAGES, _RECORDS):
            for path in sorted((self.folder / place).glob("*")):
                if _OWN_NAME.fullmatch(path.name) and path.name not in self._used:
                    with contextlib.suppress(FileNotFoundError):
                        os.unlink(path)


def images_in(record) -> list[str]:
    """List the images of a record, under `"image"` at any depth."""
    if isinstance(record, dict):
        own = [record["image"]] if isinstance(record.get("image"), str) else []
        return own + [path for value in record.values() for path in images_in(value)]
    return [path for value in record for path in images_in(value)] if isinstance(record, list) else []


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:20]
