"""JSON answers of the page, on photos of an index by row."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from common.data.image_formats import Reading
from common.data.labels import label_text
from common.data.regular_files import contents_of
from common.files import hold_lock, write_atomically
from photo_search.index import CalibratedRejection, EmbeddingIndex
from photo_search.page.network import Attention, PhotoNetwork
from photo_search.page.uploads import FORMATS, Crop, Refused, ending_of, read_photo
from photo_search.photos.neighbors import KNOWN, UNLIKE
from photo_search.photos.shown import jpeg_of, shown_text, small_picture

MOST_NEIGHBOURS = 100
MOST_TOGETHER = 10  # photos of one query
_LONGEST_LABEL = 100
_CACHED_PICTURES = 512  # about 20 kB each
PICTURE_SIDE, LARGE_SIDE = 320, 2048  # most pixels of a picture's longer side
_NUM_EXAMPLES = 12
_MOST_VALUES = 200  # of a column, for a list to choose from


class Limits(NamedTuple):
    """Bounds on requests."""

    upload_bytes: int  # of a file
    pixels: int  # of a photo, width times height
    searches_per_minute: int  # over all clients


class Seen(NamedTuple):
    """An uploaded photo, as the network sees it."""

    embedding: np.ndarray  # `[1, dim]`
    attention: Attention | None
    began: float  # by `time.perf_counter`


class PhotoService:
    """The answers to all requests; uploads need a network.

    Searches do not wait for the network, which takes all waiting photos together.

    Args:
        new_photos: the folder for photos that get a name on the page; None: the index stays as it is.
    """

    def __init__(
        self, gallery: Gallery, network: PhotoNetwork | None, limits: Limits, new_photos: str | None = None
    ) -> None:
        self.gallery, self.limits = gallery, limits
        self._network, self._new_photos = network, new_photos
        self._one_search = threading.Lock()
        self._one_photo = threading.Lock()  # decoded: each may have as many pixels as the limit allows
        self._few_pictures = threading.Semaphore(2)

    @contextlib.contextmanager
    def _present(self, version: str | None = None) -> Iterator[Gallery]:
        """Yield the photos that the index has now, which stay meanwhile.

        `version`: of the rows that a client names, see `Gallery`; None for the present ones.
        """
        with self._one_search:
            index = self.gallery.index
            index.refresh()
            if self.gallery.ids is not index.ids:
                self.gallery = self.gallery.anew()
            self.gallery.check_version(version)
            yield self.gallery

    def describe(self) -> dict[str, Any]:
        """Return the index, its classes, some of its photos, and the limits."""
        with self._present() as gallery:
            return {
                "index": gallery.name,
                "version": gallery.version,
                "photos": len(gallery),
                "metric": gallery.index.metric,
                "classes": gallery.classes(),
                "columns": gallery.columns(),
                "examples": gallery.examples(),
                "takes_uploads": self._network is not None,
                "takes_names": self._network is not None and self._new_photos is not None,
                "threshold": gallery.threshold(),
                "has_attention": self._network is not None and self._network.has_attention,
                "limits": {
                    **self.limits._asdict(),
                    "neighbours": MOST_NEIGHBOURS,
                    "together": MOST_TOGETHER,
                    "formats": FORMATS,
                },
            }

    def seen(self, contents: bytes, crop: Crop | None = None) -> Seen:
        """Embed an uploaded photo, or its upright part."""
        network, began = self._able_network(), time.perf_counter()
        photo = self._decoded(network, contents, crop)
        return Seen(network.embedding_of(photo), network.attention_of(photo), began)

    def search(
        self, photos: Sequence[Seen], count: int, label: str | None = None, where: Sequence[str] = ()
    ) -> dict[str, Any]:
        """Find the neighbours of an uploaded photo, or of several of one thing.

        `label` and `where`: see `Gallery.nearest`.
        """
        began = min(each.began for each in photos)
        with self._present() as gallery:
            embeddings = np.concatenate([each.embedding for each in photos])
            found = gallery.nearest(embeddings, count, label, where)
            verdict = gallery.verdict(embeddings, found if label is None and not where else None)
        query = {"row": None, "name": None, "label": "", "picture": None}
        return _answer(query, gallery, photos[0].attention if len(photos) == 1 else None, found, verdict, began)

    def like(
        self,
        row: int,
        count: int,
        label: str | None,
        where: Sequence[str] = (),
        crop: Crop | None = None,
        version: str | None = None,
    ) -> dict[str, Any]:
        """Find an indexed photo's neighbours, without itself; otherwise as `search`."""
        began, part = time.perf_counter(), None
        if crop is not None:
            self._able_network()
            with self._present(version) as gallery:
                version = gallery.version
            part = self.seen(gallery.contents(row), crop)
        with self._present(version) as gallery:
            found = gallery.like(row, count, label, where, None if part is None else part.embedding)
            embedding = gallery.vector(row) if part is None else part.embedding
            verdict = gallery.verdict(embedding, found if label is None and not where else None, without=row)
        attention = self._attention_in(gallery, row) if part is None else part.attention
        return _answer(gallery.described(row), gallery, attention, found, verdict, began)

    def add(self, contents: bytes, label: str) -> dict[str, Any]:
        """Add an uploaded photo to the index under a name.

        Its file is written to the folder of new ones.
        """
        if self._new_photos is None:
            raise Refused(403, "This page was started without --new_photos, so it takes no names.")
        name = label_text(label)
        if not name or len(name) > _LONGEST_LABEL or name[0] == "." or {*name} & {*"/\\"} or shown_text(name) != name:
            expected = f"up to {_LONGEST_LABEL} letters on one line, no slash, and no dot at the beginning"
            raise Refused(422, f"Received a name that is none; expected {expected}.")
        embedding = self.seen(contents).embedding
        digest = hashlib.sha256(contents).hexdigest()
        path = os.path.join(os.path.abspath(self._new_photos), name, f"{digest[:16]}.{ending_of(contents)}")
        os.makedirs(self._new_photos, exist_ok=True)
        # Workers of one page take turns: each sees what the others have added.
        with hold_lock(os.path.join(self._new_photos, ".lock")), self._present() as gallery:
            index = gallery.index
            if index.labels is None and len(index):
                raise Refused(409, "The index has no classes, so its photos have no names.")
            if digest in (index.digests or ()) or path in index.ids:
                raise Refused(409, "The index has this photo already.")
            os.makedirs(os.path.dirname(path), exist_ok=True)
            write_atomically(path, lambda file: file.write(contents))
            try:
                index.add(embedding, [path], [name], [digest])
            except BaseException:
                os.unlink(path)
                raise
            self.gallery = gallery.anew()
            return {"version": self.gallery.version, "photo": self.gallery.described(len(self.gallery) - 1)}

    def picture(self, row: int, large: bool = False, version: str | None = None) -> bytes:
        """Return a small (or large) copy of a photo of the index, as JPEG."""
        gallery = self.gallery
        gallery.check_version(version)
        with self._few_pictures:
            return gallery.picture(row, LARGE_SIDE) if large else gallery.small_picture(row)

    def warm_up(self) -> None:
        """Run the model once to build its graphs before the first photo."""
        if self._network is not None:
            photo = np.zeros((32, 32, 3), np.uint8)
            self._network.embedding_of(photo)
            self._network.attention_of(photo)

    def _able_network(self) -> PhotoNetwork:
        if self._network is None:
            raise Refused(409, "This page was started without --model, so it cannot embed photos.")
        return self._network

    def _decoded(self, network: PhotoNetwork, contents: bytes, crop: Crop | None = None) -> np.ndarray:
        # A part was chosen on the upright photo.
        reading = network.reading if crop is None else max(network.reading, Reading.UPRIGHT)
        with self._one_photo:
            photo = read_photo(contents, self.limits.pixels, reading)
        return photo if crop is None else crop.cut(photo)

    def _attention_in(self, gallery: Gallery, row: int) -> Attention | None:
        if self._network is None or not self._network.has_attention:
            return None
        try:
            return self._network.attention_of(self._decoded(self._network, gallery.contents(row)))
        except Refused:  # the file is gone; the search needs only its embedding
            return None


