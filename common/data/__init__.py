"""Data sets, class splits, batches and the input pipeline."""

from typing import TYPE_CHECKING

from common.lazy_names import import_when_used

if TYPE_CHECKING:
    from common.data.batches import ClassBalancedBatches
    from common.data.cars196 import load_cars196
    from common.data.cifar import load_cifar10, load_cifar100
    from common.data.cifar_collage import collage_training_classes, load_cifar10_collage, load_cifar_collage
    from common.data.class_splits import contiguous_folds, held_back_images, random_class_split
    from common.data.collage_tiles import tile_of
    from common.data.cub200 import load_cub200
    from common.data.dataset import (
        DATASET_KINDS,
        Dataset,
        Examples,
        InputReaders,
        check_official_counts,
        check_training_pairs,
        parts_of,
        with_superclasses,
    )
    from common.data.dataset_fingerprint import count_test_copies, dataset_fingerprint, is_of_names
    from common.data.emoji import load_emoji
    from common.data.emoji_clutter import load_emoji_clutter
    from common.data.evaluation_inputs import EvaluationInputs
    from common.data.file_names import FileNames
    from common.data.fixed_views import fixed_views, view_numbers
    from common.data.glyph_collage import load_glyph_collage
    from common.data.glyph_scripts import load_glyph_scripts, load_latin_glyphs
    from common.data.glyphs import load_glyphs
    from common.data.image_folder import find_image_files, load_image_folder
    from common.data.image_formats import Reading
    from common.data.images import (
        CenterCrop,
        Identity,
        ImageTransform,
        JitteredCrop,
        NativeCrop,
        NoAugmentation,
        PublishedCodeCrop,
        RandomShift,
        ReducedCrop,
        ThesisCrop,
    )
    from common.data.in_shop import load_in_shop
    from common.data.input_pipeline import evaluation_batches, invalid_input_behind, training_batches, view_batches
    from common.data.inspection import Inspection, inspect_dataset
    from common.data.kinds_of_copies import COPIES, choose_copies, chosen_copies
    from common.data.labels import label_text
    from common.data.left_out import check_images, without_small_classes, without_unreadable
    from common.data.manifest import load_manifest, read_image_table
    from common.data.memory_batches import MemoryBatches
    from common.data.mnist import load_mnist
    from common.data.prepared_images import prepare_images
    from common.data.random_batches import HierarchicalBatches, MPerClassBatches, RandomPairBatches
    from common.data.shards import ShardedImages
    from common.data.stanford_online_products import load_stanford_online_products
    from common.data.synthetic_tokens import load_synthetic_tokens
    from common.data.tables import TABLE_ENDINGS, is_table, read_csv_table, read_table, spellings
    from common.data.two_views import TwoViews

__all__ = [
    "collage_training_classes",
    "DATASET_KINDS",
    "TABLE_ENDINGS",
    "RandomPairBatches",
    "COPIES",
    "CenterCrop",
    "ClassBalancedBatches",
    "Dataset",
    "EvaluationInputs",
    "Examples",
    "FileNames",
    "Identity",
    "Inspection",
    "ImageTransform",
    "InputReaders",
    "NativeCrop",
    "NoAugmentation",
    "PublishedCodeCrop",
    "JitteredCrop",
    "RandomShift",
    "Reading",
    "ReducedCrop",
    "HierarchicalBatches",
    "MPerClassBatches",
    "MemoryBatches",
    "ShardedImages",
    "ThesisCrop",
    "TwoViews",
    "check_images",
    "check_official_counts",
    "check_training_pairs",
    "choose_copies",
    "chosen_copies",
    "contiguous_folds",
    "count_test_copies",
    "dataset_fingerprint",
    "find_image_files",
    "evaluation_batches",
    "fixed_views",
    "held_back_images",
    "inspect_dataset",
    "invalid_input_behind",
    "is_of_names",
    "is_table",
    "label_text",
    "load_cars196",
    "load_cifar10",
    "load_cifar100",
    "load_cifar10_collage",
    "load_cifar_collage",
    "load_cub200",
    "load_emoji",
    "load_emoji_clutter",
    "load_glyph_collage",
    "load_glyph_scripts",
    "load_glyphs",
    "load_image_folder",
    "load_in_shop",
    "load_latin_glyphs",
    "load_manifest",
    "load_mnist",
    "load_stanford_online_products",
    "load_synthetic_tokens",
    "parts_of",
    "prepare_images",
    "read_csv_table",
    "read_image_table",
    "read_table",
    "random_class_split",
    "spellings",
    "tile_of",
    "training_batches",
    "view_batches",
    "view_numbers",
    "with_superclasses",
    "without_small_classes",
    "without_unreadable",
]
import_when_used(__name__)
