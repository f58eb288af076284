"""Start of a run on a large data set: listing, fingerprint, prepared copies.

Command: python -m benchmarks.data_set_start [--images=200000] [--repeats=5]

Creates the given number of images of 8 x 8 pixels in folders of 100 and prepares them once. Then it repeats the work of
every later start:

- `listing`: finds the class folders and their images.
- `fingerprint`: asks the file system for each image's size and times, takes its digest from the last start, and adds.
- `copies`: looks up each image's prepared copy, by its contents.
- `shards`: the same for copies kept in shards.
- `bare stat`: only `os.stat` of each image by its path, in Python: the lower limit for a look at every file.

All take turns. Memory is the peak above the level before, including the result. Last line: one JSON object.

`listing_over_stat`, `fingerprint_over_stat`, `copies_over_stat`, `shards_over_stat`: processor time over that of the
bare stat.
`..._seconds_per_million`: processor time; `..._mb_per_million`: peak memory in MB (10^6 bytes), per million images.
"""

from __future__ import annotations

import argparse
import io
import os
import pathlib
import statistics
import tempfile
from collections.abc import Callable

import numpy as np
from PIL import Image

from benchmarks.measure import paired_clocks, paired_ratio, peak_growth_gb, print_figures, print_table
from common.data import load_image_folder
from common.data.dataset_fingerprint import dataset_fingerprint
from common.data.prepared_images import prepare_images

IMAGES_PER_CLASS, SIDE = 100, 8


def main() -> None:
    """Make the images, measure the starts, and print table and figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=200_000, help="images, at least 400")
    parser.add_argument("--repeats", type=int, default=5, help="rounds")
    options = parser.parse_args()
    if options.images < 4 * IMAGES_PER_CLASS:
        parser.error(f"--images={options.images}: expected at least {4 * IMAGES_PER_CLASS}")
    with tempfile.TemporaryDirectory() as folder:
        write_images(pathlib.Path(folder) / "images", options.images // IMAGES_PER_CLASS)
        parts = parts_of_start(os.path.join(folder, "images"), os.path.join(folder, "cache"))
        for part in parts.values():
            part()
        megabytes = {name: 1e3 * peak_growth_gb(part)[1] for name, part in parts.items()}
        _, clocks = paired_clocks(parts, options.repeats)
    report(clocks, megabytes, options.images // IMAGES_PER_CLASS * IMAGES_PER_CLASS)


def write_images(folder: pathlib.Path, num_classes: int) -> None:
    """Write class folders of `IMAGES_PER_CLASS` distinct PNG files.

    251 pictures alternate; a number makes each file distinct.
    """
    rng = np.random.default_rng(0)
    contents = []
    for _ in range(251):
        file = io.BytesIO()
        Image.fromarray(rng.integers(0, 256, (SIDE, SIDE, 3), dtype=np.uint8)).save(file, "PNG")
        contents.append(file.getvalue())
    for number in range(num_classes):
        class_folder = folder / f"class_{number:06d}"
        class_folder.mkdir(parents=True)
        for image in range(IMAGES_PER_CLASS):
            path = class_folder / f"photograph_{image:08d}.png"
            place = IMAGES_PER_CLASS * number + image
            path.write_bytes(contents[place % len(contents)] + place.to_bytes(8, "little"))


def parts_of_start(folder: str, cache_dir: str) -> dict[str, Callable[[], object]]:
    """Return the parts of a start by name.

    A first call of each prepares the later ones.
    """
    dataset = load_image_folder(folder)
    images = (dataset.train, dataset.test)

    def stat_all() -> None:
        for examples in images:
            for path in examples.file_names:
                os.stat(path)

    return {
        "listing": lambda: load_image_folder(folder),
        "fingerprint": lambda: dataset_fingerprint(dataset, cache_dir),
        "copies": lambda: [prepare_images(examples, cache_dir, SIDE) for examples in images],
        "shards": lambda: [prepare_images(examples, cache_dir, SIDE, copies="shards") for examples in images],
        "bare stat": stat_all,
    }


def report(clocks: dict[str, list[float]], megabytes: dict[str, float], num_images: int) -> None:
    """Print the table and the figures.

    Args:
        clocks: by part, processor seconds of each round.
        megabytes: by part, peak memory.
        num_images: number of images in the data set.
    """
    millions = num_images / 1e6
    seconds = {name: statistics.median(rounds) for name, rounds in clocks.items()}
    ratios = {name: paired_ratio(rounds, clocks["bare stat"]) for name, rounds in clocks.items()}
    rows = [
        (name, f"{seconds[name] / millions:.3g}", f"{ratios[name]:.2f}", f"{megabytes[name] / millions:.0f}")
        for name in clocks
    ]
    print_table((f"start, {num_images:,} images", "processor s per million", "over stat", "MB per million"), rows)
    figures: dict[str, float] = {}
    for name in ("listing", "fingerprint", "copies", "shards"):
        figures[f"{name}_over_stat"] = ratios[name]
        figures[f"{name}_seconds_per_million"] = seconds[name] / millions
        figures[f"{name}_mb_per_million"] = megabytes[name] / millions
    print_figures(figures)


if __name__ == "__main__":
    main()
