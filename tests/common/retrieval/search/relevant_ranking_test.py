"""mAP, the ties of every metric and the metrics themselves against a float64 oracle in plain Python."""

import numpy as np
import pytest

from common.errors import InvalidInput
from common.retrieval import evaluate_retrieval

RECALL_AT = (1, 3, 20)
NAMES = ("P@1", "P@R", "MAP@R", "mAP", *(f"R@{k}" for k in RECALL_AT))
KINDS = ("ties", "duplicates", "all equal", "continuous", "two points")
NUM_CASES = 1000


def metrics_of(hits):
    num_relevant = sum(hits)
    precisions = [sum(hits[:k]) / k for k in range(1, len(hits) + 1)]
    average = [precision for precision, hit in zip(precisions, hits) if hit]
    within = [precision for precision, hit in zip(precisions[:num_relevant], hits) if hit]
    recall = [float(any(hits[:k])) for k in RECALL_AT]
    first_r = sum(hits[:num_relevant]) / num_relevant
    return [float(hits[0]), first_r, sum(within) / num_relevant, sum(average) / num_relevant, *recall]


def oracle(queries, labels, gallery, gallery_labels, similarity):
    """Values `[orders, queries, metrics]`: by index, relevant items last, relevant items first."""
    without_self = gallery is None
    if without_self:
        gallery, gallery_labels = queries, labels
    table = []
    for row, (query, label) in enumerate(zip(queries.astype(np.float64), labels)):
        items = []
        for item, other in enumerate(gallery.astype(np.float64)):
            if without_self and item == row:
                continue
            nearness = (query * other).sum() if similarity == "inner_product" else -((query - other) ** 2).sum()
            items.append((-float(nearness), item, int(gallery_labels[item]) == int(label)))
        if not any(hit for _, _, hit in items):
            continue
        orders = [sorted(items), sorted(items, key=lambda x: (x[0], x[2])), sorted(items, key=lambda x: (x[0], -x[2]))]
        table.append([metrics_of([hit for _, _, hit in order]) for order in orders])
    return np.array(table).transpose(1, 0, 2) if table else None


def points(rng, kind, num_items, dim):
    if kind == "ties":
        return rng.integers(-1, 2, (num_items, dim)).astype(np.float32)
    if kind == "all equal":
        return np.full((num_items, dim), rng.choice([0.0, 0.3, -7.0]), np.float32)
    if kind == "duplicates":
        return rng.standard_normal((3, dim)).astype(np.float32)[rng.integers(0, 3, num_items)]
    if kind == "two points":
        return np.eye(2, dim, dtype=np.float16)[rng.integers(0, 2, num_items)]
    return rng.standard_normal((num_items, dim)).astype(rng.choice([np.float16, np.float32, np.float64]))


def adversarial_case(rng):
    kind, similarity = str(rng.choice(KINDS)), str(rng.choice(["euclidean", "inner_product"]))
    num_items, dim = int(rng.integers(2, 13)), int(rng.integers(1, 5))
    num_classes = int(rng.choice([1, 3, num_items, 40]))  # one class; few; many; singletons nearly only
    offset = int(rng.choice([0, -(2**62), 2**53, 2**60]))
    data = [points(rng, kind, num_items, dim), rng.integers(0, num_classes, num_items) + offset, None, None]
    if rng.random() < 0.4:
        size = int(rng.integers(1, 13))
        data[2:] = points(rng, kind, size, dim), rng.integers(0, num_classes + 1, size) + offset
    if rng.random() < 0.1:
        data[0] = data[0].copy()
        data[0][rng.integers(num_items), rng.integers(dim)] = rng.choice([np.nan, np.inf, -np.inf])
    return data, {"similarity": similarity, "recall_at": RECALL_AT, "block_size": int(rng.integers(1, 30))}


@pytest.mark.slow
@pytest.mark.parametrize("average_precision", [False, True])
def test_1000_adversarial_cases_equal_the_oracle_or_raise(average_precision):
    rng = np.random.default_rng(int(average_precision))
    outcomes = {"equal": 0, "not finite": 0, "nothing to find": 0}
    for _ in range(NUM_CASES // 2):
        data, options = adversarial_case(rng)
        options |= {"tie_bounds": True, "average_precision": average_precision, "num_threads": 2}
        if not np.isfinite(data[0]).all():
            row = np.flatnonzero(~np.isfinite(data[0]).all(axis=1))[0]
            with pytest.raises(InvalidInput, match=f"NaN or infinity in row {row}.*expected finite"):
                evaluate_retrieval(*data, **options)
            outcomes["not finite"] += 1
            continue
        expected = oracle(*data, options["similarity"])
        if expected is None:
            with pytest.raises(InvalidInput, match="no query with a relevant item"):
                evaluate_retrieval(*data, **options)
            outcomes["nothing to find"] += 1
            continue
        result = evaluate_retrieval(*data, **options)
        assert ("mAP" in result.as_dict()) == ("mAP" in result.tie_bounds) == average_precision
        for name, (value, low, high) in zip(NAMES, expected.mean(axis=1).T):
            if name in result.tie_bounds:
                found = (result.as_dict()[name], *result.tie_bounds[name])
                np.testing.assert_allclose(found, (value, low, high), atol=1e-12, err_msg=name)
        outcomes["equal"] += 1
    assert min(outcomes.values()) > 20, outcomes
    assert outcomes["equal"] > 300, outcomes


def test_without_ties_the_bounds_are_the_value():
    rng = np.random.default_rng(0)
    result = evaluate_retrieval(
        rng.normal(size=(60, 4)), rng.integers(0, 5, 60), average_precision=True, tie_bounds=True
    )
    figures = result.as_dict()
    assert result.tie_bounds == {name: (figures[name], figures[name]) for name in result.tie_bounds}


def test_a_collapsed_embedding_scores_chance_and_may_score_nothing():
    labels = np.repeat(np.arange(250), 4)
    result = evaluate_retrieval(np.ones((1000, 8)), labels, tie_bounds=True, average_precision=True)
    assert all(low < 0.02 for name, (low, _) in result.tie_bounds.items()), result.tie_bounds
    assert all(high == 1.0 for _, high in result.tie_bounds.values())
    assert result.precision_at_1 < 0.02
    assert result.map_at_r < 0.02
    assert result.mean_average_precision < 0.02


def test_average_precision_looks_at_the_whole_ranking():
    # Query 0: positives at ranks 1 and 4. The others have the ranks that their places on the line give.
    embeddings, labels = np.float32([[0], [1], [2], [3], [10]]), np.array([0, 0, 1, 2, 0])
    result = evaluate_retrieval(embeddings, labels, average_precision=True)
    first, second, last = (1 + 2 / 4) / 2, (1 + 2 / 4) / 2, (1 / 3 + 2 / 4) / 2
    assert result.mean_average_precision == pytest.approx((first + second + last) / 3)
