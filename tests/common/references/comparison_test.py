import numpy as np
import pytest

from common.errors import InvalidInput
from common.references import Pairs, References, compare

EMBEDDINGS, LABELS = np.array([[3.0, 4.0], [0.0, 0.5], [2.0, 0.0]]), np.array([7, 7, 1])
REFERENCES = References(
    np.array([[0.0, 2.0], [0.3, 0.4]], np.float16), np.array([1, 7], np.int32), np.array([True, False])
)


def test_batch_with_itself_leaves_self_pairs_out():
    pairs = compare(EMBEDDINGS, LABELS)
    np.testing.assert_array_equal(pairs.positive, [[0, 1, 0], [1, 0, 0], [0, 0, 0]])
    np.testing.assert_array_equal(pairs.negative, [[0, 0, 1], [0, 0, 1], [1, 1, 0]])
    np.testing.assert_allclose(pairs.anchors, [[0.6, 0.8], [0.0, 1.0], [1.0, 0.0]], rtol=1e-12)
    assert pairs.references is pairs.anchors
    assert np.all(pairs.valid_anchors)


def test_batch_with_references_leaves_invalid_ones_out():
    pairs = compare(EMBEDDINGS, LABELS, REFERENCES, normalization="clip")
    np.testing.assert_array_equal(pairs.positive, [[0, 0], [0, 0], [1, 0]])
    np.testing.assert_array_equal(pairs.negative, [[1, 0], [1, 0], [0, 0]])
    np.testing.assert_allclose(pairs.references, [[0.0, 1.0], [0.3, 0.4]], rtol=1e-3)  # half precision came in
    assert np.all(pairs.valid_anchors)


def test_references_as_anchors_swap_the_sides():
    straight = compare(EMBEDDINGS, LABELS, REFERENCES)
    swapped = compare(EMBEDDINGS, LABELS, REFERENCES, anchors="references")
    np.testing.assert_array_equal(swapped.anchors, straight.references)
    np.testing.assert_array_equal(swapped.references, straight.anchors)
    np.testing.assert_array_equal(swapped.positive, np.transpose(straight.positive))
    np.testing.assert_array_equal(swapped.negative, np.transpose(straight.negative))
    np.testing.assert_array_equal(swapped.valid_anchors, [True, False])
    np.testing.assert_array_equal(straight.anchor_labels, LABELS)
    np.testing.assert_array_equal(straight.reference_labels, REFERENCES.labels)
    np.testing.assert_array_equal(swapped.anchor_labels, REFERENCES.labels)
    np.testing.assert_array_equal(swapped.reference_labels, LABELS)


def test_unknown_anchors_list_the_choices():
    with pytest.raises(InvalidInput, match="anchors: received 'batch', expected one of embeddings, references"):
        compare(EMBEDDINGS, LABELS, anchors="batch")


def test_dimensions_that_differ_are_refused():
    with pytest.raises(InvalidInput, match="dimension of embeddings: received 3, expected the references' 2"):
        compare(np.ones((3, 3)), LABELS, REFERENCES)


def test_given_pairs_take_the_place_of_labels_and_validity():
    positive, negative = np.eye(3, 2, dtype=bool), np.zeros((3, 2), bool)
    given = REFERENCES._replace(pairs=Pairs(positive, negative))
    pairs = compare(EMBEDDINGS, LABELS, given)
    np.testing.assert_array_equal(pairs.positive, positive)
    np.testing.assert_array_equal(pairs.negative, negative)
    with pytest.raises(InvalidInput, match="over the references it falls apart"):
        compare(EMBEDDINGS, LABELS, given, anchors="references")
