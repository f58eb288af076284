"""How the metrics relate to each other and to their bounds, for embeddings full of ties."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from common.retrieval import evaluate_retrieval, find_nearest_neighbors

NUM_EXAMPLES = 100
RECALL_AT = (1, 2, 5)
SIMILARITIES = st.sampled_from(["euclidean", "inner_product"])


@st.composite
def labelled(draw, min_size=2, max_size=12):
    size = draw(st.integers(min_size, max_size))
    few_values = st.sampled_from([0.0, 1.0, -1.0, 0.5, 3.0])
    elements = draw(st.sampled_from([few_values, st.floats(-100, 100, width=16)]))
    embeddings = draw(arrays.arrays(np.float32, (size, 2), elements=elements))
    labels = draw(arrays.arrays(np.int64, size, elements=st.integers(0, 3)))
    return embeddings, labels


def evaluate(data, similarity):
    """The result with all metrics, if there is anything to find."""
    labels = data[1]
    relevant = set(data[3]) if len(data) == 4 else {label for label in labels if (labels == label).sum() > 1}
    assume(any(label in relevant for label in labels))
    options = {"recall_at": RECALL_AT, "similarity": similarity, "num_threads": 1}
    return evaluate_retrieval(*data, average_precision=True, tie_bounds=True, **options)


@settings(max_examples=NUM_EXAMPLES)
@given(data=labelled(), similarity=SIMILARITIES)
def test_metrics_are_ordered_and_lie_within_their_bounds(data, similarity):
    result = evaluate(data, similarity)
    figures = result.as_dict()
    for name, (low, high) in result.tie_bounds.items():
        assert 0.0 <= low <= figures[name] + 1e-12
        assert figures[name] <= high + 1e-12 <= 1.0 + 1e-11
    assert figures["P@1"] == figures["R@1"] <= figures["R@2"] <= figures["R@5"]
    assert figures["MAP@R"] <= figures["P@R"] + 1e-12
    assert figures["MAP@R"] <= figures["mAP"] + 1e-12
    assert result.num_queries + result.num_excluded_queries == len(data[1])


@settings(max_examples=NUM_EXAMPLES)
@given(queries=labelled(), gallery=labelled(), similarity=SIMILARITIES, seed=st.integers(0, 100))
def test_bounds_do_not_depend_on_the_order_of_the_gallery(queries, gallery, similarity, seed):
    order = np.random.default_rng(seed).permutation(len(gallery[1]))
    result = evaluate((*queries, *gallery), similarity)
    shuffled = evaluate((*queries, gallery[0][order], gallery[1][order]), similarity)
    for name, bounds in result.tie_bounds.items():
        assert shuffled.tie_bounds[name] == pytest.approx(bounds, abs=1e-12)


@settings(max_examples=NUM_EXAMPLES)
@given(data=labelled(), names=st.permutations([2**53, 2**53 + 1, -(2**62), 7]), exponent=st.integers(-20, 20))
def test_names_of_classes_and_units_do_not_matter(data, names, exponent):
    embeddings, labels = data
    result = evaluate(data, "euclidean")
    renamed = evaluate((embeddings * np.float32(2.0**exponent), np.array(names)[labels]), "euclidean")
    assert renamed.as_dict() == result.as_dict()
    assert renamed.tie_bounds == result.tie_bounds


@settings(max_examples=NUM_EXAMPLES)
@given(data=labelled())
def test_neighbours_are_sorted_by_distance_then_by_index(data):
    embeddings = data[0].astype(np.float64)
    found = find_nearest_neighbors(data[0], num_neighbors=len(embeddings) - 1, num_threads=1)
    for row, items in enumerate(found):
        keys = [(((embeddings[row] - embeddings[item]) ** 2).sum(), item) for item in items]
        assert keys == sorted(keys)
        assert sorted(items) == [item for item in range(len(embeddings)) if item != row]
