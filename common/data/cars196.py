"""Cars196 (Stanford Cars): 16,185 photographs of 196 models of cars."""

from __future__ import annotations

import os

import numpy as np
import scipy.io

from common.data.dataset import Dataset, Examples
from common.data.official_files import (
    OfficialRelease,
    existing_files,
    official_dataset,
    read_integer,
    split_by_class_order,
    wrong_annotation,
)
from common.errors import invalid

_COUNTS = {"train images": 8054, "train classes": 98, "test images": 8131, "test classes": 98}
_RELEASE = OfficialRelease(
    name="cars196",
    title="Cars196",
    download=(
        "Download car_ims.tgz (1.9 GB) and cars_annos.mat, which Stanford published at "
        "http://ai.stanford.edu/~jkrause/car196/ (described at https://ai.stanford.edu/~jkrause/cars/car_dataset.html; "
        "if it does not answer, take both from https://web.archive.org or another copy), and extract car_ims/ beside "
        "cars_annos.mat. The layout of the development kit (cars_train/, cars_test/, devkit/ and "
        "cars_test_annos_withlabels.mat) is read, too."
    ),
    folder="cars196",
    required=("car_ims/", "cars_annos.mat"),
    official_counts=_COUNTS,
)
_KIT = OfficialRelease(
    name="cars196",
    title="Cars196 with its development kit",
    download=_RELEASE.download,
    folder="stanford_cars",
    required=("cars_train/", "cars_test/", "devkit/cars_train_annos.mat", "devkit/cars_meta.mat"),
    official_counts=_COUNTS,
)
_KIT_TEST_ANNOTATIONS = "cars_test_annos_withlabels.mat"
_CORNERS = ("bbox_x1", "bbox_y1", "bbox_x2", "bbox_y2")


def load_cars196(data_dir: str | None, *, cache_dir: str | None = None, seed: int = 0) -> Dataset:
    """Load Cars196: the first 98 classes train, the others test.

    Two layouts of the release are read: `car_ims/` with `cars_annos.mat`, and `cars_train/` and `cars_test/` with the
    development kit. They have the same images in another order. The release's own division into train and test images,
    which mixes classes, is not used. Boxes are `[left, top, right, bottom]` in pixels, right and bottom exclusive.

    Args:
        data_dir: the folder with `car_ims/` and `cars_annos.mat`, or the one that holds it as `cars196/`; or the
            folder with `cars_train/`, `cars_test/`, `devkit/` and `cars_test_annos_withlabels.mat` (which may be in
            `devkit/`), or the one that holds it as `stanford_cars/`.
        cache_dir: not used.
        seed: not used; the split is official.

    Raises:
        InvalidInput: the data are not there, or an annotation is wrong; it names the entry.
    """
    if _KIT.is_at(data_dir) and not _RELEASE.is_at(data_dir):
        root = _KIT.find(data_dir)
        kit, beside = os.path.join(root, "devkit"), os.path.join(root, _KIT_TEST_ANNOTATIONS)
        test_path = beside if os.path.exists(beside) else os.path.join(kit, _KIT_TEST_ANNOTATIONS)
        rows = _read_annotations(os.path.join(kit, "cars_train_annos.mat"), "fname", "cars_train/")
        rows += _read_annotations(test_path, "fname", "cars_test/")
        names_file = os.path.join(kit, "cars_meta.mat")
    else:
        root = _RELEASE.find(data_dir)
        names_file = os.path.join(root, "cars_annos.mat")
        rows = _read_annotations(names_file, "relative_im_path")
    class_names = [str(name) for name in np.atleast_1d(_read_matlab(names_file, "class_names"))]
    num_train_classes, deviations = split_by_class_order(_RELEASE, len(class_names))

    labels = np.array([read_integer(place, number, 1, len(class_names)) - 1 for place, _, number, _ in rows], int)
    paths = existing_files(root, [path for _, path, _, _ in rows], [place for place, *_ in rows])
    boxes = np.array([box for *_, box in rows], np.int64).reshape(-1, 4)
    boxes[:, :2] -= 1  # the annotations count pixels from 1

    examples = Examples(labels=labels, paths=paths, boxes=boxes)
    trains = labels < num_train_classes
    return official_dataset(
        _RELEASE, examples.subset(trains), examples.subset(~trains), class_names, deviations=deviations
    )


def _read_annotations(path: str, path_field: str, folder: str = "") -> list[tuple[str, str, str, list[int]]]:
    """Return place, path, class and box of each image's annotation.

    Classes count from 1. Boxes are left, top, right and bottom; from 1, right and bottom included.
    """
    annotations = np.atleast_1d(_read_matlab(path, "annotations"))
    fields = (path_field, "class", *_CORNERS)
    missing = [field for field in fields if field not in (annotations.dtype.names or ())]
    if missing:
        raise wrong_annotation(path, f"no field {', '.join(missing)}", f"fields {', '.join(fields)}")
    name = os.path.basename(path)
    return [
        (f"{name}, annotation {number}", folder + str(row[path_field]), row["class"], [int(row[c]) for c in _CORNERS])
        for number, row in enumerate(annotations, start=1)
    ]


def _read_matlab(path: str, variable: str) -> np.ndarray:
    """Read a variable of a MATLAB file; errors name the file."""
    try:
        content = scipy.io.loadmat(path, squeeze_me=True, variable_names=(variable,))
    except Exception as error:  # noqa: BLE001 (a damaged file raises anything)
        raise invalid("annotation file", received=path, expected=f"the official MATLAB file ({error})") from error
    if variable not in content:
        raise wrong_annotation(path, f"no variable {variable}", f"{variable}, as in the official file")
    return content[variable]
