"""MNIST: 70,000 handwritten digits, 28 x 28 pixels."""

from __future__ import annotations

import gzip
import os
import zipfile
import zlib
from typing import Any

import numpy as np

from common.data.dataset import Dataset, Examples, check_official_counts, check_training_pairs
from common.errors import InvalidInput, invalid

DIGIT_SIZE = 28
NUM_DIGITS = 10

_IDX_FILES = {
    "train": ("train-images-idx3-ubyte", "train-labels-idx1-ubyte"),
    "test": ("t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"),
}
_KERAS_FILE = "mnist.npz"
_OFFICIAL_COUNTS = {"train images": 60_000, "train classes": 10, "test images": 10_000, "test classes": 10}
_FETCH_AGAIN = "Download the file again."
_DAMAGED = (OSError, EOFError, ValueError, KeyError, zlib.error, zipfile.BadZipFile, NotImplementedError)


def load_mnist(data_dir: str | None, *, cache_dir: str | None = None, seed: int = 0) -> Dataset:
    """Load MNIST from its four IDX files (or `.gz`), or Keras' `mnist.npz`.

    The official division: 60,000 digits train and 10,000 test. Unlike in the other data sets, the ten classes of the
    test set are those of the training set: only the images are unseen. `train` is for training; `test` holds the
    queries and, each without itself, the gallery; labels are the digits in both. The fair protocol trains and validates
    on disjoint classes, so it does not fit; figure 3.2 loads the digits itself.

    Args:
        data_dir: the folder of the files, or the one that holds it under the name `mnist`.
        cache_dir: not used.
        seed: not used; the division is official.

    Returns:
        Images `[examples, 28, 28, 1]` uint8, white on black.

    Raises:
        InvalidInput: a file is missing, cut off, or contradicts another one; it names the file.
    """
    del cache_dir, seed
    folder = _find(data_dir)
    keras_file = os.path.join(folder, _KERAS_FILE)
    read = _read_keras_file if os.path.exists(keras_file) else _read_idx_pair
    parts: dict[str, Any] = {part: read(folder, part) for part in ("train", "test")}
    class_names = tuple(str(digit) for digit in range(NUM_DIGITS))
    check_training_pairs(parts["train"], class_names, "training set of mnist")
    found = {f"{part} images": len(examples) for part, examples in parts.items()}
    found |= {f"{part} classes": examples.num_classes for part, examples in parts.items()}
    return Dataset(
        name="mnist",
        class_names=class_names,
        deviations=check_official_counts("mnist", _OFFICIAL_COUNTS, found),
        **parts,
    )


def _find(data_dir: str | None) -> str:
    """Return the folder with `mnist.npz` or an IDX file (others are then required)."""
    candidates = [] if data_dir is None else [data_dir, os.path.join(data_dir, "mnist")]
    names = [name for pair in _IDX_FILES.values() for name in pair]
    files = [_KERAS_FILE, *(name + ending for name in names for ending in ("", ".gz"))]
    for folder in candidates:
        if any(os.path.exists(os.path.join(folder, name)) for name in files):
            return folder
    raise invalid(
        "--data_dir",
        received=data_dir,
        expected=f"the folder of MNIST, or the one above, with {', '.join(names)}, each also as .gz, or {_KERAS_FILE}",
        fix=(
            "Download the four files (11 MB) from https://storage.googleapis.com/cvdf-datasets/mnist/, or let "
            "`tf.keras.datasets.mnist.load_data()` fetch mnist.npz into ~/.keras/datasets."
        ),
    )


def _read_idx_pair(folder: str, part: str) -> Examples:
    images_path, labels_path = (_idx_path(folder, name) for name in _IDX_FILES[part])
    images, labels = _read_idx(images_path, 3), _read_idx(labels_path, 1)
    return _examples(images, labels, images_path, labels_path)


def _idx_path(folder: str, name: str) -> str:
    for path in (os.path.join(folder, name), os.path.join(folder, f"{name}.gz")):
        if os.path.exists(path):
            return path
    raise _wrong_file(os.path.join(folder, name), "no such file", "a file of this name, or with .gz after it")


def _read_idx(path: str, num_dimensions: int) -> np.ndarray:
    """Read an IDX file: two zero bytes, type 8, rank, big-endian sizes, then bytes."""
    try:
        with gzip.open(path) if path.endswith(".gz") else open(path, "rb") as file:
            content = file.read()
    except _DAMAGED as error:
        raise _wrong_file(path, f"{type(error).__name__}: {error}", "a file that can be read to its end") from error
    magic = bytes([0, 0, 8, num_dimensions])
    header_size = 4 + 4 * num_dimensions
    if content[:4] != magic or len(content) < header_size:
        raise _wrong_file(
            path, f"{content[:4]!r} at its beginning", f"{magic!r}, an IDX file of {num_dimensions}-D bytes"
        )
    shape = np.frombuffer(content, ">u4", num_dimensions, offset=4).astype(np.int64)
    num_bytes, num_expected = len(content) - header_size, int(shape.prod())
    if num_bytes != num_expected:
        sizes = " x ".join(str(size) for size in shape)
        raise _wrong_file(path, f"{num_bytes:,} bytes of content", f"{num_expected:,}, as its header says ({sizes})")
    return np.frombuffer(content, np.uint8, offset=header_size).reshape(shape)


def _read_keras_file(folder: str, part: str) -> Examples:
    path = os.path.join(folder, _KERAS_FILE)
    try:
        with np.load(path, allow_pickle=False) as archive:
            images, labels = archive[f"x_{part}"], archive[f"y_{part}"]
    except _DAMAGED as error:
        expected = "an archive with x_train, y_train, x_test, y_test"
        raise _wrong_file(path, f"{type(error).__name__}: {error}", expected) from error
    return _examples(images, labels, f"{path}: x_{part}", f"{path}: y_{part}")


def _examples(images: np.ndarray, labels: np.ndarray, images_name: str, labels_name: str) -> Examples:
    if images.dtype != np.uint8 or images.shape[1:] != (DIGIT_SIZE, DIGIT_SIZE):
        received = f"{images.dtype} of shape {images.shape}"
        raise _wrong_file(images_name, received, f"bytes of shape (images, {DIGIT_SIZE}, {DIGIT_SIZE})")
    if labels.shape != images.shape[:1]:
        raise _wrong_file(
            labels_name, f"labels of shape {labels.shape}", f"{len(images)}, one for each of {images_name}"
        )
    if labels.dtype.kind not in "iu" or (labels.size and not (labels.min() >= 0 and labels.max() < NUM_DIGITS)):
        received = f"{labels.dtype} labels, {np.unique(labels)[:12].tolist()}"
        raise _wrong_file(labels_name, received, f"integers from 0 to {NUM_DIGITS - 1}")
    return Examples(labels, inputs=images[..., None])


def _wrong_file(name: str, received: str, expected: str) -> InvalidInput:
    return invalid(f"file of MNIST ({name})", received=received, expected=expected, fix=_FETCH_AGAIN)
