"""Data sets, class splits and batches."""

from common.data.batches import ClassBalancedBatches
from common.data.class_splits import contiguous_folds, random_class_split
from common.data.dataset import DATASET_KINDS, Dataset, Examples, check_official_counts, check_training_pairs

__all__ = [
    "DATASET_KINDS",
    "ClassBalancedBatches",
    "Dataset",
    "Examples",
    "check_official_counts",
    "check_training_pairs",
    "contiguous_folds",
    "random_class_split",
]
