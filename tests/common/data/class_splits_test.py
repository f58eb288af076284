import numpy as np
import pytest

from common.data.class_splits import contiguous_folds, random_class_split
from common.errors import InvalidInput

PUBLISHED_BOUNDARIES = {
    "cub200": [0, 25, 50, 75, 100],
    "cars196": [0, 24, 49, 73, 98],
    "sop": [0, 2829, 5659, 8488, 11318],
    "in_shop": [0, 999, 1998, 2997, 3997],
    "cub200, three folds": [0, 33, 66, 100],
    "cub200, five folds": [0, 20, 40, 60, 80, 100],
}


@pytest.mark.parametrize("name", PUBLISHED_BOUNDARIES)
def test_folds_validate_on_the_published_blocks(name):
    boundaries = PUBLISHED_BOUNDARIES[name]
    folds = contiguous_folds(boundaries[-1], num_folds=len(boundaries) - 1)
    assert len(folds) == len(boundaries) - 1
    for (training, validation), first, end in zip(folds, boundaries[:-1], boundaries[1:]):
        np.testing.assert_array_equal(validation, np.arange(first, end))
        np.testing.assert_array_equal(np.sort(np.concatenate([training, validation])), np.arange(boundaries[-1]))
        assert (np.diff(training) > 0).all()


@pytest.mark.parametrize(("num_classes", "num_folds"), [(100, 1), (3, 4), (100, 0)])
def test_impossible_folds_are_refused(num_classes, num_folds):
    with pytest.raises(InvalidInput, match=f"num_folds: received {num_folds}"):
        contiguous_folds(num_classes, num_folds)


@pytest.mark.parametrize(("fraction", "num_train"), [(0.5, 50), (0.33, 33), (0.337, 34), (0.001, 1), (0.9999, 99)])
def test_a_random_split_covers_all_classes_once(fraction, num_train):
    train, test = random_class_split(100, fraction, seed=0)
    assert len(train) == num_train
    np.testing.assert_array_equal(np.sort(np.concatenate([train, test])), np.arange(100))


def test_a_random_split_follows_its_seed():
    np.testing.assert_array_equal(random_class_split(50, 0.5, seed=3)[0], random_class_split(50, 0.5, seed=3)[0])
    assert not np.array_equal(random_class_split(50, 0.5, seed=3)[0], random_class_split(50, 0.5, seed=4)[0])


@pytest.mark.parametrize(("num_classes", "fraction"), [(1, 0.5), (10, 1.0), (10, 0.0), (10, 1.5)])
def test_splits_that_leave_a_side_empty_are_refused(num_classes, fraction):
    with pytest.raises(InvalidInput, match="expected"):
        random_class_split(num_classes, fraction, seed=0)
