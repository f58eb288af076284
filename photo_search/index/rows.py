"""Rows of an index: embeddings with an id and possibly a label each."""

from __future__ import annotations

import json
import os
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, cast, overload

import numpy as np

from common.data.labels import label_text
from common.errors import invalid
from common.files import parsed_object


class Rows(NamedTuple):
    """The contents of an index, row by row, in memory or memory-mapped."""

    embeddings: np.ndarray  # [rows, dim] as stored
    ids: Sequence[str]
    labels: Sequence[str] | None
    digests: Sequence[str] | None = None  # of the file behind each row, "" if unknown; None in an older index
    metadata: Sequence[str] | None = None  # JSON objects of texts, "" for none; None in an older index


def new_rows(
    stored: np.ndarray,
    ids: Sequence[object],
    labels: Sequence[object] | None,
    present: Sequence[str],
    digests: Sequence[str] | None = None,
    metadata: Sequence[Mapping[str, str]] | None = None,
) -> Rows:
    """Return rows with ids, labels and metadata as text, after checks.

    Each row needs one, and ids must be unique. The label of a row may be none: see `label_text`.
    """
    texts = as_texts(ids)
    label_texts = None if labels is None else list(map(label_text, labels))
    described = None if metadata is None else metadata_texts(metadata)
    for name, values in (("ids", texts), ("labels", label_texts), ("digests", digests), ("metadata", described)):
        if values is not None and len(values) != len(stored):
            raise invalid(name, received=f"{len(values)} of them", expected=f"{len(stored)}, one for each embedding")
    known = set(present)
    for text in texts:
        if text in known:
            raise invalid("ids", received=f"{text!r} twice", expected="another id for each row")
        known.add(text)
    return Rows(stored, texts, label_texts, digests, described)


def exchanged(rows: Rows, removed: np.ndarray, new: Rows) -> Rows:
    """Return rows without the removed ones, and new ones behind them.

    They have labels if the new ones do.
    """
    count, gone = len(rows.embeddings), set(removed.tolist())
    kept = [row for row in range(count) if row not in gone]

    def column(known: Sequence[str] | None, added: Sequence[str] | None) -> list[str]:
        texts = [""] * count if known is None else list(known)
        return [*(texts[row] for row in kept), *(added or [""] * len(new.embeddings))]

    sources = np.array([*kept, *[-1] * len(new.embeddings)], np.int64)
    return Rows(
        merged_embeddings(rows.embeddings, new.embeddings, sources),
        column(rows.ids, new.ids),
        None if new.labels is None else column(rows.labels, new.labels),
        column(rows.digests, new.digests),
        column(rows.metadata, new.metadata),
    )


def metadata_texts(metadata: Iterable[Mapping[str, str]]) -> list[str]:
    """Return metadata as `Rows` hold them."""
    return [json.dumps(each) if each else "" for each in metadata]


def metadata_of(rows: Rows) -> list[dict[str, str]]:
    """Return the metadata of each row; empty for none.

    Raises:
        InvalidInput: a text that is no object.
    """
    found = [parsed_object(text) if text else {} for text in rows.metadata or [""] * len(rows.embeddings)]
    if None in found:
        row = found.index(None)
        raise invalid("metadata", received=f"damaged ones in row {row}", expected="an object", fix="Set them again.")
    return [each for each in found if each is not None]


def rows_where(rows: Rows, conditions: Mapping[str, Sequence[object]]) -> np.ndarray:
    """Return the rows that fulfil all conditions `[any]`, int64.

    Args:
        rows: to choose from.
        conditions: allowed values by column: "label", or a name in the metadata. "" is that of rows without any.

    Raises:
        InvalidInput: a column or value that no row has.
    """
    fulfilled = np.ones(len(rows.embeddings), bool)
    metadata = metadata_of(rows) if set(conditions) - {"label"} else []
    for name, values in conditions.items():
        present = list(map(_composed, rows.labels or ()) if name == "label" else _values(metadata, name))
        if name != "label" and not any(present):
            columns = ", ".join(["label", *sorted({each for row in metadata for each in row})])
            raise invalid("column", received=name, expected=f"one that the index has ({columns})")
        wanted = set(map(label_text, values))
        missing = wanted.difference(present)
        if missing:
            some = sorted(set(present))[:10]
            expected = f"one that the index has ({', '.join(some)}, ...)" if some else f"an index with {name}s"
            raise invalid(name, received=min(missing), expected=expected)
        fulfilled &= np.array([value in wanted for value in present], bool)
    return np.flatnonzero(fulfilled)


