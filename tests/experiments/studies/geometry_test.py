import itertools

import numpy as np
import pytest

from experiments.studies.geometry import average_covering_radius, mean_covering_radius, mean_distance_between_classes

GENERATOR = np.random.default_rng(0)
POINTS, LABELS = GENERATOR.normal(size=(30, 2)), GENERATOR.permutation(np.repeat([0, 1, 2], 10))


def test_distance_is_the_mean_over_all_pairs_of_different_classes(monkeypatch):
    monkeypatch.setattr("experiments.studies.geometry._ROWS_AT_ONCE", 7)
    pairs = [
        np.linalg.norm(POINTS[i] - POINTS[j]) for i, j in itertools.combinations(range(30), 2) if LABELS[i] != LABELS[j]
    ]
    assert mean_distance_between_classes(POINTS, LABELS) == pytest.approx(np.mean(pairs))


def test_average_radius_is_that_of_every_number_of_greedily_chosen_examples():
    averages = []
    for label in range(3):
        members = list(POINTS[label == LABELS])
        chosen, radii = [members[0]], []
        for _ in members:
            distances = [min(np.linalg.norm(point - center) for center in chosen) for point in members]
            radii.append(max(distances))
            chosen.append(members[int(np.argmax(distances))])
        assert radii[-1] == 0
        averages.append(np.mean(radii))
    assert average_covering_radius(POINTS, LABELS) == pytest.approx(np.mean(averages))


def test_covering_radius_of_pools_that_are_whole_classes():
    centers = GENERATOR.normal(size=(3, 2, 2))
    radii = []
    for label in range(3):
        nearest = [
            min(np.linalg.norm(point - center) for center in centers[label]) for point in POINTS[label == LABELS]
        ]
        radii.append(max(nearest))
    assert mean_covering_radius(POINTS, LABELS, centers, pool_size=10) == pytest.approx(np.mean(radii), rel=1e-5)


def test_smaller_pools_miss_outliers_and_all_centers_see_the_same_pools():
    centers = np.stack([POINTS[label == LABELS].mean(0, keepdims=True) for label in range(3)])
    small, large = (mean_covering_radius(POINTS, LABELS, centers, size) for size in (3, 9))
    assert small < large
    assert mean_covering_radius(POINTS, LABELS, centers, 3) == small
    assert mean_covering_radius(POINTS, LABELS, np.tile(centers, (1, 4, 1)), 3) == pytest.approx(small)
