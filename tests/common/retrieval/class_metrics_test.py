import numpy as np
import pytest
from sklearn.neighbors import NearestCentroid

from common.errors import InvalidInput
from common.retrieval import class_metrics, class_table, evaluate_retrieval, nearest_centroid_accuracy


def clusters(seed, size):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 7, size)
    return (np.random.default_rng(0).normal(size=(7, 3))[labels] + rng.normal(size=(size, 3)) + 1e4), labels + 2**50


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    monkeypatch.setattr(class_metrics, "_DISTANCES_AT_ONCE", 20)


def test_means_of_a_gallery_are_those_of_scikit_learn():
    queries, labels = clusters(1, 60)
    gallery, gallery_labels = clusters(2, 30)
    keep = gallery_labels != 2**50 + 3  # a class that the gallery lacks does not count
    predicted = NearestCentroid().fit(gallery[keep], gallery_labels[keep]).predict(queries)
    counted = labels != 2**50 + 3
    found = nearest_centroid_accuracy(queries, labels, gallery[keep], gallery_labels[keep])
    assert found == np.mean(predicted[counted] == labels[counted])
    assert 0.2 < found < 0.9


def test_alone_a_query_is_no_part_of_its_own_mean():
    points, labels = clusters(3, 50)
    labels[0] = 5  # alone in its class: not counted, but its mean competes
    correct = []
    for row in range(1, 50):
        others = np.arange(50) != row
        predicted = NearestCentroid().fit(points[others], labels[others]).predict(points[row : row + 1])
        correct.append(predicted[0] == labels[row])
    assert nearest_centroid_accuracy(points, labels) == np.mean(correct)


def test_labels_without_a_mean_are_refused():
    with pytest.raises(InvalidInput, match="no query with another item of its class"):
        nearest_centroid_accuracy(np.eye(3), np.arange(3))
    with pytest.raises(InvalidInput, match="no query with another item of its class"):
        nearest_centroid_accuracy(np.eye(3), np.arange(3), np.eye(3), np.arange(3, 6))


def test_class_table_averages_the_queries_of_each_class():
    points, labels = clusters(4, 80)
    labels[7] = 3  # not evaluated
    result = evaluate_retrieval(points, labels)
    table = class_table(result, labels)
    assert table.labels.tolist() == sorted({*labels.tolist()} - {3})
    for place, label in enumerate(table.labels):
        rows = [i for i, row in enumerate(result.query_rows) if labels[row] == label]
        assert table.num_queries[place] == len(rows)
        for name in ("precision_at_1", "r_precision", "map_at_r"):
            expected = np.mean([getattr(result, f"per_query_{name}")[row] for row in rows])
            np.testing.assert_allclose(getattr(table, name)[place], expected, rtol=1e-12)
    with pytest.raises(InvalidInput, match="query labels: received 9, expected as many"):
        class_table(result, labels[:9])
