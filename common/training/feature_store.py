"""Stored activations of a network: float16, memory-mapped files, checked when opened.

Most activations behind a rectifier are zero (nine in ten of EfficientNet-lite0's). A file of them holds the others.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import logging
import os
import pathlib
import shutil
from collections.abc import Iterator

import numpy as np

from common.data.content_digests import content_digests
from common.data.image_jobs import cannot_write_cache
from common.errors import InvalidInput, invalid
from common.files import hold_lock, mark_used, remove_temporary_files, write_atomically, write_json

FORMAT = 1  # of the files, and of the inputs of their contents
_FILE_BYTES = 2**26  # about; an interruption loses one file's work
_DIGITS = 20
_log = logging.getLogger(__name__)


class FeatureStore:
    """Stored activations `[items, views, height, width, channels]` of one network.

    The store belongs to one data set. Its type is float16: numbers up to 65,504, with a relative error of at most 2^-11
    (.0005), and an absolute one of at most 3e-8 below 6e-5. Larger numbers are refused, never clipped. A file omits
    zeros where that makes it smaller. What is read has the same bits.

    A file holds some consecutive items. Its name ends in a digest of its contents and of everything that they depend
    on. So a damaged or foreign file is detected and rebuilt. Files are written whole, so an interrupted store resumes
    with the missing files.

    Args:
        folder: holds the stores of one data set.
        origin: everything that the activations depend on, JSON values: network, weights, data, views, image size, cut.
        num_items: images.
        item_shape: (views, height, width, channels), or (views, tokens, channels).

    Raises:
        InvalidInput: the folder cannot be written.
    """

    def __init__(self, folder: str | os.PathLike, origin: dict, num_items: int, item_shape: tuple[int, ...]) -> None:
        self.num_items, self.item_shape = num_items, tuple(int(size) for size in item_shape)
        self.origin = {**origin, "format": FORMAT, "dtype": "float16", "shape": [num_items, *self.item_shape]}
        self.digest = hashlib.sha256(json.dumps(self.origin, sort_keys=True).encode()).hexdigest()[:_DIGITS]
        self.path = pathlib.Path(folder) / self.digest
        self.items_per_file = max(1, _FILE_BYTES // self.bytes_of(1))
        self._maps: list[np.ndarray | _SparseItems] = []

    @property
    def num_files(self) -> int:
        """The number of files of a complete store."""
        return -(-self.num_items // self.items_per_file)

    @property
    def num_views(self) -> int:
        """The number of views of each item."""
        return self.item_shape[0]

    def bytes_of(self, num_items: int) -> int:
        """Return the most bytes that some items take on disk."""
        return num_items * int(np.prod(self.item_shape)) * 2

    def items_of(self, number: int) -> range:
        """Return the items of a file."""
        start = number * self.items_per_file
        return range(start, min(start + self.items_per_file, self.num_items))

    def missing(self) -> list[int]:
        """Return the numbers of missing files, after removing damaged and foreign ones.

        A removal is reported.
        """
        whole = self._whole_files()
        return [number for number in range(self.num_files) if number not in whole]

    def fill(self, missing: list[int], activations: Iterator[np.ndarray]) -> None:
        """Write missing files.

        Args:
            missing: numbers of files, ascending.
            activations: `[any, height, width, channels]` of these files' items and all of their views, item by item.

        Raises:
            InvalidInput: activations that float16 cannot hold, or an unwritable folder.
        """
        waiting = np.empty((0, *self.item_shape[1:]))
        for number in missing:
            values = np.empty((len(self.items_of(number)) * self.num_views, *self.item_shape[1:]), np.float16)
            filled = 0
            while filled < len(values):
                if not len(waiting):
                    waiting = next(activations)
                taken, waiting = np.split(waiting, [len(values) - filled])
                values[filled : filled + len(taken)] = _as_float16(taken)
                filled += len(taken)
            self._write(number, values.reshape(-1, *self.item_shape))

    @contextlib.contextmanager
    def filling(self) -> Iterator[None]:
        """Lock the store for filling, after waiting for another process."""
        with contextlib.ExitStack() as stack:
            try:
                self.path.mkdir(parents=True, exist_ok=True)
                stack.enter_context(hold_lock(self.path / "lock"))
                remove_temporary_files(self.path)
                write_json(self.path / "origin.json", self.origin)
            except OSError as error:
                raise cannot_write_cache(error) from error
            yield

    def open(self) -> None:
        """Map the files, which must be complete, into memory for `read`."""
        files = self._whole_files()
        stored = [np.load(files[number], mmap_mode="r") for number in range(self.num_files)]
        counts = [len(self.items_of(number)) for number in range(self.num_files)]
        self._maps = [
            _SparseItems(file, count, self.item_shape) if file.ndim == 1 else file
            for file, count in zip(stored, counts)
        ]
        mark_used(self.path)

    def read(self, items: np.ndarray, views: np.ndarray) -> np.ndarray:
        """Return activations float16 `[batch, height, width, channels]`.

        Items and views are `[batch]` each.
        """
        numbers, places = np.divmod(items, self.items_per_file)
        values = np.empty((len(items), *self.item_shape[1:]), np.float16)
        for row, (number, place, view) in enumerate(zip(numbers, places, views)):
            values[row] = self._maps[number][place, view]
        return values

    def _whole_files(self) -> dict[int, pathlib.Path]:
        found = sorted(self.path.glob("activations-*.npy"))
        whole = {}
        for path, content in zip(found, content_digests(found, self.path, what="features")):
            number = path.name.split("-")[1]
            if number.isdigit() and path.name == self._name(int(number), content.decode()):
                whole[int(number)] = path
            else:
                _log.warning("%s is damaged, or belongs elsewhere: it is removed and rebuilt.", path)
                path.unlink(missing_ok=True)
        return whole

    def _write(self, number: int, values: np.ndarray) -> None:
        contents = io.BytesIO()
        sparse = _sparse(values)
        np.save(contents, values if sparse is None else sparse)
        name = self._name(number, hashlib.sha256(contents.getbuffer()).hexdigest())
        try:
            write_atomically(self.path / name, lambda file: file.write(contents.getbuffer()))
        except OSError as error:
            raise cannot_write_cache(error) from error

    def _name(self, number: int, content: str) -> str:
        digest = hashlib.sha256(f"{self.digest} {number} {content}".encode()).hexdigest()
        return f"activations-{number:05d}-{digest[:_DIGITS]}.npy"


def _sparse(values: np.ndarray) -> np.ndarray | None:
    """Return items without their zeros, as 16-bit words.

    The items are float16, `[items, views, ...]`. The words hold, per view: the place of its last number (32 bits);
    then, per number: its distance to the one before it in its view; then the numbers. None: that would be no smaller,
    or a distance takes more than 16 bits.
    """
    bits = values.reshape(len(values) * values.shape[1], -1).view(np.uint16)
    if 2 * np.count_nonzero(bits) >= bits.size:
        return None
    rows, places = np.nonzero(bits)  # of the bits: -0.0 is kept
    steps = np.diff(places, prepend=-1)
    starts = np.flatnonzero(np.diff(rows, prepend=-1))
    steps[starts] = places[starts] + 1
    if steps.max(initial=0) >= 2**16:
        return None
    ends = np.searchsorted(rows, np.arange(len(bits)), side="right").astype(np.uint32)
    return np.concatenate([ends.view(np.uint16), steps.astype(np.uint16), bits[rows, places]])


class _SparseItems:
    """A file of `_sparse`, read as the array that it was made of."""

    def __init__(self, words: np.ndarray, num_items: int, item_shape: tuple[int, ...]) -> None:
        words = np.asarray(words)  # of a memory map, without that class's cost at each access
        self._num_views, self._shape = item_shape[0], item_shape[1:]
        start = 2 * num_items * self._num_views
        self._ends = np.append(np.uint32(0), words[:start].view(np.uint32))
        self._steps, numbers = np.split(words[start:], 2)
        self._numbers = numbers.view(np.float16)

    def __getitem__(self, place: tuple[int, int]) -> np.ndarray:
        row = place[0] * self._num_views + place[1]
        numbers = slice(self._ends[row], self._ends[row + 1])
        values = np.zeros(self._shape, np.float16)
        values.reshape(-1)[np.cumsum(self._steps[numbers], dtype=np.int64) - 1] = self._numbers[numbers]
        return values


def check_room(stores: list[FeatureStore], advice: str) -> int:
    """Return the bytes of missing files; refuse stores that do not fit.

    Args:
        stores: in one folder.
        advice: a sentence on how to need less room.

    Raises:
        InvalidInput: see above.
    """
    needed = sum(store.bytes_of(len(store.items_of(number))) for store in stores for number in store.missing())
    place = stores[0].path
    while not place.exists():
        place = place.parent
    free = shutil.disk_usage(place).free
    if needed > free:
        images, views = max(store.num_items for store in stores), max(store.num_views for store in stores)
        raise invalid(
            "--cache_dir",
            received=f"{place} with {free / 1e9:.1f} GB free",
            expected=f"room for {needed / 1e9:.1f} GB of cached features ({images:,} images, up to {views} views)",
            fix=advice,
        )
    return needed


def _as_float16(activations: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore"):
        half = activations.astype(np.float16)
    if not np.isfinite(half).all():
        largest = float(np.abs(activations).max())
        raise InvalidInput(
            f"The activations at the cut reach {largest:.4g}; float16, in which they are cached, ends at 65,504. "
            "Choose another place for --trained_from, or compute them at every step with --nocached_features."
        )
    return half
