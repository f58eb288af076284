import numpy as np
import pytest
from scipy.optimize import linprog

from common.errors import InvalidInput
from gsp_dml import histogram_operator, prototype_combination


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
