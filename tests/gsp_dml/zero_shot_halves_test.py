import numpy as np
import pytest
import tensorflow as tf

from common.data import ClassBalancedBatches, MPerClassBatches, RandomPairBatches
from common.errors import InvalidInput
from gsp_dml.zero_shot_halves import HALVES, check_halves, half_of, half_of_classes

LABELS = np.repeat(np.arange(20), 6)


def test_labels_far_above_float32_integers_are_told_apart():
    labels = tf.constant([2**24, 2**24 + 1, 2**24, 2**24 + 1], tf.int64)
    np.testing.assert_array_equal(half_of_classes(labels), [0, 1, 0, 1])


def test_halves_share_no_class_and_are_balanced_for_any_batch():
    rng = np.random.default_rng(1)
    for _ in range(50):
        labels = rng.integers(0, rng.integers(2, 9), size=rng.integers(2, 30))
        half = half_of_classes(tf.constant(labels)).numpy()
        classes = [set(labels[half == side]) for side in (0, 1)]
        assert not classes[0] & classes[1]
        assert 0 <= len(classes[0]) - len(classes[1]) <= 1


def shares_a_class(batches, halves: str) -> bool:
    """Whether any of the first batches has a class in both halves, or all of its classes in one."""
    for batch in batches.epoch(0)[:30]:
        labels = LABELS[batch]
        half = half_of(tf.constant(labels), halves).numpy()
        classes = [set(labels[half == side]) for side in (0, 1)]
        if classes[0] & classes[1] or not all(classes):
            return True
    return False


@pytest.mark.parametrize("halves", HALVES)
@pytest.mark.parametrize("classes", [1, 2, 3, 4, 7, 8])
@pytest.mark.parametrize("samples", [1, 2, 3, 4])
@pytest.mark.parametrize("interleaved", [False, True])
def test_what_the_check_lets_pass_is_what_batches_show(halves, classes, samples, interleaved):
    samplers = [ClassBalancedBatches(LABELS, classes, samples, 0, interleaved=interleaved)]
    if not interleaved:
        samplers.append(MPerClassBatches(LABELS, classes, samples, 0))
    for batches in samplers:
        if shares_a_class(batches, halves):
            with pytest.raises(InvalidInput, match="zero_shot_halves: .*expected (two classes|halves without)"):
                check_halves(batches.class_places, halves)
        else:
            check_halves(batches.class_places, halves)


def test_without_an_order_of_classes_only_halves_by_classes_pass():
    batches = RandomPairBatches(LABELS, 16, 0)
    check_halves(batches.class_places, "classes")
    with pytest.raises(InvalidInput, match="any class may stand anywhere.*--sampler=m_per_class.*=classes"):
        check_halves(batches.class_places, "even_odd")
    with pytest.raises(InvalidInput, match="classes, even_odd"):
        check_halves(batches.class_places, "thirds")
