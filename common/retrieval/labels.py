"""Class labels of any integer type and size as consecutive codes."""

from __future__ import annotations

import numpy as np

from common.errors import InvalidInput, invalid


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


def codes_of_both(
    query_embeddings: np.ndarray,
    query_labels: np.ndarray,
    gallery_embeddings: np.ndarray | None,
    gallery_labels: np.ndarray | None,
) -> tuple[np.ndarray, np.ndarray]:
    """Convert the labels of queries and gallery to codes 0..C-1: `[queries]`, `[gallery]`.

    Without a gallery, the queries are the gallery.

    Raises:
        InvalidInput: as `integer_labels`, or embeddings of a gallery without labels, or labels without embeddings.
    """
    if (gallery_embeddings is None) != (gallery_labels is None):
        raise InvalidInput(
            "Invalid gallery: received embeddings or labels alone, expected both (or none: self-retrieval)."
        )
    query_labels = integer_labels("query labels", query_labels, len(query_embeddings))
    if gallery_embeddings is None or gallery_labels is None:
        codes = np.unique(query_labels, return_inverse=True)[1]
        return codes, codes
    gallery_labels = integer_labels("gallery labels", gallery_labels, len(gallery_embeddings))
    if query_labels.dtype != gallery_labels.dtype:  # NumPy would make floats of int64 and uint64
        query_labels, gallery_labels = query_labels.astype(object), gallery_labels.astype(object)
    codes = np.unique(np.concatenate([query_labels, gallery_labels]), return_inverse=True)[1]
    return codes[: len(query_labels)], codes[len(query_labels) :]
