"""Measures beside those of the evaluator."""

import itertools

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from sklearn.metrics import average_precision_score, ndcg_score, roc_auc_score
from sklearn.neighbors import NearestCentroid

from common.errors import InvalidInput
from common.retrieval import (
    NeighborSearch,
    class_metrics,
    class_table,
    evaluate_hierarchy,
    evaluate_retrieval,
    evaluate_with_junk,
    find_nearest_neighbors,
    first_hit_rank,
    hierarchical_average_precision,
    junk_lists,
    lorentz_factors,
    map_at_r,
    match_sequences,
    ndcg,
    nearest_centroid_accuracy,
    open_set_rejection,
    precision_at_1,
    r_precision,
    recall_at_k,
)
from tests.support import poincare_ball

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
    for metric, plain in (
        (ndcg, plain_ndcg),
        (hierarchical_average_precision, plain_hierarchical_average_precision),
    ):
        np.testing.assert_allclose(metric(shared), [plain(row.tolist()) for row in shared], rtol=1e-13)
        np.testing.assert_allclose(metric(np.array([[3, 2, 2, 1, 1, 1, 0]])), 1.0, rtol=1e-13)
        assert metric(np.zeros((1, 4), int)) == 0.0
    average = [average_precision_score(row > 0, -np.arange(17)) for row in shared[:5]]
    np.testing.assert_allclose(hierarchical_average_precision(shared[:5]), average, rtol=1e-13)


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


KS = (1, 3, 10)


def lists(seed, num_queries, num_items):
    rng = np.random.default_rng(seed)
    orders = [rng.permutation(num_items) for _ in range(num_queries)]
    sizes = rng.integers(1, 9, (num_queries, 2))
    return [o[:p] for o, (p, _) in zip(orders, sizes)], [o[p : p + j] for o, (p, j) in zip(orders, sizes)]


def loop(query, gallery, positives, junk, rule, depth):
    """One query's AP and P@k, walking down the ranking."""
    order = sorted(range(len(gallery)), key=lambda item: (-float(gallery[item] @ query), item))
    rank, found, area, last = 0, 0, 0.0, 0
    hits = []
    for item in order:
        if item in junk:
            continue
        before = found / rank if rank else 1.0
        rank += 1
        hits.append(item in positives)
        if item in positives:
            found, last = found + 1, rank
            if depth is None or rank <= depth:
                area += (before + found / rank) / 2 if rule == "trapezoid" else found / rank
    sizes = [min(k, last) for k in KS]
    total = len(positives) if depth is None else min(len(positives), depth)
    return area / total, [sum(hits[:size]) / size for size in sizes]


@pytest.mark.parametrize("rule", ["trapezoid", "sum"])
@pytest.mark.parametrize("depth", [None, 4])
def test_equals_a_walk_down_the_ranking(rule, depth, monkeypatch):
    monkeypatch.setattr(junk_lists, "_RANKS_AT_ONCE", 120)
    rng = np.random.default_rng(5)
    queries, gallery = rng.integers(-2, 3, (9, 3)).astype(np.float32), rng.integers(-2, 3, (40, 3)).astype(np.float32)
    positives, junk = lists(6, 9, 40)
    positives[4] = []
    found = evaluate_with_junk(queries, gallery, positives, junk, rule=rule, depth=depth, precision_at=KS)
    rows = [row for row in range(9) if row != 4]
    expected = [loop(queries[row], gallery, {*positives[row]}, {*junk[row]}, rule, depth) for row in rows]
    np.testing.assert_allclose(found.average_precision[rows], [ap for ap, _ in expected], rtol=1e-12)
    assert np.isnan(found.average_precision[4])
    assert found.num_excluded_queries == 1
    np.testing.assert_allclose(found.mean_average_precision, np.mean([ap for ap, _ in expected]), rtol=1e-12)
    means = np.mean([precisions for _, precisions in expected], axis=0)
    np.testing.assert_allclose([found.mean_precision_at[k] for k in KS], means, rtol=1e-12)


@pytest.mark.parametrize(
    ("positives", "junk", "options", "message"),
    [
        ([[0], [1]], [[0], []], {}, "row 0 as positive and junk of query 0"),
        ([[0], [5]], [[], []], {}, r"positives: received \[5\], expected rows of the gallery, 0..3"),
        ([[0]], [[], []], {}, "lists: received '1 of positives and 2 of junk'"),
        ([[], []], [[], [1]], {}, "expected a query with something to find"),
        ([[0], [1]], [[], []], {"rule": "area"}, "rule: received 'area'"),
        ([[0], [1]], [[], []], {"depth": 0}, "k: received 0"),
    ],
)
def test_wrong_lists_are_refused(positives, junk, options, message):
    with pytest.raises(InvalidInput, match=message):
        evaluate_with_junk(np.eye(2, 4), np.eye(4), positives, junk, **options)


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
    first = values.argmax(axis=1)  # of equal ones the first
    for share, rate in ((0.01, found.identified_at_1), (0.05, found.identified_at_5)):
        limit = min(each for each in outside if np.mean(outside > each) <= share)
        assert rate == np.mean((gallery_labels[first] == labels)[known] & (inside > limit))
    assert found.identified_at_1 <= found.identified_at_5 < 1
    assert 0 < found.false_positive_rate < 1


