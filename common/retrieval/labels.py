"""Which gallery items are relevant for a query: those with a label in common."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from common.errors import InvalidInput, invalid

_BYTES_AT_ONCE = 2**26


class Relevance(Protocol):
    """The relevant gallery items of all queries.

    Attributes:
        query_order, gallery_order: integers `[queries]`, `[gallery]`; rows of equal numbers are probably near another.
    """

    query_order: np.ndarray
    gallery_order: np.ndarray

    def counts(self, without_self: bool) -> np.ndarray:
        """Count the gallery items that each query could find: `[queries]`."""

    def hits(self, rows: np.ndarray, neighbors: np.ndarray) -> np.ndarray:
        """Return which `neighbors` `[block, most]` of the queries `rows` are relevant; -1 is none."""

    def items(self, row: int) -> np.ndarray:
        """Return a query's relevant gallery rows, increasing; perhaps itself among them."""


class SameClass:
    """Relevance of one label each: equal class codes.

    Args:
        query_classes, gallery_classes: codes 0..C-1, `[queries]`, `[gallery]`.
    """

    def __init__(self, query_classes: np.ndarray, gallery_classes: np.ndarray) -> None:
        self.query_order, self.gallery_order = query_classes, gallery_classes
        self._by_class = np.argsort(gallery_classes, kind="stable")
        starts = np.arange(max(query_classes.max(initial=-1), gallery_classes.max(initial=-1)) + 2)
        self._starts = np.searchsorted(gallery_classes[self._by_class], starts)

    def counts(self, without_self: bool) -> np.ndarray:
        """See `Relevance`."""
        return np.diff(self._starts)[self.query_order] - without_self

    def hits(self, rows: np.ndarray, neighbors: np.ndarray) -> np.ndarray:
        """See `Relevance`."""
        return (self.gallery_order[neighbors] == self.query_order[rows, np.newaxis]) & (neighbors >= 0)

    def items(self, row: int) -> np.ndarray:
        """See `Relevance`."""
        label = self.query_order[row]
        return self._by_class[self._starts[label] : self._starts[label + 1]]


