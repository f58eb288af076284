"""Data sets, class splits and batches."""

from common.data.batches import ClassBalancedBatches
from common.data.class_splits import contiguous_folds, random_class_split
from common.data.dataset import DATASET_KINDS, Dataset, Examples, check_official_counts, check_training_pairs
from common.data.glyph_collage import load_glyph_collage, tile_of
from common.data.glyphs import load_glyphs
from common.data.synthetic_tokens import load_synthetic_tokens

__all__ = [
    "DATASET_KINDS",
    "ClassBalancedBatches",
    "Dataset",
    "Examples",
    "check_official_counts",
    "check_training_pairs",
    "contiguous_folds",
    "load_glyph_collage",
    "load_glyphs",
    "load_synthetic_tokens",
    "random_class_split",
    "tile_of",
]
