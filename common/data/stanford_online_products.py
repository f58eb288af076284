"""Stanford Online Products: 120,053 photographs of 22,634 products from eBay."""

from __future__ import annotations

import os

import numpy as np

from common.data.dataset import Dataset, Examples
from common.data.file_names import FileNames
from common.data.official_files import (
    OfficialRelease,
    existing_files,
    official_dataset,
    read_integer,
    read_rows,
    wrong_annotation,
)

_RELEASE = OfficialRelease(
    name="sop",
    title="Stanford Online Products",
    download=(
        "Download Stanford_Online_Products.zip (2.9 GB) from https://cvgl.stanford.edu/projects/lifted_struct/ (also "
        "ftp://cs.stanford.edu/cs/cvgl/Stanford_Online_Products.zip) and extract it: bicycle_final/ to toaster_final/ "
        "beside the two listings."
    ),
    folder="Stanford_Online_Products",
    required=("Ebay_train.txt", "Ebay_test.txt"),
    official_counts={"train images": 59551, "train classes": 11318, "test images": 60502, "test classes": 11316},
)
_NUM_CLASSES = 22634  # identifiers in the listings run from 1 to this


def load_stanford_online_products(data_dir: str | None, *, cache_dir: str | None = None, seed: int = 0) -> Dataset:
    """Load Stanford Online Products by its official listings `Ebay_train.txt` and `Ebay_test.txt`.

    Reference: Oh Song et al., "Deep metric learning via lifted structured feature embedding", 2016.

    Args:
        data_dir: the folder `Stanford_Online_Products/`, or the one that holds it.
        cache_dir: not used.
        seed: not used; the split is official.

    Raises:
        InvalidInput: the data are not there, or a listing is wrong; it names the file and the line.
    """
    root = _RELEASE.find(data_dir)
    train_ids, train_paths, train_names, _ = _read_listing(root, "Ebay_train.txt")
    test_ids, test_paths, test_names, test_places = _read_listing(root, "Ebay_test.txt")
    for shared in np.flatnonzero(np.isin(test_ids, train_ids))[:1]:
        raise wrong_annotation(
            test_places[shared], f"class {test_ids[shared]}", "a class that is not in Ebay_train.txt"
        )

    train_classes, first_train, train_labels = np.unique(train_ids, return_index=True, return_inverse=True)
    _, first_test, test_labels = np.unique(test_ids, return_index=True, return_inverse=True)
    class_names = [train_names[i] for i in first_train] + [test_names[i] for i in first_test]
    return official_dataset(
        _RELEASE,
        Examples(labels=train_labels, paths=train_paths),
        Examples(labels=test_labels + len(train_classes), paths=test_paths),
        class_names,
    )


def _read_listing(root: str, name: str) -> tuple[np.ndarray, FileNames, list[str], list[str]]:
    """Read a listing's class identifiers `[images]`, paths `[images]`, class names and row places."""
    rows = read_rows(os.path.join(root, name), num_columns=4, num_header_lines=1)
    if not rows:
        raise wrong_annotation(name, "no images", "a row for every image after the header")
    places = [place for place, _ in rows]
    class_ids = np.array([read_integer(place, class_id, 1, _NUM_CLASSES) for place, (_, class_id, _, _) in rows])
    relative_paths = [path for _, (_, _, _, path) in rows]
    kinds = [path.rpartition("/")[0].removesuffix("_final") for path in relative_paths]
    class_names = [f"{kind} {class_id}" for kind, class_id in zip(kinds, class_ids)]
    return class_ids, existing_files(root, relative_paths, places), class_names, places
