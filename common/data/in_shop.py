"""In-shop clothes retrieval (DeepFashion): 52,712 photographs of 7,982 items, with queries and gallery apart."""

from __future__ import annotations

import os

import numpy as np

from common.data.dataset import Dataset, Examples
from common.data.official_files import (
    OfficialRelease,
    existing_files,
    official_dataset,
    read_rows,
    wrong_annotation,
)

_LISTING = "Eval/list_eval_partition.txt"
_RELEASE = OfficialRelease(
    name="inshop",
    title="the In-shop Clothes Retrieval Benchmark",
    download=(
        "Download Img/img.zip and Eval/list_eval_partition.txt of the In-shop Clothes Retrieval Benchmark from "
        "https://mmlab.ie.cuhk.edu.hk/projects/DeepFashion/InShopRetrieval.html and extract img.zip into Img/."
    ),
    folder="In-shop Clothes Retrieval Benchmark",
    required=("Img/", _LISTING),
    official_counts={
        "train images": 25882,
        "train classes": 3997,
        "query images": 14218,
        "query classes": 3985,
        "gallery images": 12612,
        "gallery classes": 3985,
    },
)
_PARTS = ("train", "query", "gallery")


def load_in_shop(data_dir: str | None, *, cache_dir: str | None = None, seed: int = 0) -> Dataset:
    """Load In-shop by its official partition: `test` holds queries, `gallery` their candidates.

    Reference: Liu et al., "DeepFashion: powering robust clothes recognition and retrieval with rich annotations", 2016.
    (The thesis prints 7,986 classes and 72,712 images; the counts beside it sum to 7,982 and 52,712.)

    Args:
        data_dir: the folder with `Img/` and `Eval/`, or the one that holds it under its official name.
        cache_dir: not used.
        seed: not used; the split is official.

    Raises:
        InvalidInput: the data are not there, or the partition is wrong; it names the file and the line.
    """
    root = _RELEASE.find(data_dir)
    rows = read_rows(os.path.join(root, _LISTING), num_columns=3, num_header_lines=2)
    if not rows:
        raise wrong_annotation(_LISTING, "no images", "a row for every image after two header lines")
    places = np.array([place for place, _ in rows])
    relative_paths, items, parts = (np.array(column) for column in zip(*(columns for _, columns in rows)))
    for wrong in np.flatnonzero(~np.isin(parts, _PARTS))[:1]:
        raise wrong_annotation(places[wrong], str(parts[wrong]), f"one of {', '.join(_PARTS)}")
    trains = parts == "train"
    train_items, test_items = np.unique(items[trains]), np.unique(items[~trains])
    for wrong in np.flatnonzero(~trains & np.isin(items, train_items))[:1]:
        raise wrong_annotation(places[wrong], str(items[wrong]), "an item that is not in the training part")

    paths = existing_files(os.path.join(root, "Img"), relative_paths.tolist(), places.tolist())
    labels = np.where(
        trains, np.searchsorted(train_items, items), len(train_items) + np.searchsorted(test_items, items)
    )
    train, query, gallery = (Examples(labels=labels[parts == part], paths=paths[parts == part]) for part in _PARTS)
    return official_dataset(_RELEASE, train, query, [*train_items.tolist(), *test_items.tolist()], gallery=gallery)
