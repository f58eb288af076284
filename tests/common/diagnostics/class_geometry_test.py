import itertools

import numpy as np
import pytest
from scipy.spatial.distance import pdist

from common.diagnostics.class_geometry import alignment, class_covering_radii, class_distances, uniformity
from common.errors import InvalidInput

# Two classes on the circle: at 0 and 60 degrees, and at 180 degrees twice and 240 degrees; one item alone at 90.
DEGREES = np.deg2rad([0, 60, 180, 180, 240, 90])
POINTS = np.stack([np.cos(DEGREES), np.sin(DEGREES)], axis=1)
LABELS = np.array([7, 7, 3, 3, 3, 9])


def test_pi_of_the_published_code():
    found = class_distances(POINTS, LABELS, "code")
    # Inside: class 7 has one pair at 1 - cos 60; class 3 has pairs at 0, 60 and 60 degrees. Mean of the two classes.
    assert found.intra == pytest.approx((1 / 2 + (0 + 1 / 2 + 1 / 2) / 3) / 2)
    # Means of length one stand at 30 degrees, at atan(-sqrt 3 / 5) + 180, and at 90.
    third = np.pi + np.arctan2(np.sqrt(3), 5)
    between = [1 - np.cos(a - b) for a, b in itertools.combinations([np.pi / 6, third, np.pi / 2], 2)]
    assert found.inter == pytest.approx(np.mean(between))
    assert found.ratio == pytest.approx(found.intra / found.inter)


@pytest.mark.parametrize("seed", range(3))
def test_random_classes_equal_scipy(seed, monkeypatch):
    monkeypatch.setattr("common.diagnostics.class_geometry._PAIRS_AT_ONCE", 50)
    rng = np.random.default_rng(seed)
    embeddings, labels = rng.normal(size=(30, 4)).astype(np.float32), rng.integers(0, 5, 30) + 2**60
    unit = embeddings / np.linalg.norm(embeddings.astype(np.float64), axis=1, keepdims=True)
    distances = pdist(unit)
    intra = distances[(labels[:, np.newaxis] == labels)[np.triu_indices(30, 1)]]
    assert class_distances(embeddings, labels, "print").intra == pytest.approx(np.mean(intra))
    assert alignment(embeddings, labels) == pytest.approx(np.mean(np.square(intra)))
    assert uniformity(embeddings) == pytest.approx(np.log(np.mean(np.exp(-2 * distances**2))))
    means = np.stack([unit[labels == label].mean(axis=0) for label in np.unique(labels)])
    assert class_distances(embeddings, labels, "print").inter == pytest.approx(np.mean(pdist(means)))


def test_covering_radii_of_classes_on_a_line():
    points = np.array([[0.0], [10], [4], [1], [5], [5], [8]])
    labels = np.array([1, 1, 1, 1, 0, 0, 2])
    # Class 1: centers 0, 10, 4, 1 in this order leave 10, 4, 1 and 0; class 0: copies; class 2: alone.
    np.testing.assert_allclose(class_covering_radii(points, labels, 1), [0, 10, 0])
    np.testing.assert_allclose(class_covering_radii(points, labels, 2), [0, 4, 0])
    np.testing.assert_allclose(class_covering_radii(points, labels, 9), [0, 0, 0])
    np.testing.assert_allclose(class_covering_radii(points, labels), [0, (10 + 4 + 1 + 0) / 4, 0])
    # Of class 1 the first, second and last item: 0 and 10 leave 1.
    np.testing.assert_allclose(class_covering_radii(points, labels, 2, max_items=3), [0, 1, 0])


def test_uniformity_and_alignment_at_the_ends():
    collapsed = np.tile([[0.0, 2.0]], (5, 1))
    assert uniformity(collapsed) == pytest.approx(0, abs=1e-12)
    assert alignment(collapsed, np.zeros(5, int)) == pytest.approx(0, abs=1e-12)
    opposite = np.float32([[1, 0], [-5, 0]])
    assert uniformity(opposite, temperature=3.0) == pytest.approx(-12)
    assert alignment(opposite, [1, 1]) == pytest.approx(4)
    rng = np.random.default_rng(0)
    many = rng.normal(size=(3000, 64))
    assert uniformity(many) == pytest.approx(-4, abs=0.15)
    sampled = uniformity(many, max_items=500)
    assert sampled == pytest.approx(uniformity(many), abs=0.02)
    assert sampled != uniformity(many, max_items=500, seed=1)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: class_distances(POINTS, LABELS, "paper"), "convention: received 'paper', expected one of code, print"),
        (lambda: class_distances(POINTS, np.arange(6)), "no class of two items"),
        (lambda: class_distances(POINTS, np.zeros(6, int)), "no two classes"),
        (lambda: class_distances(POINTS * np.inf, LABELS), "NaN or infinity"),
        (lambda: alignment(POINTS, np.arange(6)), "no class of two items"),
        (lambda: alignment(POINTS, LABELS[1:]), "labels"),
        (lambda: uniformity(POINTS[:1]), "a single one"),
        (lambda: uniformity(POINTS, temperature=0), "temperature"),
        (lambda: class_covering_radii(POINTS, LABELS, 0), "num_centers"),
        (lambda: class_covering_radii(POINTS, LABELS, max_items=0), "max_items"),
    ],
)
def test_bad_input_is_named(call, message):
    with np.errstate(invalid="ignore"), pytest.raises(InvalidInput, match=message):
        call()