def _answer(
    query: dict[str, Any],
    gallery: Gallery,
    attention: Attention | None,
    found: list[dict[str, Any]],
    verdict: str | None,
    began: float,
) -> dict[str, Any]:
    return {
        "version": gallery.version,
        "verdict": verdict,
        "query": {**query, "attention": None if attention is None else _described(attention)},
        "neighbours": found,
        "seconds": round(time.perf_counter() - began, 3),
    }


def _described(attention: Attention) -> dict[str, Any]:
    weights = attention.weights
    return {
        "weights": weights.round(4).tolist(),
        "lowest": round(float(weights.min()), 4),
        "highest": round(float(weights.max()), 4),
        "overlay": attention.overlay(),
    }


def _unreadable(reason: str) -> Refused:
    return Refused(404, f"The file of this photo cannot be read: {reason}. It is searched all the same.")


class Gallery:
    """The page's view of an index; clients name photos by row, never by path.

    `version` is that of the rows: another one has other photos in them. Photos with more than `max_pixels` are not
    shown. `rejection_of` calibrates the verdict on a number of photos; None: no verdict.
    """

    def __init__(
        self,
        index: EmbeddingIndex,
        name: str,
        max_pixels: int,
        rejection_of: Callable[[int], CalibratedRejection | None] = lambda photos: None,
    ) -> None:
        self.index, self.name, self._max_pixels, self.rejection_of = index, name, max_pixels, rejection_of
        self.ids = index.ids  # of these rows, even where the index is refreshed
        self.version = hashlib.sha256("\0".join(self.ids).encode(errors="surrogatepass")).hexdigest()[:16]
        self.small_picture = functools.lru_cache(_CACHED_PICTURES)(self.picture)
        common = os.path.commonprefix([min(self.ids, default=""), max(self.ids, default="")])
        self._root = common.rfind(os.sep) + 1  # length of the paths' common folder, with its separator
        numbers: dict[str, int] = {}
        labels = index.labels or ()
        # Labels are compared as they are shown, which is how clients name them.
        self._classes = np.array([numbers.setdefault(shown_text(label), len(numbers)) for label in labels], np.int32)
        self._numbers = numbers
        metadata = index.metadata
        names = sorted({name for row in metadata for name in row})
        self._columns = {
            shown_text(name): np.array([shown_text(row.get(name, "")) for row in metadata], object) for name in names
        }

    def __len__(self) -> int:
        return len(self.ids)

    def anew(self) -> Gallery:
        """Return a view of the index as it is now."""
        return Gallery(self.index, self.name, self._max_pixels, self.rejection_of)

    def classes(self) -> list[dict[str, Any]]:
        """List the classes by name, with their numbers of labelled photos."""
        counts = np.bincount(self._classes, minlength=len(self._numbers))
        named = [(name, int(counts[number])) for name, number in self._numbers.items() if name]
        return [{"name": name, "photos": photos} for name, photos in sorted(named)]

    def columns(self) -> list[dict[str, Any]]:
        """List the columns of metadata with at most 200 values, and these values."""
        values_of = {name: sorted(set(values) - {""}) for name, values in self._columns.items()}
        return [{"name": name, "values": values} for name, values in values_of.items() if len(values) <= _MOST_VALUES]

    def examples(self) -> list[dict[str, Any]]:
        """Return some photos, evenly spaced over the index."""
        rows = np.unique(np.linspace(0, len(self) - 1, min(len(self), _NUM_EXAMPLES)).astype(int))
        return [self.described(row) for row in rows.tolist()]

    def nearest(
        self, embeddings: np.ndarray, count: int, label: str | None, where: Sequence[str] = ()
    ) -> list[dict[str, Any]]:
        """Return up to `count` photos nearest an embedding `[1, dim]`, nearest first.

        For several embeddings, those of one thing: one photo of each of the nearest classes.

        Only those of the class `label` and with all metadata of `where`, texts COLUMN=VALUE; others are refused.
        """
        return self._search(embeddings, count, self._chosen(label, where))

    def verdict(
        self, embeddings: np.ndarray, nearest: list[dict[str, Any]] | None, without: int | None = None
    ) -> str | None:
        """Say whether photos of one thing are unlike all of the index.

        None without a threshold. `nearest`: what was found among all photos; None: unknown.
        """
        rejection = self.rejection_of(len(embeddings))
        if rejection is None:
            return None
        if rejection.together < len(embeddings):  # classes are too small for groups of as many
            embeddings, nearest = embeddings[: rejection.together], None
        nearest = self._search(embeddings, 1, None, without) if nearest is None else nearest
        return KNOWN if nearest and nearest[0]["similarity"] >= rejection.threshold else UNLIKE

    def threshold(self) -> float | None:
        """Return the similarity below which a photo is unlike all of the index."""
        rejection = self.rejection_of(1)
        return None if rejection is None else rejection.threshold

    def vector(self, row: int) -> np.ndarray:
        """Return the embedding of a photo `[1, dim]`."""
        self.check_row(row)
        return self.index.vectors([row]).astype(np.float32)

    def like(
        self, row: int, count: int, label: str | None, where: Sequence[str] = (), part: np.ndarray | None = None
    ) -> list[dict[str, Any]]:
        """Return the nearest photos of an indexed photo or of its part."""
        query = self.vector(row)
        query = query if part is None else part
        return self._search(query, count, self._chosen(label, where), without=row)

    def described(self, row: int) -> dict[str, Any]:
        """Describe a photo; `picture` is None if its file is gone."""
        self.check_row(row)
        path = self.ids[row]
        label = "" if self.index.labels is None else shown_text(self.index.labels[row])
        picture = f"/api/photos/{row}/picture?version={self.version}" if os.path.isfile(path) else None
        return {"row": row, "name": shown_text(path[self._root :]), "label": label, "picture": picture}

    def picture(self, row: int, side: int = PICTURE_SIDE) -> bytes:
        """Return a JPEG of a photo with at most `side` pixels a side."""
        self.check_row(row)
        copy = small_picture(self.ids[row], side, self._max_pixels)
        if isinstance(copy, str):
            raise _unreadable(copy)
        return jpeg_of(copy)

    def contents(self, row: int) -> bytes:
        """Return a photo's file; refuse if it is gone."""
        self.check_row(row)
        contents = contents_of(self.ids[row])
        if isinstance(contents, str):
            raise _unreadable(contents)
        return contents

    def check_row(self, row: int) -> None:
        """Raise `Refused` unless the index has the row."""
        if not 0 <= row < len(self):
            raise Refused(404, f"Received row {row}; expected a number from 0 to {len(self) - 1}.")

    def check_version(self, version: str | None) -> None:
        """Raise `Refused` if a client names rows of another version."""
        if version not in (None, self.version):
            raise Refused(410, "The index has changed; reload the page.")

    def _chosen(self, label: str | None, where: Sequence[str]) -> np.ndarray | None:
        """Return the rows of a class with some metadata, or None for all."""
        if label is None and not where:
            return None
        rows = np.arange(len(self))
        if label is not None:
            if not label or label not in self._numbers:
                raise Refused(422, "Received a class that the index does not have; expected one of /api/index.")
            rows = np.flatnonzero(self._classes == self._numbers[label])
        for text in where:
            name, _, value = text.partition("=")
            if name not in self._columns or value not in self._columns[name]:
                raise Refused(422, "Received metadata that no photo has; expected COLUMN=VALUE, as /api/index lists.")
            rows = rows[self._columns[name][rows] == value]
        return rows

    def _search(
        self, query: np.ndarray, count: int, among: np.ndarray | None, without: int | None = None
    ) -> list[dict[str, Any]]:
        wanted = min(count + (without is not None), len(self) if among is None else len(among))
        if not wanted:
            return []
        search = self.index.search if len(query) == 1 else self.index.search_together
        found = search(query, wanted, among=among)
        rejection = self.rejection_of(len(query))
        threshold = -np.inf if rejection is None else rejection.threshold
        similarities = found.similarities[0].round(6).tolist()
        pairs = [pair for pair in zip(found.rows[0].tolist(), similarities) if pair[0] != without]
        return [
            {"rank": rank, "similarity": similarity, "far": similarity < threshold, **self.described(row)}
            for rank, (row, similarity) in enumerate(pairs[:count], 1)
        ]
