import numpy as np
import pytest

from common.data.synthetic_tokens import NUM_CLASS_TOKENS, VOCABULARY_SIZE, load_synthetic_tokens
from common.errors import InvalidInput

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


def test_the_same_seed_gives_the_same_samples(dataset):
    again, other = load_synthetic_tokens(samples_per_class=200), load_synthetic_tokens(seed=1, samples_per_class=200)
    np.testing.assert_array_equal(again.train.inputs, dataset.train.inputs)
    assert not np.array_equal(other.train.inputs, dataset.train.inputs)
