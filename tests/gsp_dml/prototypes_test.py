import numpy as np
import pytest
import tensorflow as tf
from scipy.optimize import linprog

from common.errors import InvalidInput
from gsp_dml import histogram_operator, prototype_combination
from gsp_dml.prototype_initializer import (
    check_prototype_initializer,
    one_feature_an_image,
    pick_prototypes,
    remember,
    serialized_initializer,
    weight_initializer,
)

keras = tf.keras


@pytest.mark.parametrize("batches", [(3, 4), (10,), (4, 4, 4), (12,), (1,) * 11])
def test_the_memory_holds_the_first_vectors_in_order(batches):
    vectors = np.arange(1, 1 + 2 * sum(batches), dtype=np.float32).reshape(-1, 2)
    memory, count, start = tf.zeros([10, 2]), tf.constant(0, tf.int64), 0
    for batch in batches:
        memory, count = remember(memory, count, vectors[start : start + batch])
        start += batch
    expected = np.zeros((10, 2))
    expected[: min(start, 10)] = vectors[:10]
    np.testing.assert_array_equal(memory, expected)
    assert int(count) == min(start, 10)


def test_the_first_vectors_repel_and_the_farthest_others_are_picked():
    memory = np.array([[0.0, 0], [1, 0], [0.1, 0], [9, 0], [1.2, 0], [5, 0], [0, 4]], np.float32)
    # Seeds are the first two; the farthest from them are (9, 0), then (0, 4) and (5, 0), both at distance 4 from all.
    np.testing.assert_array_equal(pick_prototypes(tf.constant(memory), 2), [[9, 0], [5, 0]])


def test_one_feature_an_image_goes_round_the_positions():
    features = np.arange(12.0)[None, :, None] + 100 * np.arange(64.0)[:, None, None]
    chosen = np.asarray(one_feature_an_image(tf.constant(features), None, 0))[:, 0]
    images, positions = chosen // 100, chosen % 100
    np.testing.assert_array_equal(images, np.arange(64))
    assert np.bincount(positions.astype(int), minlength=12).min() >= 4
    later = np.asarray(one_feature_an_image(tf.constant(features), None, 64))[:, 0] % 100
    assert not np.array_equal(later, positions)


def test_a_remembered_feature_is_never_padding():
    mask = np.arange(5) >= np.array([0, 1, 2, 3, 4])[:, None]
    features = tf.cast(mask, tf.float32)[..., None]
    for first_image in range(10):
        np.testing.assert_array_equal(one_feature_an_image(features, tf.constant(mask), first_image), np.ones((5, 1)))


def test_positions_go_on_from_batch_to_batch():
    features = tf.reshape(tf.range(7.0 * 5), [7, 5, 1])
    np.testing.assert_array_equal(
        one_feature_an_image(features[3:], None, 3), one_feature_an_image(features, None, 0)[3:]
    )


def test_a_memory_as_small_as_the_prototypes_is_taken_whole():
    memory = np.random.default_rng(0).normal(size=(4, 3)).astype(np.float32)
    picked = pick_prototypes(tf.constant(memory), 4).numpy()
    np.testing.assert_array_equal(np.sort(picked, axis=0), np.sort(memory, axis=0))


def test_given_vectors_are_kept_and_survive_json():
    given = np.random.default_rng(0).normal(size=(3, 4))
    checked = check_prototype_initializer(given.tolist(), 3)
    np.testing.assert_allclose(weight_initializer(checked, 4)((3, 4)), given, rtol=1e-6)
    np.testing.assert_array_equal(check_prototype_initializer(serialized_initializer(checked), 3), given)


def test_keras_initializers_are_accepted_and_survive_json():
    initializer = check_prototype_initializer(keras.initializers.RandomUniform(-2, -1, seed=0), 3)
    restored = check_prototype_initializer(serialized_initializer(initializer), 3)
    np.testing.assert_array_equal(weight_initializer(restored, 4)((3, 4)), initializer((3, 4)))


@pytest.mark.parametrize("bad", ["kmeans", 5, np.zeros((2, 4)), [[np.nan] * 4] * 3, None])
def test_bad_initializers_are_named(bad):
    with pytest.raises(InvalidInput, match=r"prototype_initializer.*feature_memory.*array \[3, channels\]"):
        check_prototype_initializer(bad, 3)


