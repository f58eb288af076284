from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf

from ccp_dml import (
    ClassPools,
    ProximalTerm,
    choose_representatives,
    class_representatives,
    covering_radii,
    sample_pools,
)
from common.data import Examples, NoAugmentation, RandomShift
from common.data.input_pipeline import training_batches
from common.errors import InvalidInput

LABELS = np.array([2, 0, 1, 0, 2, 2, 0, 2, 2, 1])
POOLS, NO_NUMBERS = np.ones((2, 3, 2, 4))
NO_NUMBERS[1, :, 2] = np.nan, np.inf


def test_members_are_of_their_class_and_not_repeated_while_there_are_enough():
    for seed in range(20):
        pools = sample_pools(LABELS, 3, 2, seed)
        assert pools.shape == (3, 3)
        assert pools.dtype == np.int64
        np.testing.assert_array_equal(LABELS[pools], [[0] * 3, [1] * 3, [2] * 3])
        assert len(set(pools[0])) == 3
        assert len(set(pools[2])) == 3
        assert set(pools[1]) == {2, 9}  # two examples: both before either is repeated
        assert len(set(pools[1][:2])) == 2


def test_all_members_have_their_chance():
    firsts = {int(sample_pools(LABELS, 2, 2, seed)[2, 0]) for seed in range(100)}
    assert firsts == {0, 4, 5, 7, 8}


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: sample_pools(LABELS, 3, 4, seed=0), "pool_size: received 3, expected at least .* 4"),
        (lambda: ClassPools(list, Examples(LABELS), NoAugmentation(), 3, 4, seed=0), "pool_size"),
        (lambda: sample_pools([0, 2, 2], 1, 1, seed=0), "every label"),
        (lambda: sample_pools([], 1, 1, seed=0), "labels: received 'no examples', expected at least one example"),
        (lambda: choose_representatives(POOLS[:1], 3), "pool size: received 2, expected at least .* 3"),
        *(
            (lambda shape=shape: choose_representatives(POOLS[:1], 1, np.ones(shape)), "previous proxies")
            for shape in ((2, 1, 4), (1, 1, 3))
        ),
        (lambda: choose_representatives(NO_NUMBERS, 1), "pools: received '2 .* not finite, the first of class 1"),
        (lambda: choose_representatives(POOLS, 1, NO_NUMBERS), "previous proxies: received '2 embeddings that are not"),
        (lambda: ProximalTerm([], 0.1), "variables"),
        (lambda: ProximalTerm([tf.Variable(1.0)], -1.0), "ccp_lambda"),
    ],
)
def test_what_cannot_be_drawn_chosen_or_kept_near_is_refused(call, message):
    with pytest.raises(InvalidInput, match=message):
        call()


def make_pools(seed=0, augmentation=None, batch_size=4, seen=None):
    """Pools of 'images' whose embedding is their pixels."""
    images = np.random.default_rng(1).integers(0, 255, (len(LABELS), 6, 6, 1)).astype(np.uint8)

    def embed(batches):
        arrays = [np.asarray(batch) for batch in batches]
        if seen is not None:
            seen.extend(len(array) for array in arrays)
        return np.concatenate(arrays).reshape(-1, 36).astype(np.float32)

    examples = Examples(LABELS, images)
    augmentation = augmentation or NoAugmentation()
    return ClassPools(embed, examples, augmentation, 5, 2, seed, batch_size), images


@pytest.mark.parametrize("batch_size", [4, 15, 100])
def test_embeddings_are_those_of_the_drawn_examples(batch_size):
    seen = []
    pools, images = make_pools(batch_size=batch_size, seen=seen)
    expected = images.reshape(len(LABELS), 36)[pools.indices(2)]
    np.testing.assert_array_equal(pools(2), expected)
    assert set(seen) == {min(batch_size, 15)}


def test_positions_lead_back_to_examples():
    pools, images = make_pools()
    positions = np.array([[4, 0], [1, 2], [3, 3]])
    indices = pools.examples_at(3, positions)
    assert indices.shape == (3, 2)
    np.testing.assert_array_equal(
        images.reshape(-1, 36)[indices], np.take_along_axis(pools(3), positions[:, :, None], axis=1)
    )


def test_pools_are_functions_of_seed_and_problem():
    augmented = {key: make_pools(key[0], RandomShift(2))[0](key[1]) for key in ((0, 0), (0, 1), (1, 0))}
    again, _ = make_pools(0, RandomShift(2))
    again(5)
    np.testing.assert_array_equal(again(0), augmented[0, 0])
    assert np.any(augmented[0, 0] != augmented[0, 1])
    assert np.any(augmented[0, 0] != augmented[1, 0])
    plain, _ = make_pools(0)
    assert np.any(plain(0) != augmented[0, 0])
    np.testing.assert_array_equal(plain.indices(0), again.indices(0))
    assert np.any(plain.indices(0) != plain.indices(1))


