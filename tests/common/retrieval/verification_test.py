import numpy as np
import pytest
from sklearn.metrics import roc_auc_score, roc_curve
from sklearn.preprocessing import normalize

from common.errors import InvalidInput
from common.retrieval import operating_point_inconsistency, verification as module, verify_pairs


@pytest.fixture(params=["alone", "gallery"])
def case(request, monkeypatch):
    """Arrays; of all pairs the cosine, the class of the query and that of the other."""
    monkeypatch.setattr(module, "_BLOCK", 7)
    rng = np.random.default_rng(3)
    centers, spreads = rng.normal(size=(5, 3)), np.linspace(0.2, 1.5, 5)
    sides = []
    for size in (40, 23):
        labels = rng.integers(0, 5, size)
        labels[0] = 9 - size % 2  # classes of one item
        points = centers[labels % 5] + spreads[labels % 5, None] * rng.normal(size=(size, 3))
        sides.append((np.float32(points * rng.uniform(1e-30, 5, (size, 1))), labels * 2**40))
    sides = sides[:1] if request.param == "alone" else sides
    units = [normalize(points.astype(np.float64)) for points, _ in sides]
    cosines = units[0] @ units[-1].T
    query, other = np.triu_indices(40, 1) if len(sides) == 1 else np.indices(cosines.shape).reshape(2, -1)
    return [array for side in sides for array in side], cosines[query, other], sides[0][1][query], sides[-1][1][other]


def on_grid(cosine):
    return np.floor((cosine + 1) * 2**15) / 2**15 - 1


def test_rates_are_shares_of_pairs(case):
    arrays, cosines, one, other = case
    found = verify_pairs(*arrays)
    genuine, impostor = cosines[one == other], cosines[one != other]
    assert (found.num_genuine, found.num_impostor) == (len(genuine), len(impostor))
    for place in (0, 1, 20_000, 40_000, 60_000, 2**16):
        threshold = found.thresholds[place]
        assert found.false_match[place] == np.mean(impostor >= threshold)
        assert found.false_non_match[place] == np.mean(genuine < threshold)
    for rate in (0.0, 0.01, 0.3, 1.0):
        threshold = next(t for t in found.thresholds if np.mean(impostor >= t) <= rate)
        assert found.false_non_match_at(rate) == np.mean(genuine < threshold)


def test_areas_and_equal_errors_are_those_of_scikit_learn(case):
    arrays, cosines, one, other = case
    found = verify_pairs(*arrays)
    scores, same = on_grid(cosines), one == other
    np.testing.assert_allclose(found.area_under_roc, roc_auc_score(same, scores), rtol=1e-12)
    np.testing.assert_allclose(found.area_under_roc, roc_auc_score(same, cosines), atol=1e-3)
    false_match, match, _ = roc_curve(same, scores, drop_intermediate=False)
    rates = np.linspace(0, 1, 200_001)
    gaps = np.abs(1 - np.interp(rates, false_match, match) - rates)
    np.testing.assert_allclose(found.equal_error_rate, rates[np.argmin(gaps)], atol=1e-5)
    names = found.as_dict()
    assert list(names) == ["FNMR@1e-2", "EER", "AUC"]  # fewer than 1,000 pairs of different classes
    assert names["FNMR@1e-2"] == found.false_non_match_at(0.01)


def test_opis_equals_loops_over_classes(case):
    arrays, cosines, one, other = case
    found = verify_pairs(*arrays)
    low, high = 0.05, 0.4
    rates = found.false_match
    places = [place for place in range(2**16 + 1) if low <= rates[place] <= high]
    places = np.unique(np.linspace(places[0], places[-1], 256).round().astype(int))
    alone, terms = len(arrays) == 2, []
    for threshold in found.thresholds[places]:
        utilities = []
        for label in np.unique(arrays[1]):
            mine = (one == label) | (alone & (other == label))
            accepted = [cosines[mine & kind] >= threshold for kind in (one != other, one == other)]
            if all(map(len, accepted)):
                specificity, sensitivity = 1 - np.mean(accepted[0]), np.mean(accepted[1])
                total = specificity + sensitivity
                utilities.append(2 * specificity * sensitivity / total if total else 0.0)
        terms.append(np.mean([(utility - np.mean(utilities)) ** 2 for utility in utilities]))
    opis = operating_point_inconsistency(*arrays, false_match=(low, high))
    np.testing.assert_allclose(opis, np.mean(terms), rtol=1e-10)
    assert opis > 1e-3
    assert operating_point_inconsistency(*arrays, false_match=(low, high), verification=found) == opis


def test_labels_without_both_kinds_of_pairs_are_refused():
    points = np.eye(3)
    with pytest.raises(InvalidInput, match="0 pairs of one class and 3 of different"):
        verify_pairs(points, np.arange(3))
    with pytest.raises(InvalidInput, match="3 pairs of one class and 0 of different"):
        verify_pairs(points, np.zeros(3, int))
    with pytest.raises(InvalidInput, match="NaN or infinity in row 1"):
        verify_pairs(np.array([[1.0], [np.nan]]), np.zeros(2, int))
    with pytest.raises(InvalidInput, match="gallery embeddings: received .*2.*expected 3 components"):
        verify_pairs(points, np.arange(3), np.eye(2), np.arange(2))
    with pytest.raises(InvalidInput, match="false_match: received"):
        operating_point_inconsistency(points, np.array([0, 0, 1]), false_match=(0.2, 0.1))


@pytest.mark.parametrize("side", [-1, 1])
def test_a_pair_a_billionth_from_a_threshold_is_on_its_side(side):
    cosine = 0.5 + side * 1e-9
    gallery = np.array([[cosine, np.sqrt(1 - cosine**2)], [-1.0, 0.0]])
    found = verify_pairs(np.array([[1.0, 0.0]]), np.array([0]), gallery, np.array([0, 1]))
    (at_half,) = found.false_non_match[found.thresholds == 0.5]
    assert at_half == (side < 0)