def test_an_array_for_another_number_of_channels_is_named():
    with pytest.raises(InvalidInput, match="7 columns"):
        weight_initializer(np.zeros((3, 4)), 7)


def local_features(seed=0, images=6, positions=16, dim=2):
    generator = np.random.default_rng(seed)
    centers = generator.normal(scale=0.3, size=(images, 1, dim))
    local = centers + generator.normal(scale=0.2, size=(images, positions, dim))
    return local / np.linalg.norm(local, axis=-1).max()


def solved(features, prototypes):
    """Minimum and masses of the definition's problem for one image, by linear programming over pi."""
    count, positions = len(prototypes), len(features)
    costs = np.array([[np.linalg.norm(prototype - feature) for feature in features] for prototype in prototypes])
    columns = np.zeros((positions, count * positions))
    for position in range(positions):
        columns[position, position::positions] = 1
    found = linprog(costs.ravel(), A_eq=columns, b_eq=np.full(positions, 1 / positions), bounds=(0, None))
    assert found.success
    return found.fun, found.x.reshape(count, positions).sum(axis=1)


@pytest.mark.parametrize("dim", [2, 5])
def test_masses_are_those_of_the_transport_problem(dim):
    features = local_features(dim=dim, images=3)
    prototypes = local_features(seed=1, images=1, positions=5, dim=dim)[0]
    histogram = histogram_operator(features, prototypes)
    for image in range(3):
        cost, masses = solved(features[image], prototypes)
        np.testing.assert_allclose(histogram.weights[image], masses, atol=1e-9)
        assert histogram.distances[image].mean() == pytest.approx(cost)
    np.testing.assert_allclose(histogram.weights.sum(axis=1), 1)


def test_a_combination_is_recomputed_by_hand():
    local = np.array([[[0.0, 0.0], [0.1, 0.0], [1.0, 0.0], [0.0, 0.9]]])
    found = prototype_combination(local, np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]]))
    np.testing.assert_array_equal(found.nearest, [[0, 0, 1, 2]])
    np.testing.assert_allclose(found.weights, [[0.5, 0.25, 0.25]])
    np.testing.assert_allclose(found.combinations, [[0.25, 0.25]])
    np.testing.assert_allclose(found.averages, [[0.275, 0.225]])
    np.testing.assert_allclose(found.errors, [np.hypot(0.025, 0.025)])
    assert found.covering_radius == pytest.approx(0.1)
    assert found.mean_distances[0] == pytest.approx(0.05)


@pytest.mark.parametrize("scale", [1.0, 40.0])
@pytest.mark.parametrize("count", [1, 5, 24])
def test_the_bound_without_the_square_holds_for_any_features_and_prototypes(count, scale):
    local = scale * local_features(count)
    prototypes = scale * np.random.default_rng(count).normal(size=(count, 2))
    found = prototype_combination(local, prototypes)
    assert np.all(found.errors <= found.mean_distances * (1 + 1e-12))
    assert np.all(found.mean_distances <= found.covering_radius * (1 + 1e-12))
    assert found.errors.max() > 1e-3 * scale


def test_the_printed_bound_of_the_square_fails_for_large_errors():
    far = prototype_combination([[[-1.0, 0.0]]], [[1.0, 0.0]])  # both in the unit ball
    assert far.errors[0] ** 2 > far.covering_radius >= far.errors[0]
    near = prototype_combination(local_features(), local_features(1, 1, 9)[0])
    assert near.errors.max() <= 1
    assert np.all(near.errors**2 <= near.covering_radius)


@pytest.mark.parametrize(
    ("features", "prototypes", "message"),
    [
        (np.zeros((4, 2)), np.zeros((3, 2)), r"expected shapes \[images, positions, dim\] and \[prototypes, dim\]"),
        (np.zeros((1, 4, 2)), np.zeros((3, 5)), "received.*4, 2.*3, 5"),
        (np.zeros((1, 4, 2)), np.zeros((0, 2)), "one prototype at least"),
        (np.zeros((1, 0, 2)), np.zeros((3, 2)), "one position"),
    ],
)
def test_what_cannot_be_compared_is_refused(features, prototypes, message):
    with pytest.raises(InvalidInput, match=message):
        histogram_operator(features, prototypes)
