"""Glyphs: typographic characters drawn with the fonts of matplotlib; needs no download."""

from __future__ import annotations

import os

import numpy as np

from common.data.class_splits import random_class_split
from common.data.dataset import Dataset, Examples
from common.data.glyph_drawings import character_families, character_name, draw_glyphs

GLYPH_SIZE = 32


def load_glyphs(data_dir: str | None = None, *, cache_dir: str | os.PathLike, seed: int = 0) -> Dataset:
    """Load about 2,100 characters, 12 to 16 images each, one per font.

    Half of the characters train, the others test. The shape is that of Stanford Online Products: many classes with few
    images, retrieval among unseen classes. A class is a character that at least 12 of 16 fonts draw; lookalikes are one
    class. About a quarter of the images (23 %), nearly all of them symbols, equal another image of their class, since a
    family's styles share such drawings. Families are base letters and blocks of symbols; see `character_families`.

    Args:
        data_dir: unused; every loader has this argument.
        cache_dir: where the drawings are kept.
        seed: of the division into training and test classes and of the classes' order.

    Returns:
        Images `[examples, 32, 32, 1]` uint8, white on black. There are no published figures on this data set.

    Raises:
        InvalidInput: matplotlib's fonts are missing, or the cache cannot be written.
    """
    del data_dir
    drawings = draw_glyphs(GLYPH_SIZE, cache_dir=cache_dir)
    code_points, classes = np.unique(drawings.code_points, return_inverse=True)
    train_ids, test_ids = random_class_split(len(code_points), 0.5, seed)
    class_ids = np.concatenate([np.random.default_rng(seed).permutation(train_ids), test_ids])
    families = character_families(code_points)[classes]
    examples = Examples(classes, inputs=drawings.images[..., None], families=families).select_classes(class_ids)
    is_training = examples.labels < len(train_ids)
    return Dataset(
        name="glyphs",
        train=examples.subset(is_training),
        test=examples.subset(~is_training),
        class_names=[character_name(code_points[class_id]) for class_id in class_ids],
    )
