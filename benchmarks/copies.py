"""Planted copies of photos, and which of them `dml search duplicates` finds.

Command: python -m benchmarks.copies --photos=FOLDER [--sample=1000] [--seed=0]

A random sample of the folder's photos gets copies of 120 of them, of each kind of `COPYING`. The command then searches
them without further flags and without a cache. A copy is found if its group has its photo. A pair of one group is right
if both are a photo and its copy, or copies of one photo; a group with strangers has other pairs. What the folder has
twice, such as two photos of one scene, counts as strangers, so precision is a lower bound.

Last line: one JSON object, shares in percent.
"""

from __future__ import annotations

import csv
import itertools
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable

import numpy as np
from absl import flags
from PIL import Image, ImageEnhance, ImageOps

from benchmarks import measure
from common.data import find_image_files
from common.data.image_files import load_rgb
from common.errors import invalid
from experiments.settings.flags import run_command


def _cut(image: Image.Image, left: float, right: float, height: float) -> Image.Image:
    """Cut shares of the width, and one of the height from both sides."""
    width, rows = image.size
    return image.crop((int(left * width), int(height * rows), width - int(right * width), rows - int(height * rows)))


COPYING: dict[str, Callable[[Image.Image], Image.Image]] = {
    "half size": lambda image: image.resize((max(1, image.width // 2), max(1, image.height // 2))),
    "cut by 5 %": lambda image: _cut(image, 0.05, 0.05, 0.05),
    "JPEG 60": lambda image: image,  # see `QUALITY`
    "brighter": lambda image: ImageEnhance.Brightness(image).enhance(1.3),
    "mirrored": ImageOps.mirror,
    "turned by 90": lambda image: image.rotate(90, expand=True),
    "turned by 10": lambda image: image.rotate(10, Image.Resampling.BICUBIC),
    "cut by 25 x 20 %": lambda image: _cut(image, 0.2, 0.05, 0.1),
}
QUALITY = {"JPEG 60": 60}  # of the others: 90
COPIED = 120  # photos


def plant(photos: list[str], folder: pathlib.Path) -> dict[str, tuple[str, str]]:
    """Copy photos to a folder, plant copies, return each file's photo and kind."""
    planted = {}
    for number, photo in enumerate(photos):
        original = f"{number:05}{pathlib.Path(photo).suffix}"
        shutil.copyfile(photo, folder / original)
        planted[original] = original, ""
        if number < COPIED:
            image = load_rgb((folder / original).read_bytes(), photo)
            for place, (kind, copying) in enumerate(COPYING.items()):
                name = f"{number:05}_{place}.jpg"
                copying(image).save(folder / name, quality=QUALITY.get(kind, 90))
                planted[name] = original, kind
    return planted


def found_groups(folder: str) -> list[list[str]]:
    """Return the names in each group that the command finds in `folder`/photos."""
    command = [sys.executable, "-m", "photo_search.search", "duplicates", "--images=photos", "--csv=found.csv"]
    root = str(pathlib.Path(__file__).resolve().parents[1])
    environment = {**os.environ, "PYTHONPATH": root, "XDG_CACHE_HOME": f"{folder}/cache"}
    print(subprocess.run(command, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True, check=True).stdout)
    groups = defaultdict(list)
    with open(f"{folder}/found.csv", newline="") as file:
        for row in csv.DictReader(file):
            groups[row["group"]].append(os.path.basename(row["path"]))
    return list(groups.values())


def judged(groups: list[list[str]], planted: dict[str, tuple[str, str]]) -> dict[str, float]:
    """Return recall by kind, precision, in percent, and counts of groups."""
    found = {name for group in groups for name in group if planted[name][0] in group}
    recall = {kind: [name in found for name, (_, own) in planted.items() if own == kind] for kind in COPYING}
    pairs = [[planted[a][0] == planted[b][0] for a, b in itertools.combinations(group, 2)] for group in groups]
    shares = {**recall, "recall": sum(recall.values(), []), "precision": sum(pairs, [])}
    figures = {name: 100 * float(np.mean(share)) for name, share in shares.items()}
    return {**figures, "groups": len(groups), "groups_with_strangers": sum(not all(group) for group in pairs)}


def main() -> None:
    """Plant copies, search, print the table and the figures."""
    values = flags.FLAGS
    photos = [path for path, _ in find_image_files(values.photos, "--photos")]
    if len(photos) < COPIED:
        raise invalid("--photos", received=f"{len(photos)} photos", expected=f"a folder of at least {COPIED}")
    chosen = np.random.default_rng(values.seed).permutation(len(photos))[: values.sample]
    with tempfile.TemporaryDirectory() as folder:
        os.mkdir(f"{folder}/photos")
        planted = plant([photos[row] for row in chosen], pathlib.Path(folder, "photos"))
        before = os.times()
        groups = found_groups(folder)
        spent = [after - began for began, after in zip(before, os.times())]
    figures = {"photos": len(chosen), **judged(groups, planted)}
    figures |= {"seconds": spent[4], "processor_seconds": spent[2] + spent[3]}
    measure.print_table(["figure", ""], [(name, f"{figure:.4g}") for name, figure in figures.items()])
    measure.print_figures(figures)


if __name__ == "__main__":
    flags.DEFINE_string("photos", None, "Folder of photos, which are only read.", required=True)
    flags.DEFINE_integer("sample", 1000, "Photos that are searched, chosen at random.", lower_bound=COPIED)
    flags.DEFINE_integer("seed", 0, "Of the sample.", lower_bound=0)
    run_command(main)
