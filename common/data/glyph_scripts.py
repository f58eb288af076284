"""Glyphs for two-stage training: some scripts train, others fine-tune, a third tests; no download."""

from __future__ import annotations

import os
import unicodedata
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from common.data.dataset import Dataset, Examples
from common.data.glyph_drawings import character_families, character_name, draw_glyphs, stem

GLYPH_SIZE = 32
TRAINING_SCRIPTS = ("GREEK", "CYRILLIC")
TEST_SCRIPTS = ("ARMENIAN", "GEORGIAN")
MIN_DRAWINGS = 8
_HELD_OUT = 6  # one drawing in so many of each class tests the classifier of the first stage


class DistinctDrawings(NamedTuple):
    """Distinct drawings of characters that have at least `MIN_DRAWINGS` of them.

    Attributes:
        images: `[drawings, 32, 32]` uint8.
        code_points: `[drawings]` int64.
    """

    images: np.ndarray
    code_points: np.ndarray

    def of(self, code_points: np.ndarray) -> Examples:
        """Return the examples of these characters, labelled by position."""
        chosen = np.isin(self.code_points, code_points)
        order = np.argsort(code_points)
        labels = order[np.searchsorted(code_points, self.code_points[chosen], sorter=order)]
        families = character_families(self.code_points)[chosen]
        return Examples(labels.astype(np.int64), inputs=self.images[chosen][..., None], families=families)


def load_glyph_scripts(data_dir: str | None = None, *, cache_dir: str | os.PathLike, seed: int = 0) -> Dataset:
    """Load Greek and Cyrillic characters to train, Armenian and Georgian ones to test.

    Latin characters and symbols are in neither: they are the first stage's (`load_latin_glyphs`). A network trained on
    them is to these data what an ImageNet network is to photographs of birds. Repeated drawings are dropped, and so are
    characters with fewer than eight left. Training classes come in random order of their stems, a letter beside its
    accented forms, so a fold of the fair protocol validates on untrained stems (except one at each of its ends).

    Args:
        data_dir: unused; every loader has this argument.
        cache_dir: where the drawings are kept.
        seed: of the classes' order.

    Returns:
        Images `[examples, 32, 32, 1]` uint8, white on black. There are no published figures on this data set.

    Raises:
        InvalidInput: matplotlib's fonts are missing, or the cache cannot be written.
    """
    del data_dir
    drawings = distinct_drawings(cache_dir)
    characters = np.unique(drawings.code_points)
    train_ids = _by_stems(_of_scripts(characters, TRAINING_SCRIPTS), seed)
    test_ids = _of_scripts(characters, TEST_SCRIPTS)
    train, test = drawings.of(train_ids), drawings.of(test_ids)
    test = replace(test, labels=test.labels + len(train_ids))
    return _dataset("glyph_scripts", train, test, np.concatenate([train_ids, test_ids]))


def load_latin_glyphs(data_dir: str | None = None, *, cache_dir: str | os.PathLike, seed: int = 0) -> Dataset:
    """Load all other characters, for a classifier: training and test share the classes.

    Args:
        data_dir: unused; every loader has this argument.
        cache_dir: where the drawings are kept.
        seed: of the division of each class's drawings; a sixth tests.

    Returns:
        Images `[examples, 32, 32, 1]` uint8, white on black.

    Raises:
        InvalidInput: matplotlib's fonts are missing, or the cache cannot be written.
    """
    del data_dir
    drawings = distinct_drawings(cache_dir)
    characters = np.unique(drawings.code_points)
    chosen = np.setdiff1d(characters, _of_scripts(characters, TRAINING_SCRIPTS + TEST_SCRIPTS))
    examples = drawings.of(chosen)
    place = np.empty(len(examples), np.int64)  # of each drawing among those of its class, in random order
    shuffled = np.random.default_rng(seed).permutation(len(examples))
    by_class = shuffled[np.argsort(examples.labels[shuffled], kind="stable")]
    sizes = np.bincount(examples.labels)
    place[by_class] = np.arange(len(examples)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    is_test = place % _HELD_OUT == 0
    return _dataset("glyphs_latin", examples.subset(~is_test), examples.subset(is_test), chosen)


def distinct_drawings(cache_dir: str | os.PathLike) -> DistinctDrawings:
    """Return the drawings of `draw_glyphs` without duplicates, keeping the first.

    Args:
        cache_dir: where the drawings are kept.

    Raises:
        InvalidInput: matplotlib's fonts are missing, or the cache cannot be written.
    """
    drawings = draw_glyphs(GLYPH_SIZE, cache_dir=cache_dir)
    flat = np.ascontiguousarray(drawings.images).reshape(len(drawings.images), -1)
    first = np.sort(np.unique(flat, axis=0, return_index=True)[1])
    images, code_points = drawings.images[first], drawings.code_points[first]
    characters, counts = np.unique(code_points, return_counts=True)
    kept = np.isin(code_points, characters[counts >= MIN_DRAWINGS])
    return DistinctDrawings(images[kept], code_points[kept])


def _of_scripts(code_points: np.ndarray, scripts: tuple[str, ...]) -> np.ndarray:
    """Return, in order, the characters with Unicode names starting with these words."""
    names = [unicodedata.name(chr(code_point), "") for code_point in code_points]
    return code_points[[name.partition(" ")[0] in scripts for name in names]]


def _by_stems(code_points: np.ndarray, seed: int) -> np.ndarray:
    stems = np.array([stem(code_point) for code_point in code_points])
    unique, of_each = np.unique(stems, return_inverse=True)
    rank = np.random.default_rng(seed).permutation(len(unique))
    return code_points[np.argsort(rank[of_each], kind="stable")]


def _dataset(name: str, train: Examples, test: Examples, code_points: np.ndarray) -> Dataset:
    return Dataset(
        name=name,
        train=train,
        test=test,
        class_names=[character_name(code_point) for code_point in code_points],
        kind="memory_images",
        native_size=GLYPH_SIZE,
        channels=1,
    )