def _values(metadata: Iterable[Mapping[str, str]], name: str) -> Iterator[str]:
    return (_composed(each.get(name, "")) for each in metadata)


def _composed(text: str) -> str:
    """Return a text in the normal form of `label_text`; older indexes have others."""
    return text if text.isascii() else unicodedata.normalize("NFC", text)


def merged_embeddings(present: np.ndarray, new: np.ndarray, sources: Sequence[int] | np.ndarray) -> np.ndarray:
    """Arrange present and new embeddings in one order, gathered when a slice is read.

    So an index that is larger than the memory can be rewritten.

    Args:
        present: `[present, dim]`, perhaps memory-mapped.
        new: `[new, dim]`.
        sources: `[rows]`, int: a row of `present`, or -1 for the next of `new`.

    Returns:
        `[rows, dim]`; only its length and its slices may be used.

    Raises:
        InvalidInput: sources that are no rows, or with another number of new ones.
    """
    sources = np.asarray(sources, np.int64)
    is_valid = sources.ndim == 1 and (not len(sources) or -1 <= sources.min() <= sources.max() < len(present))
    if not is_valid or (sources < 0).sum() != len(new):
        expected = f"rows in [0, {len(present)}), and -1 for each of {len(new)} new embeddings"
        raise invalid("sources", received=sources, expected=expected)
    return cast("np.ndarray", _MergedEmbeddings(present, new, sources))


class _MergedEmbeddings:
    def __init__(self, present: np.ndarray, new: np.ndarray, sources: np.ndarray) -> None:
        self._present, self._new, self._sources = present, new, sources
        self._places = np.cumsum(sources < 0) - 1  # in `new`

    def __len__(self) -> int:
        return len(self._sources)

    def __getitem__(self, part: slice) -> np.ndarray:
        sources = self._sources[part]
        is_new = sources < 0
        gathered = np.empty((len(sources), self._present.shape[1]), self._present.dtype)
        gathered[~is_new] = self._present[sources[~is_new]]
        gathered[is_new] = self._new[self._places[part][is_new]]
        return gathered


class TextColumn(Sequence[str]):
    """Texts in memory-mapped files, one per row, decoded on demand.

    Args:
        content: uint8 `[bytes]`, all texts one after the other.
        ends: int64 `[rows]`, the end of each in `content`.
        root: a folder below which texts are paths, except absolute ones; "" for none.
    """

    def __init__(self, content: np.ndarray, ends: np.ndarray, root: str = "") -> None:
        self._content, self._ends, self._root = content, ends, root

    def __len__(self) -> int:
        return len(self._ends)

    def __iter__(self) -> Iterator[str]:
        content, start = self._content.tobytes(), 0
        for end in self._ends.tolist():
            yield self._text(content[start:end])
            start = end

    @overload
    def __getitem__(self, row: int) -> str: ...
    @overload
    def __getitem__(self, row: slice) -> list[str]: ...
    def __getitem__(self, row: int | slice) -> str | list[str]:
        if isinstance(row, slice):
            return [self[each] for each in range(*row.indices(len(self)))]
        row = range(len(self))[row]  # counts from the end, too; refuses missing rows
        start = int(self._ends[row - 1]) if row else 0
        return self._text(self._content[start : int(self._ends[row])].tobytes())

    def _text(self, content: bytes) -> str:
        text = content.decode("utf-8", "surrogateescape")
        return os.path.join(self._root, text) if self._root else text


def encoded(texts: Iterable[str], start: int = 0) -> tuple[bytes, np.ndarray]:
    """Return the bytes of texts, and their ends `[texts]`, int64.

    The first text begins at `start`. File names that are not UTF-8 (`os.fsdecode`) survive the round trip.
    """
    parts = [text.encode("utf-8", "surrogateescape") for text in texts]
    return b"".join(parts), start + np.cumsum([len(part) for part in parts], dtype=np.int64)


def below_root(ids: Iterable[str], root: str | None) -> list[str]:
    """Return ids as stored: relative to the root, if below it."""
    below = os.path.join(root or "", "")
    return [text[len(below) :] if root is not None and text.startswith(below) else text for text in ids]


def as_texts(values: Iterable[object]) -> list[str]:
    """Convert paths, labels or numbers to texts; NumPy integers become plain digits."""
    return [os.fspath(value) if isinstance(value, os.PathLike) else str(value) for value in values]