class SharedLabel:
    """Relevance of several labels each: at least one in common.

    Args:
        query_labels, gallery_labels: bools, `[queries, classes]`, `[gallery, classes]`; the same array: self-retrieval.
    """

    def __init__(self, query_labels: np.ndarray, gallery_labels: np.ndarray) -> None:
        self._queries, self._gallery = (np.packbits(labels, axis=1) for labels in (query_labels, gallery_labels))
        self.query_order, self.gallery_order = (labels.argmax(axis=1) for labels in (query_labels, gallery_labels))

    def counts(self, without_self: bool) -> np.ndarray:
        """See `Relevance`."""
        counts = np.array([len(self.items(row)) for row in range(len(self._queries))], np.int64)
        if without_self:
            counts -= (self._queries & self._gallery).any(axis=1)  # an image without labels does not find itself
        return counts

    def hits(self, rows: np.ndarray, neighbors: np.ndarray) -> np.ndarray:
        """See `Relevance`."""
        hits = neighbors >= 0
        step = max(1, _BYTES_AT_ONCE // max(1, neighbors.shape[1] * self._gallery.shape[1]))
        for start in range(0, len(rows), step):
            part = slice(start, start + step)
            shared = self._gallery[neighbors[part]] & self._queries[rows[part], np.newaxis]
            hits[part] &= shared.any(axis=2)
        return hits

    def items(self, row: int) -> np.ndarray:
        """See `Relevance`."""
        return np.flatnonzero((self._gallery & self._queries[row]).any(axis=1))


def relevance(
    query_embeddings: np.ndarray,
    query_labels: np.ndarray,
    gallery_embeddings: np.ndarray | None,
    gallery_labels: np.ndarray | None,
) -> Relevance:
    """Return the relevance that labels state, as `evaluate_retrieval` takes them.

    Raises:
        InvalidInput: labels of another type or shape, of two kinds, or without their embeddings.
    """
    sides = [query_labels] + ([] if gallery_labels is None else [gallery_labels])
    if not any(map(_is_matrix, sides)):
        return SameClass(*codes_of_both(query_embeddings, query_labels, gallery_embeddings, gallery_labels))
    nums = [len(side) for side in (query_embeddings, gallery_embeddings) if side is not None]
    if [len(side) for side in sides] != nums or not all(map(_is_matrix, sides)) or len({s.shape[1] for s in sides}) > 1:
        received = " and ".join(f"{np.asarray(side).dtype} {list(np.shape(side))}" for side in sides)
        expected = "bools [items, classes] for each embedding, of the same classes on both sides"
        raise invalid("labels", received=received, expected=expected)
    return SharedLabel(sides[0], sides[-1])


def _is_matrix(labels: np.ndarray) -> bool:
    return isinstance(labels, np.ndarray) and labels.dtype.kind == "b" and labels.ndim == 2


def integer_labels(name: str, labels: np.ndarray, num_items: int) -> np.ndarray:
    """Convert labels to an integer array.

    Labels that exceed 64 bits become an array of Python integers.

    Args:
        name: of the argument, for the error.
        labels: integers `[num_items]` or `[num_items, 1]`.
        num_items: how many there must be.

    Raises:
        InvalidInput: the labels are no integers, or not as many.
    """
    labels = labels if hasattr(labels, "dtype") else np.array(labels, dtype=object)
    labels = np.asarray(labels)
    labels = labels[:, 0] if labels.shape == (num_items, 1) else labels
    is_integer = labels.dtype.kind in "iu" or (
        labels.dtype.kind == "O" and all(isinstance(label, (int, np.integer)) for label in labels.ravel())
    )
    if not is_integer or labels.shape != (num_items,):
        raise invalid(
            name,
            received=f"{labels.dtype} array of shape {list(labels.shape)}",
            expected=f"integers [{num_items}], one for each embedding",
            fix="Of names: np.unique(labels, return_inverse=True)[1]. Of one-hot labels: np.argmax(labels, axis=1).",
        )
    return labels


def class_codes(name: str, labels: np.ndarray, num_items: int) -> np.ndarray:
    """Convert labels to codes 0..C-1 in the order of the labels: `[num_items]`.

    Raises:
        InvalidInput: as `integer_labels`, or -1 among them.
    """
    labels = integer_labels(name, labels, num_items)
    _check_labelled(name, labels, labels)
    return np.unique(labels, return_inverse=True)[1].ravel()


def codes_of_both(
    query_embeddings: np.ndarray,
    query_labels: np.ndarray,
    gallery_embeddings: np.ndarray | None,
    gallery_labels: np.ndarray | None,
) -> tuple[np.ndarray, np.ndarray]:
    """Convert the labels of queries and gallery to codes 0..C-1: `[queries]`, `[gallery]`.

    Without a gallery, the queries are the gallery.

    Raises:
        InvalidInput: as `integer_labels`, or embeddings of a gallery without labels, or labels without embeddings; or
            -1 on both sides, which usually marks items without a label: they would match one another.
    """
    if (gallery_embeddings is None) != (gallery_labels is None):
        raise InvalidInput(
            "Invalid gallery: received embeddings or labels alone, expected both (or none: self-retrieval)."
        )
    query_labels = integer_labels("query labels", query_labels, len(query_embeddings))
    if gallery_embeddings is None or gallery_labels is None:
        _check_labelled("query labels", query_labels, query_labels)
        codes = np.unique(query_labels, return_inverse=True)[1]
        return codes, codes
    gallery_labels = integer_labels("gallery labels", gallery_labels, len(gallery_embeddings))
    _check_labelled("query labels", query_labels, gallery_labels)
    if query_labels.dtype != gallery_labels.dtype:  # NumPy would make floats of int64 and uint64
        query_labels, gallery_labels = query_labels.astype(object), gallery_labels.astype(object)
    codes = np.unique(np.concatenate([query_labels, gallery_labels]), return_inverse=True)[1]
    return codes[: len(query_labels)], codes[len(query_labels) :]


def _check_labelled(name: str, labels: np.ndarray, gallery_labels: np.ndarray) -> None:
    unlabelled = int(np.sum(labels == -1))
    if unlabelled and np.any(gallery_labels == -1):
        received, fix = f"-1 for {unlabelled} of {len(labels)} items", "Leave items without one out."
        raise invalid(name, received=received, expected="a class for each", fix=fix)
