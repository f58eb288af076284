"""Data sets, class splits and batches."""

from common.data.batches import ClassBalancedBatches
from common.data.class_splits import contiguous_folds, random_class_split
from common.data.dataset import DATASET_KINDS, Dataset, Examples, check_official_counts, check_training_pairs
from common.data.images import (
    CenterCrop,
    Identity,
    ImageTransform,
    NoAugmentation,
    PublishedCodeCrop,
    RandomShift,
    ThesisCrop,
)
from common.data.input_pipeline import evaluation_batches, invalid_input_behind, training_batches

__all__ = [
    "DATASET_KINDS",
    "CenterCrop",
    "ClassBalancedBatches",
    "Dataset",
    "Examples",
    "Identity",
    "ImageTransform",
    "NoAugmentation",
    "PublishedCodeCrop",
    "RandomShift",
    "ThesisCrop",
    "check_official_counts",
    "check_training_pairs",
    "contiguous_folds",
    "evaluation_batches",
    "invalid_input_behind",
    "random_class_split",
    "training_batches",
]
