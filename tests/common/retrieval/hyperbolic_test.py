import numpy as np

from common.retrieval import NeighborSearch, evaluate_retrieval, find_nearest_neighbors, lorentz_factors
from tests.support import poincare_ball


def tangents(length=None):
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(40, 3))
    lengths = rng.uniform(0.1, 3.0, size=(40, 1)) if length is None else length
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True) * lengths).astype(np.float32)


def order_by_distance(points, curvature):
    distances = poincare_ball.distances(points, points, curvature)
    np.fill_diagonal(distances, np.inf)
    return np.argsort(distances, axis=1, kind="stable")[:, :-1]


def test_the_search_orders_by_hyperbolic_distance():
    points, found = tangents(), {}
    queries, items = lorentz_factors(points, 0.7)
    search = NeighborSearch(queries, items, similarity="inner_product", exclude_same_row=True)
    search.visit(np.full(40, 39), lambda rows, neighbors: found.update(zip(rows.tolist(), neighbors)))
    expected = order_by_distance(points, 0.7)
    np.testing.assert_array_equal([found[row] for row in range(40)], expected)
    assert (expected != find_nearest_neighbors(points, num_neighbors=39)).any()
    labels = np.arange(40) % 4
    figures = evaluate_retrieval(
        queries, labels, items, labels, similarity="inner_product", exclude_same_row=True
    ).as_dict()
    assert figures["P@1"] == np.mean(labels[expected[:, 0]] == labels)


def test_on_one_sphere_the_order_is_that_of_every_other_search():
    points = tangents(length=2.3)
    np.testing.assert_array_equal(order_by_distance(points, 0.1), find_nearest_neighbors(points, num_neighbors=39))
