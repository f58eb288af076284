"""Data sets, class splits, batches and the input pipeline."""

from typing import TYPE_CHECKING

from common.lazy_names import import_when_used

if TYPE_CHECKING:
    from common.data.batches import ClassBalancedBatches as ClassBalancedBatches, TwoViews as TwoViews
    from common.data.cars196 import load_cars196 as load_cars196
    from common.data.cifar import load_cifar10 as load_cifar10, load_cifar100 as load_cifar100
    from common.data.cifar_collage import (
        collage_training_classes as collage_training_classes,
        load_cifar10_collage as load_cifar10_collage,
        load_cifar_collage as load_cifar_collage,
    )
    from common.data.class_splits import (
        contiguous_folds as contiguous_folds,
        held_back_images as held_back_images,
        random_class_split as random_class_split,
    )
    from common.data.collage_tiles import tile_of as tile_of
    from common.data.cub200 import load_cub200 as load_cub200
    from common.data.dataset import (
        DATASET_KINDS as DATASET_KINDS,
        Dataset as Dataset,
        Examples as Examples,
        InputReaders as InputReaders,
        check_official_counts as check_official_counts,
        check_training_pairs as check_training_pairs,
        parts_of as parts_of,
        with_superclasses as with_superclasses,
    )
    from common.data.dataset_fingerprint import (
        count_test_copies as count_test_copies,
        dataset_fingerprint as dataset_fingerprint,
        is_of_names as is_of_names,
    )
    from common.data.emoji import load_emoji as load_emoji
    from common.data.emoji_clutter import load_emoji_clutter as load_emoji_clutter
    from common.data.evaluation_inputs import EvaluationInputs as EvaluationInputs
    from common.data.file_names import FileNames as FileNames
    from common.data.fixed_views import fixed_views as fixed_views, view_numbers as view_numbers
    from common.data.glyph_collage import load_glyph_collage as load_glyph_collage
    from common.data.glyph_scripts import (
        load_glyph_scripts as load_glyph_scripts,
        load_latin_glyphs as load_latin_glyphs,
    )
    from common.data.glyphs import load_glyphs as load_glyphs
    from common.data.image_folder import find_image_files as find_image_files, load_image_folder as load_image_folder
    from common.data.image_formats import COPIES as COPIES, Reading as Reading
    from common.data.images import (
        CenterCrop as CenterCrop,
        Identity as Identity,
        ImageTransform as ImageTransform,
        JitteredCrop as JitteredCrop,
        NativeCrop as NativeCrop,
        NoAugmentation as NoAugmentation,
        PublishedCodeCrop as PublishedCodeCrop,
        RandomShift as RandomShift,
        ReducedCrop as ReducedCrop,
        ThesisCrop as ThesisCrop,
    )
    from common.data.in_shop import load_in_shop as load_in_shop
    from common.data.input_pipeline import (
        evaluation_batches as evaluation_batches,
        invalid_input_behind as invalid_input_behind,
        training_batches as training_batches,
        view_batches as view_batches,
    )
    from common.data.inspection import Inspection as Inspection, inspect_dataset as inspect_dataset
    from common.data.labels import label_text as label_text
    from common.data.left_out import (
        check_images as check_images,
        without_small_classes as without_small_classes,
        without_unreadable as without_unreadable,
    )
    from common.data.manifest import load_manifest as load_manifest, read_image_table as read_image_table
    from common.data.memory_batches import MemoryBatches as MemoryBatches
    from common.data.mnist import load_mnist as load_mnist
    from common.data.prepared_images import prepare_images as prepare_images, with_copies as with_copies
    from common.data.random_batches import (
        HierarchicalBatches as HierarchicalBatches,
        MPerClassBatches as MPerClassBatches,
        RandomPairBatches as RandomPairBatches,
    )
    from common.data.stanford_online_products import load_stanford_online_products as load_stanford_online_products
    from common.data.synthetic_tokens import load_synthetic_tokens as load_synthetic_tokens
    from common.data.tables import (
        TABLE_ENDINGS as TABLE_ENDINGS,
        is_table as is_table,
        read_csv_table as read_csv_table,
        read_table as read_table,
        spellings as spellings,
    )

import_when_used(__name__)
