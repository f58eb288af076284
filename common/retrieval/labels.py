"""Class labels of any integer type and size as consecutive codes."""

from __future__ import annotations

import numpy as np

from common.errors import invalid


def integer_labels(name: str, labels: np.ndarray, num_items: int) -> np.ndarray:
    """Convert labels to an integer array.

    Labels that exceed 64 bits become an array of Python integers.

    Args:
        name: of the argument, for the error.
        labels: integers `[num_items]`.
        num_items: how many there must be.

    Raises:
        InvalidInput: the labels are no integers, or not as many.
    """
    labels = labels if hasattr(labels, "dtype") else np.array(labels, dtype=object)
    labels = np.asarray(labels)
    is_integer = labels.dtype.kind in "iu" or (
        labels.dtype.kind == "O" and all(isinstance(label, (int, np.integer)) for label in labels.ravel())
    )
    if not is_integer or labels.shape != (num_items,):
        raise invalid(
            name,
            received=f"{labels.dtype} array of shape {list(labels.shape)}",
            expected=f"integers [{num_items}], one for each embedding",
        )
    return labels


def class_codes(name: str, labels: np.ndarray, num_items: int) -> np.ndarray:
    """Convert labels to codes 0..C-1 in the order of the labels: `[num_items]`.

    Raises:
        InvalidInput: as `integer_labels`.
    """
    return np.unique(integer_labels(name, labels, num_items), return_inverse=True)[1].ravel()
