"""Emoji pasted on photographs: small objects among clutter."""

from __future__ import annotations

import dataclasses
import hashlib
import os
import pathlib
from collections.abc import Sequence

import numpy as np
from PIL import Image, ImageOps
from scipy import ndimage

from common.data.array_cache import cached_arrays
from common.data.dataset import Dataset
from common.data.emoji import EMOJI_SIZE, load_emoji
from common.errors import InvalidInput, invalid

_ENDINGS = (".jpg", ".jpeg", ".png", ".webp")
_VERSION = 1  # of the arrays; part of the cache's file name


def load_emoji_clutter(
    data_dir: str | None, *, cache_dir: str | os.PathLike, seed: int = 0, side: int = 32, name: str | None = None
) -> Dataset:
    """Load the emoji of `load_emoji`, each pasted on a photograph.

    The training emoji have other photographs than the test emoji; if there are too few, photographs repeat. An emoji is
    resized to between 3/4 and 5/4 of `side`, without its white background, and pasted at a random place.

    Args:
        data_dir: a folder with photographs, in any folders below it.
        cache_dir: where the images are kept (200 MB for each side).
        seed: of the division into classes, the photographs, places and sizes.
        side: mean height and width of an emoji in pixels, 16 to 76.
        name: of the data set; None: `emoji_clutter_<side>`.

    Returns:
        Images `[examples, 96, 96, 3]` uint8. `boxes` holds left, top, right and bottom of each emoji in pixels, right
        and bottom excluded. There are no published figures on this data set.

    Raises:
        InvalidInput: fewer than two readable photographs, another `side`, or the cache cannot be written.
    """
    if not 16 <= side <= EMOJI_SIZE * 4 // 5:
        raise invalid("side", received=side, expected=f"16 to {EMOJI_SIZE * 4 // 5} pixels")
    photographs = _photographs(data_dir)
    emoji = load_emoji(cache_dir=cache_dir, seed=seed)
    listed = "\n".join(f"{path.name} {path.stat().st_size}" for path in photographs)
    file_name = f"emoji_clutter_v{_VERSION}_{side}_{seed}_{hashlib.sha256(listed.encode()).hexdigest()[:12]}"

    def compose() -> dict[str, np.ndarray]:
        generator = np.random.default_rng((seed, side))
        order = [photographs[place] for place in generator.permutation(len(photographs))]
        halves = order[: len(order) // 2], order[len(order) // 2 :]
        parts = [
            _pasted(examples.arrays, paths, side, generator)
            for examples, paths in zip((emoji.train, emoji.test), halves)
        ]
        images, boxes = (np.concatenate(arrays) for arrays in zip(*parts))
        return {"images": images, "boxes": boxes}

    arrays = cached_arrays(cache_dir, file_name, ("images", "boxes"), compose)
    count = len(emoji.train)
    return dataclasses.replace(
        emoji,
        name=name or f"emoji_clutter_{side}",
        train=dataclasses.replace(emoji.train, inputs=arrays["images"][:count], boxes=arrays["boxes"][:count]),
        test=dataclasses.replace(emoji.test, inputs=arrays["images"][count:], boxes=arrays["boxes"][count:]),
    )


def _photographs(data_dir: str | None) -> list[pathlib.Path]:
    if data_dir is None:
        raise InvalidInput("Missing data_dir: received none, expected a folder with photographs to paste the emoji on.")
    found = sorted(path for path in pathlib.Path(data_dir).rglob("*") if path.suffix.lower() in _ENDINGS)
    if len(found) < 2:
        expected = f"a folder with at least two photographs ({', '.join(_ENDINGS)})"
        raise invalid("data_dir", received=f"{data_dir} with {len(found)}", expected=expected)
    return found


def _pasted(
    drawings: np.ndarray, photographs: Sequence[pathlib.Path], side: int, generator: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Paste each drawing on the next photograph; return images and boxes."""
    images, boxes = np.empty_like(drawings), np.empty((len(drawings), 4), np.int64)
    for place, drawing in enumerate(drawings):
        photograph = _square(photographs[place % len(photographs)])
        size = int(generator.integers(side * 3 // 4, side * 5 // 4 + 1))
        left, top = (int(corner) for corner in generator.integers(0, EMOJI_SIZE - size + 1, 2))
        cut_out = Image.fromarray(_cut_out(drawing), "RGBA").resize((size, size), Image.Resampling.BICUBIC)
        photograph.paste(cut_out, (left, top), cut_out)
        images[place], boxes[place] = np.asarray(photograph), (left, top, left + size, top + size)
    return images, boxes


def _square(path: pathlib.Path) -> Image.Image:
    """Read a photograph and crop its center to 96 x 96."""
    try:
        with Image.open(path) as image:
            return ImageOps.fit(image.convert("RGB"), (EMOJI_SIZE, EMOJI_SIZE), Image.Resampling.BICUBIC)
    except (OSError, ValueError) as error:
        raise invalid(
            "photograph", received=f"{path}, which cannot be read", expected="an image", fix=str(error)
        ) from error


def _cut_out(drawing: np.ndarray) -> np.ndarray:
    """Return a drawing `[height, width, 4]` whose white background is transparent."""
    regions, _ = ndimage.label((drawing >= 250).all(axis=-1))
    border = np.concatenate([regions[0], regions[-1], regions[:, 0], regions[:, -1]])
    background = np.isin(regions, border[border > 0])
    return np.dstack([drawing, np.where(background, 0, 255).astype(np.uint8)])
