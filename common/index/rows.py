"""Rows of an index: embeddings with an id and possibly a label each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from common.errors import invalid
from common.index.text_column import as_texts


class Rows(NamedTuple):
    """The contents of an index, row by row, in memory or memory-mapped."""

    embeddings: np.ndarray  # [rows, dim] as stored
    ids: Sequence[str]
    labels: Sequence[str] | None


def new_rows(
    stored: np.ndarray, ids: Sequence[object], labels: Sequence[object] | None, present: Sequence[str]
) -> Rows:
    """Return rows with ids and labels as text, after checks.

    Each row needs one, and ids must be unique.
    """
    texts = as_texts(ids)
    label_texts = None if labels is None else as_texts(labels)
    for name, values in (("ids", texts), ("labels", label_texts)):
        if values is not None and len(values) != len(stored):
            raise invalid(name, received=f"{len(values)} of them", expected=f"{len(stored)}, one for each embedding")
    known = set(present)
    for text in texts:
        if text in known:
            raise invalid("ids", received=f"{text!r} twice", expected="another id for each row")
        known.add(text)
    return Rows(stored, texts, label_texts)
