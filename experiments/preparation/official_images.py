"""Synthetic images in the layouts and at the counts of the official data sets."""

from __future__ import annotations

import functools
import io
import operator
import os
import pathlib
from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
import scipy.io
from PIL import Image

from common.data.cars196 import RELEASE as CARS196
from common.data.cub200 import RELEASE as CUB200
from common.data.image_jobs import run_image_jobs
from common.data.in_shop import RELEASE as IN_SHOP
from common.data.official_files import OfficialRelease
from common.data.stanford_online_products import RELEASE as PRODUCTS
from common.errors import check_fraction
from common.files import write_atomically

FEWEST_CLASSES, _IMAGES_PER_CLASS = 32, 5  # at any scale: enough for four folds and for what PADS holds back
_KINDS = 12  # of products
_WIDTH, _HEIGHT, _GRID, _QUALITY = 112, 96, 6, 85
_CLASS_STREAM, _IMAGE_STREAM = 0, 1


class _Layout(NamedTuple):
    """Images `[images]` of a release by their paths, and its listings by path."""

    paths: list[str]
    listings: dict[str, bytes]


def make_official_images(name: str, data_dir: str | os.PathLike, scale: float) -> int:
    """Write synthetic images in the official layout of a data set; return their number.

    Each image is a JPEG file of 112 x 96 pixels, a pattern of its class with deviations of its own. Images that are
    there already stay; listings are written last, so an interrupted call can be repeated.

    Args:
        scale: share of the official classes and images, in (0, 1]; each part keeps 32 classes or more.
    """
    release, layout = LAYOUTS[name]
    parts = official_parts(release, check_fraction("--scale", scale))
    classes = np.concatenate([*parts.values()])
    found, root = layout(parts), pathlib.Path(data_dir) / release.folder
    if not all((root / listing).exists() for listing in found.listings):
        for folder in sorted({os.path.dirname(path) for path in found.paths}):
            (root / folder).mkdir(parents=True, exist_ok=True)
        places = zip(found.paths, classes.tolist())
        jobs = (functools.partial(_write, root / path, label, row) for row, (path, label) in enumerate(places))
        run_image_jobs(jobs, f"making images of {name}", len(classes))
        for listing, contents in found.listings.items():
            write_atomically(root / listing, operator.methodcaller("write", contents))
    return len(classes)


def official_parts(release: OfficialRelease, scale: float) -> dict[str, np.ndarray]:
    """Return the class `[images]` of each image by part; query and gallery share theirs."""
    counts, found, first = release.official_counts, {}, 0
    for part in ("train", "test", "query", "gallery"):
        official = counts.get(f"{part} classes")
        if official is not None:
            num_classes = max(round(scale * official), min(FEWEST_CLASSES, official))
            official_images = counts[f"{part} images"]
            fewest = min(_IMAGES_PER_CLASS * num_classes, round(official_images * num_classes / official))
            num_images = max(round(scale * official_images), fewest)
            found[part] = first + np.arange(num_images) * num_classes // num_images
            first += 0 if part == "query" else num_classes
    return found


def _write(path: pathlib.Path, label: int, row: int) -> None:
    """Write an image, a pattern of its class with deviations, unless it exists."""
    if path.exists():
        return
    shape = (_GRID, _GRID, 3)
    pattern = np.random.default_rng((_CLASS_STREAM, label)).uniform(40, 215, shape)
    pattern += np.random.default_rng((_IMAGE_STREAM, row)).normal(0, 20, shape)
    image = Image.fromarray(np.clip(pattern, 0, 255).astype(np.uint8))
    part = path.with_name(f".{path.name}.part")
    image.resize((_WIDTH, _HEIGHT), Image.Resampling.BILINEAR).save(part, "JPEG", quality=_QUALITY)
    os.replace(part, path)


def _products(parts: Mapping[str, np.ndarray]) -> _Layout:
    paths: list[str] = []
    listings = {}
    for part, classes in parts.items():
        rows = ["image_id class_id super_class_id path"]
        for label in classes.tolist():
            paths.append(f"kind{label % _KINDS}_final/{label + 1}_{len(paths)}.JPG")
            rows.append(f"{len(paths)} {label + 1} {label % _KINDS + 1} {paths[-1]}")
        listings[f"Ebay_{part}.txt"] = _lines(rows)
    return _Layout(paths, listings)


def _in_shop(parts: Mapping[str, np.ndarray]) -> _Layout:
    places = [(part, f"id_{label + 1:08d}") for part, classes in parts.items() for label in classes.tolist()]
    paths = [f"img/WOMEN/Dresses/{item}/{row:06d}_front.jpg" for row, (_, item) in enumerate(places)]
    rows = [f"{path} {item} {part}" for path, (part, item) in zip(paths, places)]
    listing = _lines([str(len(rows)), "image_name item_id evaluation_status", *rows])
    return _Layout([f"Img/{path}" for path in paths], {"Eval/list_eval_partition.txt": listing})


def _cars(parts: Mapping[str, np.ndarray]) -> _Layout:
    classes = np.concatenate([*parts.values()])
    fields = ("relative_im_path", "bbox_x1", "bbox_y1", "bbox_x2", "bbox_y2", "class", "test")
    annotations = np.zeros((1, len(classes)), dtype=[(field, object) for field in fields])
    paths = [f"car_ims/{row + 1:06d}.jpg" for row in range(len(classes))]
    for row, (path, label) in enumerate(zip(paths, classes.tolist())):
        annotations[0, row] = (path, 1, 1, _WIDTH, _HEIGHT, label + 1, 0)
    names = np.array([[f"Car {label}" for label in range(classes.max() + 1)]], dtype=object)
    file = io.BytesIO()
    scipy.io.savemat(file, {"annotations": annotations, "class_names": names})
    return _Layout(paths, {"cars_annos.mat": file.getvalue()})


def _birds(parts: Mapping[str, np.ndarray]) -> _Layout:
    classes = np.concatenate([*parts.values()]).tolist()
    names = [f"{label + 1:03d}.Bird" for label in range(max(classes) + 1)]
    paths = [f"{names[label]}/{row + 1:06d}.jpg" for row, label in enumerate(classes)]
    listings = {
        "images.txt": _lines([f"{row + 1} {path}" for row, path in enumerate(paths)]),
        "image_class_labels.txt": _lines([f"{row + 1} {label + 1}" for row, label in enumerate(classes)]),
        "classes.txt": _lines([f"{label + 1} {name}" for label, name in enumerate(names)]),
    }
    return _Layout([f"images/{path}" for path in paths], listings)


def _lines(rows: list[str]) -> bytes:
    return "".join(f"{row}\n" for row in rows).encode()


LAYOUTS: dict[str, tuple[OfficialRelease, Callable[[Mapping[str, np.ndarray]], _Layout]]] = {
    "sop": (PRODUCTS, _products),
    "inshop": (IN_SHOP, _in_shop),
    "cars196": (CARS196, _cars),
    "cub200": (CUB200, _birds),
}
