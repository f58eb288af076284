"""Copies among photos, found by what copies of some of them show."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import io
import os
import pathlib
import zipfile
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np
from PIL import Image, ImageDraw, ImageEnhance, ImageOps

from common.errors import InvalidInput, invalid
from common.files import write_atomically
from common.progress import progress_bar
from common.retrieval.exact_scale import unit_rows
from common.training.closed_forms import within_class_whitening
from photo_search.index import DuplicatePairs, EmbeddingIndex, ImageEmbedder, find_near_duplicates
from photo_search.photos.alignment import SIDE, agreement
from photo_search.photos.shown import jpeg_of, small_picture

FEWEST = 20  # photos that copies are made of
_MOST, _BACKGROUND = 100, 2_000  # photos that copies are made of, and others that give the axes
_RECALL = 0.99  # of copies, which the similarity alone is to find
_AGREEMENT = 0.95  # least correlation of copies
_PIXELS = 160  # of the longer side: small copies of a photo differ less from large ones
_TURNS = 4  # by 90 degrees
_SHRINKAGE = 0.1
_PHOTOS_AT_ONCE = 256

Copying = Callable[[Image.Image, np.random.Generator], Image.Image]


def _resized(image: Image.Image, rng: np.random.Generator) -> Image.Image:
    scale = rng.uniform(0.4, 0.8)
    return image.resize(
        (max(1, int(image.width * scale)), max(1, int(image.height * scale))), Image.Resampling.BILINEAR
    )


def _cropped(image: Image.Image, rng: np.random.Generator) -> Image.Image:
    left, top, right, bottom = rng.uniform(0, 0.2, 4) * [image.width, image.height, image.width, image.height]
    return image.crop((int(left), int(top), image.width - int(right), image.height - int(bottom)))


def _recompressed(image: Image.Image, rng: np.random.Generator) -> Image.Image:
    return Image.open(io.BytesIO(jpeg_of(image, int(rng.integers(30, 80)))))


def _brighter(image: Image.Image, rng: np.random.Generator) -> Image.Image:
    return ImageEnhance.Brightness(image).enhance(
        rng.uniform(1.15, 1.5) if rng.random() < 0.5 else rng.uniform(0.6, 0.85)
    )


def _turned(image: Image.Image, rng: np.random.Generator) -> Image.Image:
    return image.rotate(90 * int(rng.integers(1, 4)), expand=True)


def _tilted(image: Image.Image, rng: np.random.Generator) -> Image.Image:
    return image.rotate(rng.uniform(-15, 15), Image.Resampling.BILINEAR)


def _captioned(image: Image.Image, rng: np.random.Generator) -> Image.Image:
    place = tuple(rng.uniform(0, 0.8, 2) * image.size)
    captioned = image.copy()
    ImageDraw.Draw(captioned).text(place, "Sample", (255, 255, 255), font_size=max(8, image.height // 10))
    return captioned


COPYING: dict[str, Copying] = {
    "resized": _resized,
    "cropped": _cropped,
    "recompressed": _recompressed,
    "brighter": _brighter,
    "mirrored": lambda image, rng: ImageOps.mirror(image),
    "turned": _turned,
    "tilted": _tilted,
    "framed": lambda image, rng: ImageOps.expand(image, max(1, min(image.size) // 20), (255, 255, 255)),
    "captioned": _captioned,
}


class FoundCopies(NamedTuple):
    """Copies among photos, and how they were told from others.

    Attributes:
        pairs: that hold groups of copies together; similarities are cosines of whitened embeddings.
        threshold: least cosine.
        recall: share of the copies made for a check that are found.
        num_photos: photos that copies were made of.
        left_out: why photos could not be read, by path.
    """

    pairs: DuplicatePairs
    threshold: float
    recall: float
    num_photos: int
    left_out: dict[str, str]

    def sentence(self) -> str:
        """Describe the calibration."""
        return (
            f"Copies are at least {self.threshold:.4f} similar and agree pixel by pixel: so are "
            f"{100 * self.recall:.0f} % of {len(COPYING)} copies that were made of each of {self.num_photos} photos."
        )


def find_copies(
    paths: Sequence[str], embedder: ImageEmbedder, *, cache: str | None = None, batch_size: int = 16, seed: int = 0
) -> FoundCopies:
    """Find copies among photos by what copies that are made change.

    A photo is the mean of the embeddings of a small copy in four turns, whitened by the covariance within copies
    of a photo (`within_class_whitening`). Half of the copied photos give the covariance, the others the threshold,
    which 99 % of their copies reach. The eight nearest photos that reach it (more, if all eight are copies) are copies
    if the pictures also agree once one is laid upon the other, see `agreement`.

    Args:
        paths: of the photos, at least 20.
        embedder: of images.
        cache: a folder that keeps what is computed of unchanged photos; None for none.
        batch_size: images in a pass through the network.
        seed: of the sample and of the strength of copies.

    Raises:
        InvalidInput: too few photos that can be read, or a model of another input.
    """
    size = getattr(embedder, "image_size", None)
    if size is None:
        raise invalid("model", received="one without an image size", expected="a network of images")
    rng = np.random.default_rng(seed)

    def described(pictures: Iterable[Image.Image]) -> np.ndarray:
        small = [_small(each) for each in pictures]
        squares = np.stack([np.asarray(ImageOps.fit(each, (size, size))) for each in small])
        turns = [embedder.embed(np.rot90(squares, turn, (1, 2)), batch_size) for turn in range(_TURNS)]
        grey = [np.asarray(each.convert("L").resize((SIDE, SIDE), Image.Resampling.BOX)).ravel() for each in small]
        return np.concatenate([unit_rows(np.mean(turns, axis=0)), np.array(grey, np.float32) / 255], axis=1)

    known, left_out = _described_photos(paths, described, embedder.digest, cache)
    readable = np.array([row for row, path in enumerate(paths) if path in known], np.int64)
    if len(readable) < FEWEST:
        received = f"{len(readable)} that can be read"
        raise invalid("photos", received=received, expected=f"at least {FEWEST} that copies are made of")
    photos, grey = _parted(np.stack([known[paths[row]] for row in readable]))
    sample = rng.permutation(len(photos))[:_MOST]
    made = []
    for row in progress_bar(readable[sample].tolist(), desc="copies", unit="photo"):
        picture = small_picture(paths[row], 4 * _PIXELS)
        if isinstance(picture, str):
            raise InvalidInput(f"Cannot read {paths[row]} ({picture}).")
        made.append(described(copying(picture, rng) for copying in COPYING.values()))
    copies, grey_copies = _parted(np.concatenate(made))
    originals = np.repeat(sample, len(COPYING))
    half = len(sample) // 2 * len(COPYING)
    background = np.union1d(sample, rng.permutation(len(photos))[:_BACKGROUND])
    features = np.concatenate([photos[background], copies[:half]])
    classes = np.r_[background, originals[:half]]
    whitening = within_class_whitening(features, classes, min(photos.shape[1], len(features) - 1), _SHRINKAGE)
    vectors, checked = unit_rows(whitening(photos)).astype(np.float32), unit_rows(whitening(copies[half:]))
    cosines = (checked * vectors[originals[half:]]).sum(axis=1)
    threshold = float(np.quantile(cosines, 1 - _RECALL))
    agrees = agreement(grey[originals[half:]], grey_copies[half:]) >= _AGREEMENT
    recall = float((agrees & (cosines >= threshold)).mean())
    pairs = _agreeing_pairs(vectors, grey, threshold)
    pairs = pairs._replace(first=readable[pairs.first], second=readable[pairs.second])
    return FoundCopies(pairs, threshold, recall, len(sample), left_out)


def _agreeing_pairs(vectors: np.ndarray, grey: np.ndarray, threshold: float) -> DuplicatePairs:
    """Return the pairs of near vectors whose pictures agree."""
    index = EmbeddingIndex.build(vectors, range(len(vectors)))

    def nearest_rows(rows: np.ndarray, depth: int) -> np.ndarray:
        found = index.neighbors_of(rows, depth)
        neighbors = np.array(found.rows)
        query, place = np.nonzero(found.similarities >= threshold)
        agrees = agreement(grey[rows[query]], grey[neighbors[query, place]]) >= _AGREEMENT
        neighbors[query[~agrees], place[~agrees]] = -1
        return neighbors

    return find_near_duplicates(index.embeddings, threshold, nearest_rows=nearest_rows)


def _parted(described: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the embeddings `[rows, dim]` and the grey pictures."""
    return described[:, : -SIDE * SIDE].astype(np.float64), described[:, -SIDE * SIDE :].reshape(-1, SIDE, SIDE)


