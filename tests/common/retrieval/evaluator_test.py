import numpy as np
import pytest

from common.errors import InvalidInput
from common.retrieval import combine_embeddings, evaluate_retrieval

RECALL_AT = (1, 2, 4, 8, 40)
NAMES = ("P@1", "P@R", "MAP@R", "mAP", *(f"R@{k}" for k in RECALL_AT))


def metrics_of(hits):
    hits = np.array(hits, np.float64)
    num_relevant, found = int(hits.sum()), hits * np.cumsum(hits) / np.arange(1, len(hits) + 1)
    first_r, recall = hits[:num_relevant].mean(), [float(hits[:k].any()) for k in RECALL_AT]
    return [hits[0], first_r, found[:num_relevant].sum() / num_relevant, found.sum() / num_relevant, *recall]


def oracle(queries, labels, gallery, gallery_labels, similarity, exclude_same_row=False):
    """Values `[orders, queries, metrics]` (by index, relevant items last and first), and how many have none."""
    without_self = gallery is None or exclude_same_row
    if gallery is None:
        gallery, gallery_labels = queries, labels
    table, num_excluded = [], 0
    for row, (query, label) in enumerate(zip(queries.astype(np.float64), labels)):
        items = []
        for item, other in enumerate(gallery.astype(np.float64)):
            if not (without_self and item == row):
                farness = ((query - other) ** 2).sum() if similarity == "euclidean" else -(query * other).sum()
                items.append((float(farness), item, int(gallery_labels[item]) == int(label)))
        if not any(hit for *_, hit in items):
            num_excluded += 1
            continue
        orders = [sorted(items), sorted(items, key=lambda x: (x[0], x[2])), sorted(items, key=lambda x: (x[0], -x[2]))]
        table.append([metrics_of([hit for *_, hit in order]) for order in orders])
    return np.array(table).reshape(-1, 3, len(NAMES)).transpose(1, 0, 2), num_excluded


KINDS = (
    "ties",
    "duplicates",
    "all equal",
    "nearly equal",
    "far scales",
    "not finite",
    "one class",
    "only singletons",
    "huge labels",
    "continuous",
)
CASES_PER_KIND = 60


