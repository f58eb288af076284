import itertools

import numpy as np
import pytest

from experiments.studies.lambda_and_proxies import BayesianSearch, Surface, initial_points

GRID = np.array(list(itertools.product(np.linspace(0, 1, 17), np.linspace(0, 1, 7))))


def hill(index):
    x, y = GRID[index]
    return 0.4 - 0.3 * (x - 0.3) ** 2 - 0.2 * (y - 0.8) ** 2 + 0.002 * np.sin(37 * index)


def search_path(grid, num_initial, num_points, value_at):
    return BayesianSearch(grid, num_initial, num_points).path(value_at)


def test_the_maximum_of_a_noisy_hill_is_found():
    path = search_path(GRID, 5, 16, hill)
    assert len(set(path)) == len(path) == 16
    heights = sorted((hill(index) for index in range(len(GRID))), reverse=True)
    assert max(hill(index) for index in path) >= heights[3]
    initial = max(hill(index) for index in path[:5])
    assert max(hill(index) for index in path) > initial


def test_a_search_that_was_stopped_goes_on_to_the_same_points():
    whole = search_path(GRID, 4, 11, hill)
    assert search_path(GRID, 4, 11, hill) == whole
    for num_known in range(11):
        known = set(whole[:num_known])
        path = search_path(GRID, 4, 11, lambda index, known=known: hill(index) if index in known else None)
        assert path == whole[: max(4, num_known + 1)]


def test_a_point_depends_on_the_results_before_it_alone():
    whole = search_path(GRID, 4, 9, hill)
    changed = search_path(GRID, 4, 9, lambda index: hill(index) + (0.5 if index == whole[6] else 0.0))
    assert changed[:7] == whole[:7]
    assert changed[7:] != whole[7:]


def test_a_gap_among_the_first_points_stops_the_search():
    initial = initial_points(GRID, 4)
    assert search_path(GRID, 4, 9, lambda index: None if index == initial[1] else hill(index)) == initial


def test_initial_points_are_distinct_and_all_of_a_small_grid():
    assert len(set(initial_points(GRID, 20))) == 20
    assert sorted(initial_points(GRID[:3], 8)) == [0, 1, 2]


def test_constant_values_are_no_obstacle():
    assert len(set(search_path(GRID, 3, 6, lambda index: 0.25))) == 6


def test_expected_improvement_is_the_mean_of_the_gain():
    generator = np.random.default_rng(0)
    measured = GRID[initial_points(GRID, 6)]
    surface = Surface(measured, np.array([hill(index) for index in initial_points(GRID, 6)]))
    places = GRID[[5, 40, 77, 110]]
    draws = surface.mean(places) + surface.spread(places) * generator.normal(size=(400_000, 1))
    gains = np.clip(draws - surface.mean(measured).max(), 0, None)
    np.testing.assert_allclose(
        surface.expected_improvement(places), gains.mean(axis=0), atol=4 * gains.std(axis=0).max() / 400_000**0.5
    )


def test_the_spread_leaves_the_noise_out():
    points = np.repeat([[0.2, 0.2], [0.8, 0.8]], 20, axis=0)
    values = np.repeat([0.2, 0.4], 20) + 0.05 * np.random.default_rng(1).normal(size=40)
    at_points = Surface(points, values).spread(points[[0, 20]])
    assert at_points == pytest.approx(0.05 / 20**0.5, abs=0.01)
