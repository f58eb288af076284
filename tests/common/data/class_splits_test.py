import numpy as np
import pytest

from common.data.class_splits import contiguous_folds, held_back_images, random_class_split
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


@pytest.mark.parametrize(("fraction", "num_train"), [(0.5, 50), (0.33, 33), (0.337, 34), (0.001, 1), (0.9999, 99)])
def test_a_random_split_covers_all_classes_once_and_follows_its_seed(fraction, num_train):
    train, test = random_class_split(100, fraction, seed=0)
    assert len(train) == num_train
    np.testing.assert_array_equal(np.sort(np.concatenate([train, test])), np.arange(100))
    np.testing.assert_array_equal(random_class_split(100, fraction, seed=0)[0], train)
    assert not np.array_equal(random_class_split(100, fraction, seed=4)[0], train)


def test_images_are_held_back_within_each_class_or_classes_with_all_of_them():
    labels = np.repeat([7, 3, 9, 5], [40, 4, 10, 3])[np.random.default_rng(0).permutation(57)]
    kept, held = held_back_images(labels, 0.15, seed=2)
    np.testing.assert_array_equal(np.sort(np.concatenate([kept, held])), np.arange(57))
    assert {int(c): int((labels[held] == c).sum()) for c in (7, 3, 9, 5)} == {7: 6, 3: 2, 9: 2, 5: 0}
    again, other = held_back_images(labels, 0.15, seed=2)[1], held_back_images(labels, 0.15, seed=3)[1]
    np.testing.assert_array_equal(again, held)
    assert not np.array_equal(other, held)
    assert (labels[held_back_images(labels, 0.99, seed=2)[0]] == 3).sum() == 2  # two always stay
    kept, held = held_back_images(np.repeat(np.arange(10), 3), 0.2, seed=0, by="classes")
    assert (len(held), len(set(held // 3))) == (6, 2)
    assert not set(held // 3) & set(kept // 3)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        *((lambda n=n, k=k: contiguous_folds(n, k), f"num_folds: received {k}") for n, k in ((9, 1), (3, 4), (9, 0))),
        *((lambda share=share: random_class_split(10, share, seed=0), "expected") for share in (1.0, 0.0, 1.5)),
        (lambda: random_class_split(1, 0.5, seed=0), "expected"),
        (lambda: held_back_images(np.repeat(np.arange(5), 3), 0.5, seed=0), "at least one class with four examples"),
        (lambda: held_back_images(np.repeat(np.arange(5), 4), 0.5, seed=0, by="pairs"), "'pairs', expected one of"),
    ],
)
def test_what_cannot_be_split_is_refused(call, message):
    with pytest.raises(InvalidInput, match=message):
        call()
