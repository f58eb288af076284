import decimal

import numpy as np
import pytest

from common.data.class_splits import contiguous_folds, held_back_images, random_class_split, random_family_split
from common.data.labels import label_text
from common.data.synthetic_tokens import NUM_CLASS_TOKENS, VOCABULARY_SIZE, load_synthetic_tokens
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


def test_families_stay_together_in_splits_and_folds():
    families = np.repeat(np.arange(8), [1, 5, 1, 3, 4, 1, 2, 3])  # begin at 0, 1, 6, 7, 10, 14, 15 and 17 of 20
    blocks = [validation[[0, -1]].tolist() for _, validation in contiguous_folds(20, 4, families)]
    assert blocks == [[0, 5], [6, 9], [10, 14], [15, 19]]  # the border at 5 has moved to 6
    for seed in range(20):
        train, test = random_family_split(families, 0.5, seed)
        np.testing.assert_array_equal(np.sort(np.concatenate([train, test])), np.arange(20))
        assert not set(families[train]) & set(families[test])
        assert 8 <= len(train) <= 12
        np.testing.assert_array_equal(random_family_split(families, 0.5, seed)[0], train)
    assert len({tuple(random_family_split(families, 0.5, seed)[0]) for seed in range(20)}) > 10


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
        (lambda: random_family_split(np.zeros(4, int), 0.5, seed=0), "families of classes: received 1"),
        (lambda: contiguous_folds(9, 3, np.repeat([0, 1], [4, 5])), "received 3, expected fewer folds of 2 families"),
        (lambda: held_back_images(np.repeat(np.arange(5), 3), 0.5, seed=0), "at least one class with four examples"),
        (lambda: held_back_images(np.repeat(np.arange(5), 4), 0.5, seed=0, by="pairs"), "'pairs', expected one of"),
    ],
)
def test_what_cannot_be_split_is_refused(call, message):
    with pytest.raises(InvalidInput, match=message):
        call()


@pytest.mark.parametrize(
    ("value", "text"),
    [
        *((none, "") for none in (None, "", " \t", float("nan"), np.float32("nan"), decimal.Decimal("NaN"))),
        *((text, text) for text in ("nan", "None", "1.0", "-1")),
        *((3, "3"), (3.0, "3"), (np.float32(3), "3"), (np.int64(-1), "-1"), (decimal.Decimal("3.00"), "3")),
        *((0.5, "0.5"), (float("inf"), "inf"), (True, "True"), (b"jay", "jay"), (" jay ", "jay")),
        ("cafe\u0301", "caf\u00e9"),
    ],
)
def test_values_become_labels_by_one_rule(value, text):
    assert label_text(value) == text


@pytest.mark.parametrize("value", [[1, 2], ("a",), {"a": 1}, np.arange(2)])
def test_a_label_of_several_values_is_refused(value):
    with pytest.raises(InvalidInput, match="a single text or number"):
        label_text(value)


PARTS = ("train", "validation", "test")


@pytest.fixture(scope="module")
def dataset():
    return load_synthetic_tokens(samples_per_class=200)


@pytest.mark.parametrize("part", PARTS)
def test_samples_hold_tokens_of_their_class_and_shared_ones(dataset, part):
    examples = getattr(dataset, part)
    assert examples.inputs.shape == (16 * 200, 50)
    assert examples.inputs.dtype == np.int32
    assert examples.inputs.max() == VOCABULARY_SIZE - 1 == 67
    is_own = examples.inputs < NUM_CLASS_TOKENS
    owners = examples.inputs // 4
    assert (owners == examples.labels[:, None])[is_own].all()
    for label in range(16):
        used = np.unique(examples.inputs[examples.labels == label])
        np.testing.assert_array_equal(used, [*range(4 * label, 4 * label + 4), 64, 65, 66, 67])


def test_foreground_shares_follow_the_normal_distribution_in_random_order(dataset):
    is_own = dataset.train.inputs < NUM_CLASS_TOKENS
    shares = is_own.mean(axis=1)
    assert abs(shares.mean() - 0.5) < 0.01
    assert abs(shares.std() - 0.1) < 0.005
    assert shares.min() >= 1 / 50
    assert shares.max() <= 49 / 50
    assert abs(is_own.mean(axis=0) - 0.5).max() < 0.05
    with pytest.raises(InvalidInput, match="samples_per_class: received 0"):
        load_synthetic_tokens(samples_per_class=0)


def test_parts_share_classes_but_not_samples(dataset):
    samples = [getattr(dataset, part).inputs for part in PARTS]
    assert not np.array_equal(samples[0], samples[1])
    assert not np.array_equal(samples[1], samples[2])
    assert not np.array_equal(samples[0], samples[2])
    assert all(getattr(dataset, part).num_classes == 16 for part in PARTS)
    assert dataset.kind == "tokens"
