from dataclasses import fields

import numpy as np
import pytest

from common.errors import InvalidInput
from common.retrieval import evaluate_retrieval, merge_scores, score_queries

METRICS = {"recall_at": (1, 2, 40), "num_threads": 1}


def case(kind, num_items=240):
    """Embeddings whose nearest are tied, equal or neither, and labels of which some stand alone."""
    rng = np.random.default_rng(len(kind))
    labels = rng.integers(0, num_items // 3, num_items)
    embeddings = rng.standard_normal((num_items // 3, 3))[labels] + 0.6 * rng.standard_normal((num_items, 3))
    if kind == "ties":
        embeddings = np.round(embeddings)
    if kind == "duplicates":
        embeddings = embeddings[rng.integers(0, num_items, num_items)]
    return embeddings.astype(np.float32), labels


def assert_identical(result, other):
    for field in fields(result):
        found, expected = getattr(result, field.name), getattr(other, field.name)
        if isinstance(expected, np.ndarray):
            assert (found.dtype, found.tobytes()) == (expected.dtype, expected.tobytes()), field.name
        else:
            assert found == expected, field.name


def merged(data, parts, **options):
    return merge_scores([score_queries(*data, query_rows=rows, **METRICS, **options) for rows in parts]).result()


@pytest.mark.parametrize(("with_gallery", "row_search_fraction"), [(False, 1 / 32), (True, 2.0)])
@pytest.mark.parametrize("kind", ["ties", "duplicates", "continuous"])
def test_parts_merged_are_one_evaluation_bit_for_bit(kind, with_gallery, row_search_fraction, monkeypatch):
    monkeypatch.setattr("common.retrieval.search.nearest_neighbors._ROW_SEARCH_FRACTION", row_search_fraction)
    embeddings, labels = case(kind)
    data = (embeddings, labels, embeddings[60:], labels[60:]) if with_gallery else (embeddings, labels)
    for options in (
        {"average_precision": True, "similarity": "inner_product"},
        {},
        {"tie_bounds": True},
        {"tie_bounds": True, "average_precision": True},
    ):
        whole = evaluate_retrieval(*data, **METRICS, **options)
        assert whole.num_excluded_queries > 0
        assert len(set(whole.as_dict().values())) > 5
        assert_identical(merged(data, [range(240)], **options), whole)
        assert_identical(merged(data, [range(150, 240), range(149), range(149, 150)], **options), whole)
        assert_identical(merged(data, [np.arange(start, 240, 3) for start in range(3)], **options), whole)
    if kind != "continuous":
        assert whole.tie_bounds["MAP@R"][0] < whole.tie_bounds["MAP@R"][1]
    repeated = evaluate_retrieval(*data, **{**METRICS, "recall_at": (1, 1, 2, 40)}, **options)
    assert_identical(repeated, whole)


def test_a_part_says_which_of_its_queries_have_something_to_find():
    embeddings, labels = np.float32([[0], [1], [5], [6], [9]]), [4, 7, 7, 8, 4]
    part = score_queries(embeddings, labels, query_rows=[1, 3, 4], recall_at=(1, 2, 4))
    assert (part.rows.tolist(), part.num_excluded_queries) == ([1, 4], 1)
    np.testing.assert_array_equal(part.first_hit, [2, 4])
    assert {name: values.tolist() for name, values in part.by_name().items()} == {
        **{"P@1": [0, 0], "P@R": [0, 0], "MAP@R": [0, 0], "R@1": [0, 0], "R@2": [1, 0], "R@4": [1, 1]}
    }
    result = part.result()
    assert (result.num_queries, result.num_excluded_queries) == (2, 1)
    assert result.sampled_from is result.intervals is None


@pytest.mark.parametrize("rows", [[], [3], range(3, 5)])
def test_a_part_with_nothing_to_find_has_no_means_and_merges(rows):
    data = np.float32([[0], [1], [5], [6], [9]]), np.array([7, 7, 7, 8, 9])
    options = {"tie_bounds": True, "average_precision": True, "num_threads": 1}
    part = score_queries(*data, query_rows=rows, **options)
    assert (len(part.rows), part.num_excluded_queries) == (0, len(rows))
    with pytest.raises(InvalidInput, match="no query with a relevant item"):
        part.result()
    others = score_queries(*data, query_rows=np.setdiff1d(np.arange(5), rows), **options)
    assert_identical(merge_scores([others, part]).result(), evaluate_retrieval(*data, **options))


def test_wrong_rows_and_parts_that_do_not_belong_together_are_refused():
    data = case("ties", 30)
    for rows in ([0, 30], [-1, 0], [2, 1], [1, 1], [0.0, 1.0], [[0, 1]], 3):
        with pytest.raises(InvalidInput, match=r"query_rows.*increasing integers in 0\.\.29"):
            score_queries(*data, query_rows=rows)
    part, other = (score_queries(*data, query_rows=rows, **METRICS) for rows in (range(20), range(20, 30)))
    deeper = score_queries(*data, query_rows=range(20, 30), recall_at=(1, 3))
    bounded = score_queries(*data, query_rows=range(20, 30), tie_bounds=True, **METRICS)
    for parts in ([], [part, deeper], [part, bounded]):
        with pytest.raises(InvalidInput, match="scores to merge.*of the same metrics"):
            merge_scores(parts)
    doubled = part.rows[3]
    with pytest.raises(InvalidInput, match=f"scores to merge.*query {doubled} twice"):
        merge_scores([part, other, score_queries(*data, query_rows=[doubled], **METRICS)])