def test_the_same_images_are_augmented_anew_in_each_problem_and_otherwise_than_in_training():
    images, seen = np.random.default_rng(1).integers(0, 255, (3, 6, 6, 1)).astype(np.uint8), []

    def embed(batches):
        seen.append(np.concatenate([np.asarray(batch) for batch in batches]))
        return seen[-1].reshape(-1, 36)

    examples, augmentation = Examples(np.arange(3), images), RandomShift(2)
    pools = ClassPools(embed, examples, augmentation, 4, 2, 0, batch_size=12)
    drawn = pools.indices(0).ravel()
    np.testing.assert_array_equal(drawn, pools.indices(1).ravel())
    for problem in (0, 1):
        pools(problem)
    places = SimpleNamespace(batch_size=12, batches_per_epoch=1, from_step=lambda step: iter([(0, drawn)]))
    trained, _ = next(iter(training_batches(examples, places, augmentation, seed=0)))
    assert np.any(seen[0] != seen[1])
    assert np.any(seen[0] != trained)


def algorithm_2(pool, num_picks, previous):
    """Algorithm 2 for one class."""
    picked = []
    for _ in range(num_picks):
        centers = [*previous, *(pool[index] for index in picked)]
        distances = [min((np.linalg.norm(point - center) for center in centers), default=np.inf) for point in pool]
        candidates = [index for index in range(len(pool)) if index not in picked]
        picked.append(max(candidates, key=lambda index: distances[index]))
    return picked


@pytest.mark.parametrize("num_previous", [None, 1, 3])
@pytest.mark.parametrize("classes_at_once", [3, 4, 1024])
def test_equals_algorithm_2(monkeypatch, num_previous, classes_at_once):
    monkeypatch.setattr(class_representatives, "CLASSES_AT_ONCE", classes_at_once)
    rng = np.random.default_rng(0)
    pools = rng.normal(size=(10, 7, 3)).astype(np.float32)
    previous = None if num_previous is None else rng.normal(size=(10, num_previous, 3)).astype(np.float32)
    chosen = choose_representatives(pools, 3, previous)
    for row in range(10):
        expected = algorithm_2(pools[row], 3, [] if previous is None else previous[row])
        assert chosen.positions[row].tolist() == expected
        np.testing.assert_array_equal(chosen.embeddings[row], pools[row][expected])


def test_covering_radius_by_hand(monkeypatch):
    monkeypatch.setattr(class_representatives, "CLASSES_AT_ONCE", 1)
    pools = np.array([[[0.0, 0.0], [3.0, 4.0]], [[1.0, 0.0], [2.0, 0.0]]], np.float32)
    centers = np.array([[[0.0, 1.0], [9.0, 9.0]], [[2.0, 0.0], [2.0, 0.0]]], np.float32)
    np.testing.assert_allclose(covering_radii(pools, centers), [np.sqrt(18), 1.0], rtol=1e-6)


keras = tf.keras


def make_layer():
    layer = keras.layers.Dense(2)
    layer.build((None, 3))
    return layer


def test_adds_rate_times_the_way_from_the_target():
    layer, other = make_layer(), tf.Variable([5.0])
    term = ProximalTerm(layer.trainable_variables, rate=0.25)
    layer.set_weights([weight + 2.0 for weight in layer.get_weights()])
    variables = [*layer.trainable_variables, other]
    gradients = term([tf.ones_like(tf.convert_to_tensor(variable)) for variable in variables], variables)
    for gradient, expected in zip(gradients, (1.5, 1.5, 1.0)):
        np.testing.assert_allclose(gradient, np.full(gradient.shape, expected), rtol=1e-6)


def test_target_and_rate_can_be_set_in_a_traced_step():
    variable = tf.Variable([1.0, 2.0])
    term = ProximalTerm([variable], rate=0.5)
    step = tf.function(lambda: term([tf.zeros(2)], [variable])[0])
    np.testing.assert_array_equal(step(), [0.0, 0.0])
    term.set_targets([np.array([0.0, 4.0], np.float32)])
    np.testing.assert_array_equal(step(), [0.5, -1.0])
    term.current_rate.assign(0.0)
    np.testing.assert_array_equal(step(), [0.0, 0.0])
    term.current_rate.assign(term.rate)
    variable.assign([7.0, 7.0])
    term.set_targets()
    np.testing.assert_array_equal(step(), [0.0, 0.0])
    np.testing.assert_array_equal(term.targets()[0], [7.0, 7.0])


def test_half_precision_gradients_keep_their_type():
    variable = tf.Variable([1.0])
    term = ProximalTerm([variable], rate=0.5)
    variable.assign([2.0])
    gradient = term([tf.zeros(1, tf.float16)], [variable])[0]
    assert gradient.dtype == tf.float16
    assert float(gradient[0]) == 0.5
