"""Decodes image files once before training on the originals, to name damaged ones."""

from __future__ import annotations

import functools
import hashlib
import os

from common.data.content_digests import content_digests
from common.data.dataset import Examples
from common.data.image_files import load_rgb
from common.data.image_jobs import cannot_write_cache, run_image_jobs

_VERSION = "1"  # of what is checked


def check_images(examples: Examples, cache_dir: str | os.PathLike) -> None:
    """Decode every image to its end, unless its contents were decoded before.

    Training decodes JPEG files in TensorFlow, which completes damaged ones with made-up pixels and reports nothing to
    the program. Prepared copies are made of whole images; originals used for training need this check.

    Args:
        examples: image files.
        cache_dir: keeps the files' digests, and that they were sound (an empty file in its folder `sound`).

    Raises:
        InvalidInput: images that cannot be read to their end (it names them), or a folder that cannot be written.
    """
    paths = examples.file_names
    contents = "".join(sorted({digest.decode() for digest in content_digests(paths, cache_dir).tolist()}))
    mark = os.path.join(cache_dir, "sound", hashlib.sha256(f"{_VERSION} {contents}".encode()).hexdigest())
    if os.path.exists(mark):
        return
    run_image_jobs((functools.partial(load_rgb, path, path) for path in paths), "checking images", len(paths))
    try:
        os.makedirs(os.path.dirname(mark), exist_ok=True)
        with open(mark, "w", encoding="ascii"):
            pass
    except OSError as error:
        raise cannot_write_cache(error) from error
