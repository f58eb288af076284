import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from common.errors import InvalidInput
from common.retrieval import open_set_rejection


@pytest.mark.parametrize("similarity", ["euclidean", "inner_product"])
@pytest.mark.parametrize("alone", [True, False])
def test_equals_loops_and_scikit_learn(similarity, alone):
    rng = np.random.default_rng(1)
    labels = np.r_[np.repeat(np.arange(20), 3), np.arange(20, 60)]  # classes of three, and of one
    points = rng.normal(size=(60, 4))[labels] + 0.6 * rng.normal(size=(100, 4))
    points = np.round(points * 2) / 2  # with ties
    arrays = [points, labels] if alone else [points, labels, points[:50], labels[:50]]
    gallery, gallery_labels = arrays[-2:]
    scores, known = [], []
    for row, (point, label) in enumerate(zip(points, labels)):
        others = [item for item in range(len(gallery)) if not (alone and item == row)]
        known.append(any(gallery_labels[item] == label for item in others))
        differences = [gallery[item] - point for item in others]
        products = [float(gallery[item] @ point) for item in others]
        scores.append(max(products if similarity == "inner_product" else [-float(d @ d) for d in differences]))
    found = open_set_rejection(*arrays, similarity=similarity)
    assert (found.num_known, found.num_unknown) == (sum(known), 100 - sum(known))
    np.testing.assert_allclose(found.area_under_roc, roc_auc_score(known, scores), rtol=1e-12)
    inside = [score for score, is_known in zip(scores, known) if is_known]
    outside = [score for score, is_known in zip(scores, known) if not is_known]
    enough = [t for t in inside if sum(score >= t for score in inside) >= 0.95 * len(inside)]
    assert found.false_positive_rate == sum(score >= max(enough) for score in outside) / len(outside)
    assert 0 < found.false_positive_rate < 1


def test_queries_of_one_kind_are_refused():
    points = np.eye(4)
    with pytest.raises(InvalidInput, match="received 4 queries with their class in the gallery and 0 without"):
        open_set_rejection(points, np.array([0, 0, 1, 1]))
    with pytest.raises(InvalidInput, match="received 0 queries with"):
        open_set_rejection(points, np.arange(4))