@pytest.mark.parametrize("alone", [True, False])
def test_classes_that_are_left_out_are_unknown_as_if_the_gallery_lacked_them(alone):
    rng, labels = np.random.default_rng(2), np.repeat(np.arange(12), 4)
    points = rng.normal(size=(12, 4))[labels] + 0.5 * rng.normal(size=(48, 4))
    kept = labels > 2
    arrays = [points, labels] if alone else [points, labels, points + 0.3, labels]
    found = open_set_rejection(*arrays, left_out=[0, 1, 2])
    assert (found.num_known, found.num_unknown) == (36, 12)
    if not alone:
        assert found == open_set_rejection(points, labels, points[kept] + 0.3, labels[kept])
        return
    distances = cdist(points, points)
    distances[:, ~kept] = distances[np.arange(48), np.arange(48)] = np.inf
    scores = -distances.min(axis=1)
    assert found.area_under_roc == pytest.approx(roc_auc_score(kept, scores), rel=1e-12)


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


def objective(matches, frames, others, disorder, repetition, gap, outlier):
    """Equation 7.1 for one map."""
    total = sum(
        outlier if match == 0 else ((frame - others[match - 1]) ** 2).sum() for frame, match in zip(frames, matches)
    )
    for before, after in zip(matches, matches[1:]):
        total += disorder * (before > after) + repetition * (before == after)
        total += gap * (after - before) if before + 1 < after else 0
    return total


@pytest.mark.parametrize("seed", range(8))
def test_the_match_is_the_best_of_all_maps(seed):
    rng = np.random.default_rng(seed)
    frames, others = rng.normal(size=(5, 3)), rng.normal(size=(3, 3))
    weights = dict(zip(("disorder", "repetition", "gap", "outlier"), rng.uniform(0, 4, size=4)))
    maps = list(itertools.product(range(4), repeat=5))
    costs = [objective(matches, frames, others, **weights) for matches in maps]
    found = match_sequences(frames, others, **weights)
    assert found.cost == pytest.approx(min(costs), rel=1e-12)
    np.testing.assert_array_equal(found.matches, maps[int(np.argmin(costs))])


def test_infinite_weights_forbid():
    frames, others = np.array([[2.0], [1.0], [0.0]]), np.array([[0.0], [1.0], [2.0]])
    found = match_sequences(frames, others, disorder=np.inf, repetition=np.inf, gap=np.inf)
    np.testing.assert_array_equal(found.matches, [1, 2, 3])
    assert found.cost == 8


FINE = np.random.default_rng(0).integers(0, 9, 50)
LEVELS = np.stack([FINE, FINE // 3, FINE // 6], axis=1)
POINTS = np.random.default_rng(1).integers(-2, 3, (50, 3)).astype(np.float32)  # with ties


@pytest.mark.parametrize("with_gallery", [False, True])
def test_each_level_and_all_at_once_equal_plain_loops(with_gallery):
    gallery = (POINTS[30:] + 0.25, LEVELS[30:]) if with_gallery else ()
    found = evaluate_hierarchy(POINTS, LEVELS, *gallery)
    others, levels = gallery or (POINTS, LEVELS)
    graded = []
    for query, own in enumerate(LEVELS):
        items = [item for item in range(len(others)) if with_gallery or item != query]
        items.sort(key=lambda item: (((POINTS[query] - others[item]) ** 2).sum(), item))
        graded.append([sum(a == b for a, b in zip(own, levels[item])) for item in items])
    graded = [shared for shared in graded if any(shared)]
    assert found.ndcg == pytest.approx(np.mean([plain_ndcg(shared) for shared in graded]), rel=1e-12)
    expected = np.mean([plain_hierarchical_average_precision(shared) for shared in graded])
    assert found.hierarchical_map == pytest.approx(expected, rel=1e-12)
    for level, result in enumerate(found.by_level):
        of_level = (others, levels[:, level]) if with_gallery else ()
        assert result.as_dict() == evaluate_retrieval(POINTS, LEVELS[:, level], *of_level).as_dict()
    assert found.as_dict()["L3 MAP@R"] == found.by_level[2].map_at_r


def test_what_is_no_hierarchy():
    with pytest.raises(InvalidInput, match=r"class 0 of level 1 in \[0, 1\] of level 2"):
        evaluate_hierarchy(POINTS, np.stack([FINE // 5, FINE % 2], axis=1))
    for gallery in ((POINTS, LEVELS[:, :2]), (POINTS, FINE)):
        with pytest.raises(InvalidInput, match="levels: .*as many each"):
            evaluate_hierarchy(POINTS, LEVELS, *gallery)


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
