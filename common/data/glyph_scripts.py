"""Glyphs for two-stage training: some scripts train, others fine-tune, a third tests; no download."""

from __future__ import annotations

import os
import unicodedata

import numpy as np

from common.data.dataset import Dataset, Examples
from common.data.glyph_drawings import GlyphDrawings, character_families, character_name, draw_glyphs, stem

GLYPH_SIZE = 32
TRAINING_SCRIPTS = ("GREEK", "CYRILLIC")
TEST_SCRIPTS = ("ARMENIAN", "GEORGIAN")
MIN_DRAWINGS = 8
_HELD_OUT = 6  # one drawing in so many of each class tests the classifier of the first stage


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
    class_ids = np.concatenate([train_ids, test_ids])
    examples = _examples(drawings, class_ids)
    is_training = examples.labels < len(train_ids)
    names = [character_name(code_point) for code_point in class_ids]
    return Dataset("glyph_scripts", examples.subset(is_training), examples.subset(~is_training), class_names=names)


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
    examples = _examples(drawings, chosen)
    place = np.empty(len(examples), np.int64)  # of each drawing among those of its class, in random order
    shuffled = np.random.default_rng(seed).permutation(len(examples))
    by_class = shuffled[np.argsort(examples.labels[shuffled], kind="stable")]
    sizes = np.bincount(examples.labels)
    place[by_class] = np.arange(len(examples)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    is_test = place % _HELD_OUT == 0
    names = [character_name(code_point) for code_point in chosen]
    return Dataset("glyphs_latin", examples.subset(~is_test), examples.subset(is_test), class_names=names)


def distinct_drawings(cache_dir: str | os.PathLike) -> GlyphDrawings:
    """Return the drawings of `draw_glyphs` without duplicates, keeping the first.

    Characters with fewer than `MIN_DRAWINGS` of them are left out.

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
    return GlyphDrawings(images[kept], code_points[kept])


def _examples(drawings: GlyphDrawings, code_points: np.ndarray) -> Examples:
    """Return the examples of these characters, labelled by position."""
    characters, classes = np.unique(drawings.code_points, return_inverse=True)
    families = character_families(drawings.code_points)
    examples = Examples(classes, inputs=drawings.images[..., None], families=families)
    return examples.select_classes(np.searchsorted(characters, code_points))


def _of_scripts(code_points: np.ndarray, scripts: tuple[str, ...]) -> np.ndarray:
    """Return, in order, the characters with Unicode names starting with these words."""
    names = [unicodedata.name(chr(code_point), "") for code_point in code_points]
    return code_points[[name.partition(" ")[0] in scripts for name in names]]


def _by_stems(code_points: np.ndarray, seed: int) -> np.ndarray:
    stems = np.array([stem(code_point) for code_point in code_points])
    unique, of_each = np.unique(stems, return_inverse=True)
    rank = np.random.default_rng(seed).permutation(len(unique))
    return code_points[np.argsort(rank[of_each], kind="stable")]
