"""Photos whose nearest neighbours speak for another label."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from common import retrieval
from common.data.labels import label_text
from common.errors import check_positive, invalid

_NEIGHBORS = 50
_BLOCK = 1024


class LabelSuspects(NamedTuple):
    """Labelled rows, the most suspect first.

    Attributes:
        rows: `[judged]`, all rows with a label whose class has another row.
        scores: `[judged]`, similarity with the suggested class minus that with the own class; above 0, the other class
            is nearer.
        suggested: `[judged]`, the other class.
    """

    rows: np.ndarray
    scores: np.ndarray
    suggested: np.ndarray


def find_label_suspects(embeddings: np.ndarray, labels: Sequence[object], *, num_votes: int = 3) -> LabelSuspects:
    """Rank labelled rows by their nearness to another class.

    A row's similarity with a class is the mean of its cosines with the `num_votes` nearest other rows of that class.
    Other classes are judged by the 50 nearest rows; votes that are missing there count as the last of these. Each row
    is left out of its own class, so a class of one row cannot be judged. Rows without a label neither vote nor are
    judged. Time is that of an exact search.

    Args:
        embeddings: `[rows, dim]`, finite and not zero; brought to unit length.
        labels: `[rows]`, the class of each; None, a NaN or "" for none.
        num_votes: nearest rows of a class, positive.

    Raises:
        InvalidInput: other shapes, or fewer than two classes.

    Examples:
        >>> find_label_suspects(np.float32([[1, 0], [1, 0.1], [0, 1], [0.1, 1], [0, 1]]), list("aabba")).rows[:1]
        array([4])
    """
    check_positive("num_votes", num_votes)
    vectors = np.asarray(embeddings, np.float32)
    if vectors.ndim != 2 or len(labels) != len(vectors):
        received = f"embeddings {vectors.shape} and {len(labels)} labels"
        raise invalid("embeddings", received=received, expected="[rows, dim], and a label for each row")
    labelled = np.array([row for row, label in enumerate(labels) if label_text(label)], np.int64)
    classes, of_row = np.unique([labels[row] for row in labelled.tolist()], return_inverse=True)
    vectors = vectors[labelled]
    if len(classes) < 2:
        raise invalid("labels", received=f"{len(classes)} classes", expected="at least two")
    vectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    own = _own_similarity(vectors, of_row, num_votes)
    other, suggested = _best_other(vectors, of_row, num_votes)
    scores = other - own
    judged = np.flatnonzero(np.isfinite(scores))
    order = judged[np.argsort(-scores[judged], kind="stable")]
    return LabelSuspects(labelled[order], scores[order], classes[suggested[order]])


def _own_similarity(vectors: np.ndarray, of_row: np.ndarray, num_votes: int) -> np.ndarray:
    """Return each row's similarity with the other rows of its class; NaN if alone."""
    similarity = np.full(len(vectors), np.nan, np.float32)
    for members in np.split(np.argsort(of_row, kind="stable"), np.cumsum(np.bincount(of_row))[:-1]):
        votes = min(num_votes, len(members) - 1)
        for start in range(0, len(members) if votes else 0, _BLOCK):
            block = members[start : start + _BLOCK]
            cosines = vectors[block] @ vectors[members].T
            cosines[np.arange(len(block)), start + np.arange(len(block))] = -np.inf
            similarity[block] = np.partition(cosines, -votes, axis=1)[:, -votes:].mean(axis=1)
    return similarity


def _best_other(vectors: np.ndarray, of_row: np.ndarray, num_votes: int) -> tuple[np.ndarray, np.ndarray]:
    """Return each row's similarity with its nearest other class, and that class."""
    depth = min(_NEIGHBORS, len(vectors) - 1)
    neighbors = retrieval.find_nearest_neighbors(vectors, num_neighbors=depth, similarity="inner_product")
    best, suggested = np.full(len(vectors), np.nan, np.float32), np.zeros(len(vectors), np.int64)
    for row, found in enumerate(neighbors):
        cosines, classes = vectors[found] @ vectors[row], of_row[found]
        for each in np.unique(classes[classes != of_row[row]]):
            votes = cosines[classes == each][:num_votes]
            similarity = (votes.sum() + (num_votes - len(votes)) * cosines[-1]) / num_votes
            if not similarity <= best[row]:
                best[row], suggested[row] = similarity, each
    return best, suggested
