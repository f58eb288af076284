import numpy as np
import pytest

from common.errors import InvalidInput
from common.retrieval import evaluate_with_junk, junk_lists

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
