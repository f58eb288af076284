import numpy as np
import pytest

from common.data.glyph_drawings import draw_glyphs
from common.data.glyphs import load_glyphs


@pytest.fixture(scope="module")
def cache_dir(drawn_glyphs):
    return drawn_glyphs(32)


@pytest.fixture(scope="module")
def dataset(cache_dir):
    return load_glyphs(cache_dir=cache_dir)


def test_half_of_the_characters_train_and_the_others_test(dataset):
    num_classes = len(dataset.class_names)
    assert abs(dataset.train.num_classes - dataset.test.num_classes) <= 1
    assert dataset.train.num_classes + dataset.test.num_classes == num_classes == len(set(dataset.class_names))
    assert dataset.test.labels.min() == dataset.train.num_classes
    assert dataset.gallery is dataset.validation is None
    assert dataset.is_comparable
    for examples in (dataset.train, dataset.test):
        assert examples.inputs.shape == (len(examples), 32, 32, 1)
        assert examples.inputs.dtype == np.uint8
        counts = np.bincount(examples.labels)[examples.labels.min() :]
        assert 12 <= counts.min() <= counts.max() <= 16
    assert (dataset.kind, dataset.native_size, dataset.channels) == ("memory_images", 32, 1)


def test_classes_have_the_drawings_of_their_character(dataset, cache_dir):
    drawings = draw_glyphs(32, cache_dir=cache_dir)
    for examples, label in ((dataset.train, 0), (dataset.train, 500), (dataset.test, dataset.train.num_classes + 7)):
        code_point = int(dataset.class_names[label][2:6], 16)
        expected = drawings.images[drawings.code_points == code_point]
        np.testing.assert_array_equal(examples.inputs[examples.labels == label][..., 0], expected)


def test_the_split_follows_the_seed(dataset, cache_dir):
    assert load_glyphs(cache_dir=cache_dir).class_names == dataset.class_names
    other = load_glyphs(cache_dir=cache_dir, seed=1)
    num_train = dataset.train.num_classes
    shared = set(other.class_names[:num_train]) & set(dataset.class_names[:num_train])
    assert 0.4 < len(shared) / num_train < 0.6


def test_contiguous_blocks_of_training_classes_mix_letters_and_symbols(dataset):
    is_letter = np.asarray(["LETTER" in name for name in dataset.class_names[: dataset.train.num_classes]])
    shares = [block.mean() for block in np.array_split(is_letter, 4)]
    assert max(shares) - min(shares) < 0.15
