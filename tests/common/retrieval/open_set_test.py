import numpy as np
import pytest
from scipy.spatial.distance import cdist
from sklearn.metrics import roc_auc_score

from common.errors import InvalidInput
from common.retrieval import open_set_rejection


@pytest.mark.parametrize("similarity", ["euclidean", "inner_product"])
@pytest.mark.parametrize("alone", [True, False])
def test_equals_scikit_learn(similarity, alone):
    rng = np.random.default_rng(1)
    labels = np.r_[np.repeat(np.arange(20), 3), np.arange(20, 60)]  # classes of three, and of one
    points = rng.normal(size=(60, 4))[labels] + 0.6 * rng.normal(size=(100, 4))
    points = np.round(points * 2) / 2  # with ties
    arrays = [points, labels] if alone else [points, labels, points[:50], labels[:50]]
    gallery, gallery_labels = arrays[-2:]
    values = points @ gallery.T if similarity == "inner_product" else -cdist(points, gallery, "sqeuclidean")
    same = labels[:, np.newaxis] == gallery_labels
    if alone:
        np.fill_diagonal(values, -np.inf)
        np.fill_diagonal(same, False)
    scores, known = values.max(axis=1), same.any(axis=1)
    found = open_set_rejection(*arrays, similarity=similarity)
    assert (found.num_known, found.num_unknown) == (sum(known), 100 - sum(known))
    np.testing.assert_allclose(found.area_under_roc, roc_auc_score(known, scores), rtol=1e-12)
    inside, outside = scores[known], scores[~known]
    threshold = max(score for score in inside if np.mean(inside >= score) >= 0.95)
    assert found.false_positive_rate == np.mean(outside >= threshold)
    assert 0 < found.false_positive_rate < 1


def test_queries_of_one_kind_are_refused():
    points = np.eye(4)
    with pytest.raises(InvalidInput, match="received 4 queries with their class in the gallery and 0 without"):
        open_set_rejection(points, np.array([0, 0, 1, 1]))
    with pytest.raises(InvalidInput, match="received 0 queries with"):
        open_set_rejection(points, np.arange(4))


@pytest.mark.parametrize("num_known", [20, 30, 100])
def test_the_threshold_is_the_highest_that_95_percent_of_the_known_reach(num_known):
    known, unknown = np.arange(num_known) + 1.0, np.arange(num_known + 1) + 0.5  # distances to the only item
    reached = [distance for distance in known if np.sum(known <= distance) >= 0.95 * num_known - 1e-9]
    expected = np.mean([distance <= min(reached) for distance in unknown])
    queries, labels = np.r_[known, unknown][:, None], np.repeat([0, 1], [len(known), len(unknown)])
    found = open_set_rejection(queries, labels, np.zeros((1, 1)), np.array([0]))
    assert (found.num_known, found.false_positive_rate) == (num_known, pytest.approx(expected))
