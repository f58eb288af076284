"""JSON answers of the page as dictionaries, computing one photo at a time."""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from experiments.photos.gallery import LARGE_SIDE, Gallery
from experiments.photos.network import Attention, PhotoNetwork
from experiments.photos.uploads import FORMATS, Crop, Refused, read_photo

MOST_NEIGHBOURS = 100
_CACHED_PICTURES = 512  # about 20 kB each


class Limits(NamedTuple):
    """Bounds on requests."""

    upload_bytes: int  # of a file
    pixels: int  # of a photo, width times height
    searches_per_minute: int  # over all clients


class PhotoService:
    """The answers to all requests; uploads need a network."""

    def __init__(self, gallery: Gallery, network: PhotoNetwork | None, limits: Limits) -> None:
        self.gallery, self.limits = gallery, limits
        self._network = network
        self._one_photo = threading.Lock()
        self._few_pictures = threading.Semaphore(2)
        self._cached = functools.lru_cache(_CACHED_PICTURES)(gallery.picture)

    def describe(self) -> dict[str, Any]:
        """Return the index, its classes, some of its photos, and the limits."""
        return {
            "index": self.gallery.name,
            "photos": len(self.gallery),
            "metric": self.gallery.index.metric,
            "classes": self.gallery.classes(),
            "columns": self.gallery.columns(),
            "examples": self.gallery.examples(),
            "takes_uploads": self._network is not None,
            "has_attention": self._network is not None and self._network.has_attention,
            "limits": {**self.limits._asdict(), "neighbours": MOST_NEIGHBOURS, "formats": FORMATS},
        }

    def search(
        self, contents: bytes, count: int, label: str | None, where: Sequence[str] = (), crop: Crop | None = None
    ) -> dict[str, Any]:
        """Find the neighbours of an uploaded photo, or of its upright part.

        `label` and `where`: see `Gallery.nearest`.
        """
        network = self._able_network()
        began = time.perf_counter()
        with self._one_photo:
            photo = self._decoded(network, contents, crop)
            found = self.gallery.nearest(network.embedding_of(photo), count, label, where)
            attention = network.attention_of(photo)
        return _answer({"row": None, "name": None, "label": "", "picture": None}, attention, found, began)

    def like(
        self, row: int, count: int, label: str | None, where: Sequence[str] = (), crop: Crop | None = None
    ) -> dict[str, Any]:
        """Find an indexed photo's neighbours, without itself; otherwise as `search`."""
        network = None if crop is None else self._able_network()
        began = time.perf_counter()
        with self._one_photo:
            if network is None:
                found = self.gallery.like(row, count, label, where)
                attention = self._attention_in(row)
            else:
                photo = self._decoded(network, self.gallery.contents(row), crop)
                found = self.gallery.like(row, count, label, where, network.embedding_of(photo))
                attention = network.attention_of(photo)
        return _answer(self.gallery.described(row), attention, found, began)

    def picture(self, row: int, large: bool = False) -> bytes:
        """Return a small (or large) copy of a photo of the index, as JPEG."""
        with self._few_pictures:
            return self.gallery.picture(row, LARGE_SIDE) if large else self._cached(row)

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
        if crop is None:
            return read_photo(contents, self.limits.pixels, network.exif_orientation)
        return crop.cut(read_photo(contents, self.limits.pixels))

    def _attention_in(self, row: int) -> Attention | None:
        if self._network is None or not self._network.has_attention:
            return None
        try:
            return self._network.attention_of(self._decoded(self._network, self.gallery.contents(row)))
        except Refused:  # the file is gone; the search needs only its embedding
            return None


def _answer(
    query: dict[str, Any], attention: Attention | None, found: list[dict[str, Any]], began: float
) -> dict[str, Any]:
    return {
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