def _described_photos(
    paths: Sequence[str], described: Callable[[Iterable[Image.Image]], np.ndarray], digest: str, cache: str | None
) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """Describe photos by path, and say why others cannot be read."""
    known: dict[str, np.ndarray] = {}
    for file in pathlib.Path(cache).glob("*.npz") if cache else ():
        with contextlib.suppress(OSError, ValueError, KeyError, zipfile.BadZipFile), np.load(file) as archive:
            known |= zip(archive["keys"].tolist(), archive["described"])
    states = {path: os.stat(path) for path in paths if os.path.isfile(path)}
    keys = {path: f"{digest} {state.st_size} {state.st_mtime_ns} {path}" for path, state in states.items()}
    new = [path for path in paths if keys.get(path) not in known]
    left_out: dict[str, str] = {}
    with progress_bar(total=len(new), desc="turned photos", unit="image") as bar:
        for start in range(0, len(new), _PHOTOS_AT_ONCE):
            pictures = {path: small_picture(path, 4 * _PIXELS) for path in new[start : start + _PHOTOS_AT_ONCE]}
            left_out |= {path: found for path, found in pictures.items() if isinstance(found, str)}
            part = {path: found for path, found in pictures.items() if not isinstance(found, str)}
            if part:
                rows, names = described(part.values()), np.array([keys[path] for path in part])
                known |= zip(names.tolist(), rows)
                if cache:
                    name = hashlib.sha256(os.fsencode(names[0])).hexdigest()[:16]
                    save = functools.partial(np.savez, keys=names, described=rows)
                    write_atomically(os.path.join(cache, f"{name}.npz"), save)
            bar.update(len(pictures))
    return {path: known[keys[path]] for path in paths if keys.get(path) in known}, left_out


def _small(picture: Image.Image) -> Image.Image:
    small = picture.convert("RGB")
    small.thumbnail((_PIXELS, _PIXELS))
    return small
