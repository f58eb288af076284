"""Data set preparation: fetching, checking, manifests, and small copies."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Callable, Sequence
from typing import Any

from common import data
from common.commands.command_line import globs_in
from common.downloads import SOURCES, Acquired, acquire
from common.errors import InvalidInput, invalid, raise_all
from common.files import read_json, write_json, write_text
from experiments.parts.datasets import DATASETS, traits_of
from experiments.settings import build

SOURCE_OF = {  # whose published files a data set is made of
    **{name: name for name in SOURCES},
    **{name: known.source for name, known in DATASETS.items() if known.source},
}
LOADERS: dict[str, Callable[..., data.Dataset]] = {
    **{name: known.load for name, known in DATASETS.items() if known.source or known.custom},
    "mnist": data.load_mnist,
}
COLUMNS = ("path", "label", "split", "sha256", "bytes", "width", "height", "mode")


def prepare(
    name: str,
    data_dir: str,
    cache_dir: str,
    *,
    mirror: str | None = None,
    shorter_side: int = 256,
    copies: str | None = None,
    exclude: str | None = None,
) -> None:
    """Fetch a data set unless present, report, write its manifest, copy images.

    Files that must be fetched by hand, or that are damaged, are refused, and `copies` for a data set without copies.

    Args:
        data_dir: the folder of all data (or, for folder and manifest, of this one).
        shorter_side: of the small copies in pixels; 0: make none.
        copies: one of `data.COPIES`; None: exact.
        exclude: `--exclude` of a folder.
    """
    files: tuple[Acquired, ...] = ()
    try:
        dataset = load(name, data_dir, cache_dir, **_excluding(exclude))
    except InvalidInput:
        if name not in SOURCE_OF:
            raise
        # Missing or damaged; if damaged, nothing is fetched and the same error is raised again.
        files = acquire(SOURCES[SOURCE_OF[name]], data_dir, mirror=mirror)
        print("".join(f"{file.name}: {file.origin}; {file.check}\n" for file in files), end="")
        dataset = load(name, data_dir, cache_dir)
    if copies is not None and dataset.kind != "image_files":
        expected = f"no such flag for {dataset.name}, whose images are not copied"
        raise invalid("--copies", received=copies, expected=expected)
    inspection = report(dataset)
    print(f"Manifest: {', '.join(write_manifest(inspection, files, data_dir))}")
    if dataset.kind == "image_files" and shorter_side:
        cache = build.image_cache(dataset, cache_dir)
        data.with_copies(dataset, cache, shorter_side, copies=copies or data.COPIES[0])
    print(f"Ready: --dataset={name} --data_dir={data_dir}")


def check(name: str, data_dir: str, cache_dir: str, exclude: str | None = None) -> None:
    """Report on a data set, and raise all its errors as one."""
    problems: list[InvalidInput] = []
    collects = {"problems": problems} if traits_of(name).custom else {}
    report(load(name, data_dir, cache_dir, **collects, **_excluding(exclude)), problems)


def _excluding(exclude: str | None) -> dict[str, Any]:
    return {} if exclude is None else {"exclude": globs_in(exclude)}


def load(name: str, data_dir: str, cache_dir: str, **options: Any) -> data.Dataset:
    """Load a data set with its loader's default seed and options."""
    if not traits_of(name).custom:
        return LOADERS[name](data_dir, cache_dir=cache_dir, seed=0, **options)
    return data.without_small_classes(LOADERS[name](data_dir, single_images=True, **options), build.FEWEST_IMAGES)


def report(dataset: data.Dataset, problems: Sequence[InvalidInput] = ()) -> data.Inspection:
    """Read a whole data set, print the findings, and raise all problems."""
    inspection = data.inspect_dataset(dataset)
    print(inspection.describe())
    found = list(problems)
    if inspection.unreadable:
        skip = ", or train with --skip_unreadable" if traits_of(dataset.name).custom else ""
        found.append(
            InvalidInput(
                f"{len(inspection.unreadable)} files of {dataset.name} cannot be read, such as "
                f"{inspection.unreadable[0]}. Extract them again, or fetch the archive again{skip}."
            )
        )
    raise_all(found)
    return inspection


def write_manifest(inspection: data.Inspection, files: tuple[Acquired, ...], data_dir: str) -> list[str]:
    """Write the findings as JSON, and a list of images as CSV.

    Args:
        files: the published files that it was made of; if empty, those of an earlier manifest are kept.
        data_dir: a folder, or a file in it.

    Returns:
        The paths of the files, `<folder>/<data set>_manifest.json` and `.csv` (the latter for `--dataset=manifest`).
    """
    dataset = inspection.dataset
    folder = data_dir if os.path.isdir(data_dir) else os.path.dirname(data_dir)
    stem = os.path.join(folder, f"{dataset.name}_manifest")
    parts = {
        part: {"examples": len(examples), "classes": examples.num_classes, "sha256": inspection.digest(part)}
        for part, examples in data.parts_of(dataset)
    }
    published_files = [file._asdict() for file in files]
    published_files = published_files or (read_json(f"{stem}.json") or {}).get("published_files", [])
    summary = {
        "dataset": dataset.name,
        "deviations": list(dataset.deviations),
        "parts": parts,
        "published_files": published_files,
        "kinds_of_images": dict(inspection.modes),
        "same_in_two_parts": [[first.name, other.name] for first, other in inspection.shared],
        "same_within_a_part": inspection.num_repeated,
    }
    write_json(f"{stem}.json", summary)
    if dataset.kind != "image_files":
        return [f"{stem}.json"]
    text = io.StringIO()
    table = csv.writer(text)
    table.writerow(COLUMNS)
    for found in inspection.examples:
        label = dataset.class_names[found.label] if len(dataset.class_names) else found.label
        place = os.path.relpath(found.name, folder or ".")
        facts = (found.sha256, found.num_bytes, found.width, found.height, found.mode)
        table.writerow((place, label, found.part, *facts))
    write_text(f"{stem}.csv", text.getvalue())
    return [f"{stem}.json", f"{stem}.csv"]
