import numpy as np
from sklearn.metrics import average_precision_score, ndcg_score

from common.retrieval import (
    first_hit_rank,
    hierarchical_average_precision,
    map_at_r,
    ndcg,
    precision_at_1,
    r_precision,
    recall_at_k,
)

HITS = np.array([[1, 0, 1, 0], [0, 1, 1, 1], [0, 0, 0, 1], [0, 0, 0, 0]], bool)
NUM_RELEVANT = np.array([3, 2, 1, 4])


def test_precisions_count_hits_among_the_first_and_divide_by_r():
    np.testing.assert_array_equal(precision_at_1(HITS), [1, 0, 0, 0])
    np.testing.assert_allclose(r_precision(HITS, NUM_RELEVANT), [2 / 3, 1 / 2, 0, 0])
    np.testing.assert_allclose(map_at_r(HITS, NUM_RELEVANT), [(1 + 2 / 3) / 3, (1 / 2) / 2, 0, 0])
    np.testing.assert_allclose(map_at_r(HITS[:1, :2], NUM_RELEVANT[:1]), 1 / 3)  # of a list shorter than R
    for metric in (r_precision, map_at_r):
        np.testing.assert_array_equal(metric(np.arange(9) < np.array([[3], [9]]), np.array([3, 9])), [1, 1])


def test_first_hit_rank_counts_from_one_and_zero_is_none():
    np.testing.assert_array_equal(first_hit_rank(HITS), [1, 2, 4, 0])
    for k, expected in ((1, [1, 0, 0, 0]), (2, [1, 1, 0, 0]), (4, [1, 1, 1, 0])):
        np.testing.assert_array_equal(recall_at_k(first_hit_rank(HITS), k), expected)


def test_columns_beyond_r_change_no_bit_of_map_at_r():
    """They come with other queries of a block, which may want more neighbours."""
    hits, num_relevant = np.random.default_rng(0).random((200, 60)) < 0.4, np.full(200, 27)
    expected = [map_at_r(row[:27][np.newaxis], np.array([27]))[0] for row in hits]
    for width in range(27, 61):
        np.testing.assert_array_equal(map_at_r(hits[:, :width], num_relevant), expected)


def plain_ndcg(shared):
    return ndcg_score([2.0 ** np.array(shared) - 1], [-np.arange(len(shared))])


def plain_hierarchical_average_precision(shared):
    relevance = [level / max(1, list(shared).count(level)) for level in shared]
    total = 0.0
    for k in range(len(shared)):
        if shared[k]:
            total += sum(min(relevance[j], relevance[k]) for j in range(k + 1)) / (k + 1)
    return total / sum(relevance)


def test_graded_metrics_equal_scikit_learn_and_plain_loops():
    shared = np.random.default_rng(0).integers(0, 4, (30, 17))
    shared[:5] = np.minimum(shared[:5], 1)
    for metric, plain in ((ndcg, plain_ndcg), (hierarchical_average_precision, plain_hierarchical_average_precision)):
        np.testing.assert_allclose(metric(shared), [plain(row.tolist()) for row in shared], rtol=1e-13)
        np.testing.assert_allclose(metric(np.array([[3, 2, 2, 1, 1, 1, 0]])), 1.0, rtol=1e-13)
        assert metric(np.zeros((1, 4), int)) == 0.0
    average = [average_precision_score(row > 0, -np.arange(17)) for row in shared[:5]]
    np.testing.assert_allclose(hierarchical_average_precision(shared[:5]), average, rtol=1e-13)
