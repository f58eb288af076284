import numpy as np
import pytest

from common.errors import InvalidInput
from gsp_dml.attention_maps import box_coverage, coverage_auc, target_share, upsample_map, weighted_feature_norm


def test_enlarging_interpolates_between_centres_and_holds_the_border():
    rows = upsample_map(np.array([[0.0, 0.0], [1.0, 1.0]]), 4, 2)
    np.testing.assert_allclose(rows[:, 0], [0, 0.25, 0.75, 1])
    np.testing.assert_allclose(rows[:, 1], rows[:, 0])


def test_a_position_between_tiles_counts_by_its_area():
    weights = np.zeros((4, 9))
    weights[:, 1] = 1.0  # the middle of the upper row of a 3 x 3 map
    np.testing.assert_allclose(target_share(weights, np.arange(4), (3, 3)), [0.5, 0.5, 0, 0])


def test_maps_need_not_be_square():
    weights = np.random.default_rng(0).dirichlet(np.ones(24), size=3)
    expected = weights.reshape(3, 4, 6)[:, 2:, :3].sum((1, 2))
    np.testing.assert_allclose(target_share(weights, np.full(3, 2), (4, 6)), expected)


def test_what_is_zero_adds_nothing_whatever_its_weight():
    features = np.zeros((1, 3, 2))
    features[0, 0] = [3, 4]
    features[0, 1] = [1, 0]
    shares = weighted_feature_norm([[0.1, 0.2, 0.7]], features)
    np.testing.assert_allclose(shares, [[0.5 / 0.7, 0.2 / 0.7, 0]])
    np.testing.assert_allclose(weighted_feature_norm([[0.1, 0.2, 0.7]], np.zeros((1, 3, 2))), 1 / 3)


def test_wrong_shapes_and_tiles_are_named():
    with pytest.raises(InvalidInput, match=r"weights.*\[2, 8\].*3 x 3"):
        target_share(np.ones((2, 8)), [0, 1], (3, 3))
    with pytest.raises(InvalidInput, match="targets.*0 to 4.*0 to 3"):
        target_share(np.ones((2, 9)), [0, 4], (3, 3))


def test_a_box_covers_positions_by_area():
    coverage = box_coverage(np.array([[0, 0, 48, 96], [30, 10, 70, 20]]), (96, 96), (3, 3))
    np.testing.assert_allclose(coverage[0].reshape(3, 3), np.tile([1, 0.5, 0], (3, 1)))
    np.testing.assert_allclose(coverage.mean(axis=1), [0.5, 400 / 96**2])
    assert coverage[1, 3:].sum() == 0


def test_auc_of_whole_positions_is_that_of_scikit_learn():
    metrics = pytest.importorskip("sklearn.metrics")
    generator = np.random.default_rng(0)
    scores, covered = generator.integers(0, 5, (4, 36)) / 4, generator.random((4, 36)) < 0.2
    expected = [metrics.roc_auc_score(*row) for row in zip(covered, scores)]
    np.testing.assert_allclose(coverage_auc(scores, covered), expected)
    assert np.isnan(coverage_auc(scores, np.zeros_like(scores))).all()
    half = coverage_auc(np.array([[3.0, 2.0, 1.0]]), np.array([[1.0, 0.5, 0.0]]))
    np.testing.assert_allclose(half, 1.0)