def random_embeddings(rng, kind, num_items, dim):
    """Embeddings `[num_items, dim]` whose order floats can hardly, or not, tell."""
    if kind == "ties":
        return rng.integers(-1, 2, (num_items, dim)).astype(np.float32)
    if kind == "all equal":
        return np.full((num_items, dim), rng.choice([0.0, 0.3, -7.0]), np.float32)
    if kind == "nearly equal":  # a few float32 units in the last place apart
        return (1 + rng.integers(0, 4, (num_items, dim)) * 2.0**-23).astype(np.float32)
    if kind == "far scales":
        exponent = int(rng.choice([-150, -60, 60, 150, 350]))  # float64 holds squares of the first beside the last
        values = rng.integers(-3, 4, (num_items, dim)) * 2.0**exponent
        return values.astype(np.float32) if abs(exponent) == 60 else values
    if kind == "duplicates":
        distinct = rng.standard_normal((max(1, num_items // 3), dim)).astype(np.float32)
        return distinct[rng.integers(0, len(distinct), num_items)]
    embeddings = rng.standard_normal((num_items, dim)).astype(rng.choice([np.float16, np.float32, np.float64]))
    if kind == "not finite":
        embeddings[rng.integers(num_items), rng.integers(dim)] = rng.choice([np.nan, np.inf, -np.inf])
    return embeddings


@pytest.mark.parametrize("with_gallery", [False, True])
def test_items_that_share_one_of_several_labels_are_relevant(with_gallery):
    rng = np.random.default_rng(0)
    queries, gallery = rng.integers(-1, 2, (2, 60, 3)).astype(np.float32)
    labels, gallery_labels = rng.random((2, 60, 11)) < 0.06  # more than a byte of classes
    if not with_gallery:
        gallery, gallery_labels = queries, labels
    rows = []
    for query, own in enumerate(labels):
        others = [item for item in range(60) if with_gallery or item != query]
        others.sort(key=lambda item: (((queries[query] - gallery[item]) ** 2).sum(), item))
        hits = [any(a and b for a, b in zip(own, gallery_labels[item])) for item in others]
        rows += [metrics_of(hits)] if any(hits) else []
    assert 10 < len(rows) < 60
    data = (queries, labels, gallery, gallery_labels) if with_gallery else (queries, labels)
    found = evaluate_retrieval(*data, recall_at=RECALL_AT, average_precision=True)
    assert (found.num_queries, found.num_excluded_queries) == (len(rows), 60 - len(rows))
    figures = found.as_dict()
    np.testing.assert_allclose([figures[name] for name in NAMES], np.mean(rows, axis=0), rtol=1e-12)


def test_several_labels_need_the_same_classes_on_both_sides():
    points = np.eye(3, dtype=np.float32)
    for labels in (np.arange(3), np.eye(3, 4, dtype=bool)):
        with pytest.raises(InvalidInput, match="of the same classes on both sides"):
            evaluate_retrieval(points, np.eye(3, dtype=bool), points, labels)


def random_labels(rng, kind, num_items, num_classes):
    """Labels `[num_items]`; those of kind "huge labels" are equal to each other as float64."""
    if kind == "one class":
        return np.full(num_items, 7)
    if kind == "only singletons":
        return rng.permutation(num_items) + 2**53
    labels = rng.integers(0, num_classes, num_items)
    if kind != "huge labels":
        return labels
    base, dtype = [(2**53, np.int64), (-(2**63), np.int64), (2**63, np.uint64), (10**30, object)][rng.integers(4)]
    return np.array([int(label) + base for label in labels], dtype)


def random_case(rng, kind):
    """Queries and labels, and half of the time a gallery."""
    num_items, dim = int(rng.integers(2, 26)), int(rng.integers(1, 6))
    num_classes = int(rng.choice([1, 3, num_items]))
    labels = random_labels(rng, kind, num_items, num_classes)
    case = [random_embeddings(rng, kind, num_items, dim), labels, None, None]
    if kind != "only singletons" and rng.random() < 0.4:
        num_items = int(rng.integers(1, 40))
        case[2] = random_embeddings(rng, kind, num_items, dim)
        case[3] = rng.permutation(np.resize(labels, num_items))
    return case


def assert_equals_oracle(result, expected, num_excluded):
    assert (result.num_queries, result.num_excluded_queries) == (expected.shape[1], num_excluded)
    per_query = [result.per_query_precision_at_1, result.per_query_r_precision, result.per_query_map_at_r]
    np.testing.assert_allclose(np.stack(per_query, axis=1), expected[0, :, :3], atol=1e-12)
    figures = result.as_dict()
    for name, (value, *bounds) in zip(NAMES, expected.mean(axis=1).T):
        if name in figures:
            np.testing.assert_allclose(figures[name], value, atol=1e-12)
        if result.tie_bounds and name in figures:
            np.testing.assert_allclose(result.tie_bounds[name], bounds, atol=1e-12, err_msg=name)
    assert {*NAMES} - {*figures} <= {"mAP"}


def documented_error(case, expected):
    """The message that a case must raise, or None if it has a value."""
    alone = [("Invalid", case[0])]
    for name, embeddings in alone if case[2] is None else [("gallery", case[2]), ("query", case[0])]:
        bad = np.flatnonzero(~np.isfinite(embeddings).all(axis=1))
        if len(bad):
            return f"{name} embeddings: received 'NaN or infinity in row {bad[0]}'"
    return None if expected is None or expected.size else "no query with a relevant item"


@pytest.mark.parametrize("kind", KINDS)
def test_adversarial_cases_equal_the_oracle_or_raise_what_is_documented(kind, monkeypatch):
    rng = np.random.default_rng(len(kind) + sum(map(ord, kind)))
    outcomes = {"value": 0, "error": 0}
    for number in range(CASES_PER_KIND):
        path = "common.retrieval.search.nearest_neighbors._ROW_SEARCH_FRACTION"
        monkeypatch.setattr(path, (1 / 32, 2.0)[number % 2])  # rows in float64, tiles in float32
        case, similarity = random_case(rng, kind), str(rng.choice(["euclidean", "inner_product"]))
        exclude_same_row = case[2] is None and rng.random() < 0.3
        if exclude_same_row:
            case[2:] = random_embeddings(rng, kind, *case[0].shape), case[1]
        expected, num_excluded = (None, 0) if kind == "not finite" else oracle(*case, similarity, exclude_same_row)
        options = {"recall_at": RECALL_AT, "similarity": similarity, "exclude_same_row": exclude_same_row}
        options |= {"block_size": int(rng.integers(1, 40)), "num_threads": 1}
        options |= {name: bool(rng.random() < 0.5) for name in ("tie_bounds", "average_precision")}
        message = documented_error(case, expected)
        if message is None:
            result = evaluate_retrieval(*case, **options)
            assert_equals_oracle(result, expected, num_excluded)
            assert ("mAP" in result.as_dict(), bool(result.tie_bounds)) == (
                options["average_precision"],
                options["tie_bounds"],
            )
        else:
            with pytest.raises(InvalidInput, match=message):
                evaluate_retrieval(*case, **options)
        outcomes["value" if message is None else "error"] += 1
    if kind in ("not finite", "only singletons"):
        assert outcomes == {"value": 0, "error": CASES_PER_KIND}
    else:
        assert outcomes["value"] > 0.7 * CASES_PER_KIND


def clustered_case(seed, num_items=300, dim=8, num_classes=40):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, num_classes, num_items)
    centers = rng.standard_normal((num_classes, dim))
    return (centers[labels] + rng.standard_normal((num_items, dim))).astype(np.float32), labels


def test_labels_of_mixed_and_unlimited_size():
    queries, gallery = np.float32([[0], [5]]), np.float32([[0.1], [5.1]])
    mixed = evaluate_retrieval(queries, np.int64([2**62, 2**62 + 1]), gallery, np.uint64([2**62 + 1, 2**62]))
    assert mixed.precision_at_1 == 0.0
    huge = evaluate_retrieval(queries, [10**30, 10**30 + 1], gallery, [10**30, 10**30 + 1])
    assert huge.precision_at_1 == 1.0


@pytest.mark.parametrize("row_search_fraction", [1 / 32, 2.0])
def test_deep_recall_of_hard_queries(row_search_fraction, monkeypatch):
    monkeypatch.setattr("common.retrieval.search.nearest_neighbors._ROW_SEARCH_FRACTION", row_search_fraction)
    monkeypatch.setattr("common.retrieval.evaluator._PAIRS_AT_ONCE", 50)
    embeddings, labels = clustered_case(7, num_items=400, num_classes=80)
    labels = np.random.default_rng(8).permutation(labels)
    recall_at = (1, 10, 100, 300)
    result = evaluate_retrieval(embeddings, labels, recall_at=recall_at, block_size=64)
    distance = ((embeddings[:, np.newaxis].astype(np.float64) - embeddings) ** 2).sum(axis=2)
    np.fill_diagonal(distance, np.inf)
    hits = labels[np.argsort(distance, axis=1, kind="stable")] == labels[:, np.newaxis]
    hits[:, -1] = False
    hits = hits[hits.any(axis=1)]
    assert result.recall_at == pytest.approx({k: hits[:, :k].any(axis=1).mean() for k in recall_at})


def test_a_tie_with_the_first_item_that_no_figure_needs_counts():
    result = evaluate_retrieval([[0.0]], [1], [[1.0], [-1.0]], [1, 0], recall_at=(1,), tie_bounds=True)
    assert result.tie_bounds == {"P@1": (0.0, 1.0), "P@R": (0.0, 1.0), "MAP@R": (0.0, 1.0), "R@1": (0.0, 1.0)}


def test_a_tie_of_a_hit_that_comes_late_counts():
    gallery, labels = np.r_[np.arange(1.0, 18.0), 18.0, -18.0], np.r_[np.zeros(17, int), 1, 0]
    options = {"recall_at": (18, 20), "tie_bounds": True}
    result = evaluate_retrieval([[0.0]], [1], gallery[:, None], labels, **options)
    assert result.recall_at == {18: 1.0, 20: 1.0}
    assert [result.tie_bounds[name] for name in ("R@18", "R@20", "P@1")] == [(0.0, 1.0), (1.0, 1.0), (0.0, 0.0)]


def test_a_sample_says_how_many_of_all_queries_have_nothing_to_find():
    embeddings, labels = np.random.default_rng(0).normal(size=(203, 4)), np.r_[np.arange(200) // 2, 500:503]
    assert evaluate_retrieval(embeddings, labels, sample_queries=100).num_excluded_queries == 3


@pytest.mark.parametrize(
    ("given", "options", "message"),
    [
        ([np.zeros(4, np.float32)], {}, "query labels.*integers"),
        ([np.zeros(3, int)], {}, r"query labels.*integers \[4\]"),
        ([["a", "b", "a", "b"]], {}, "query labels.*integers"),
        ([np.arange(4)], {}, "no query with a relevant item"),
        ([np.zeros(4, int), np.eye(4)], {}, "alone"),
        ([np.zeros(4, int), np.eye(4)[1:], np.zeros(3, int)], {"exclude_same_row": True}, "gallery.*3 rows.*4"),
        *(([np.zeros(4, int)], {"recall_at": recall_at}, "recall_at") for recall_at in ((), (0, 1))),
    ],
)
def test_bad_input_is_refused(given, options, message):
    with pytest.raises(InvalidInput, match=message):
        evaluate_retrieval(np.eye(4, dtype=np.float32), *given, **options)


def test_combined_embeddings_are_unit_vectors_of_equal_parts():
    rng = np.random.default_rng(10)
    models = [rng.standard_normal((6, dim)).astype(np.float32) * scale for dim, scale in ((3, 1), (4, 100), (2, 0.01))]
    combined = combine_embeddings(models)
    assert combined.shape == (6, 9)
    assert combined.dtype == np.float32
    expected = np.concatenate([m / np.linalg.norm(m, axis=1, keepdims=True) for m in models], axis=1) / np.sqrt(3)
    np.testing.assert_allclose(combined, expected, rtol=1e-6)
    np.testing.assert_array_equal(combine_embeddings([np.zeros((2, 3), np.float32)]), np.zeros((2, 3)))
    with pytest.raises(InvalidInput, match="all of the same items"):
        combine_embeddings([np.ones((2, 3)), np.ones((3, 3))])
