import numpy as np
import pytest
import tensorflow as tf

from common.errors import InvalidInput
from common.references import CrossBatchMemory, Pairs, ProxyBank, References, compare

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


def held(memory):
    """The valid entries as a sorted list of (label, first component)."""
    references = memory.references()
    valid = np.array(references.valid)
    return sorted(zip(np.array(references.labels)[valid].tolist(), np.array(references.embeddings)[valid, 0].tolist()))


@pytest.mark.parametrize("memory_size", [1, 3, 5, 8])
def test_holds_the_last_samples_whatever_the_batch_sizes(memory_size):
    memory, history = CrossBatchMemory(memory_size, 2), []
    for batch_size in (2, 3, 1, 7, 2, 12, 5):
        labels = np.arange(len(history), len(history) + batch_size)
        memory.enqueue(np.stack([labels * 0.5, labels], axis=1), labels)
        history += [(int(label), label * 0.5) for label in labels]
        assert held(memory) == history[-memory_size:]


def test_labels_beyond_float32_stay_apart():
    memory = CrossBatchMemory(2, 1)
    memory.enqueue(np.zeros((2, 1)), np.array([2**53 + 1, 2**24 + 1]))
    np.testing.assert_array_equal(memory.references().labels, [2**53 + 1, 2**24 + 1])


def test_gradient_stops_at_the_memory():
    memory, embeddings = CrossBatchMemory(2, 1), tf.Variable([[1.0], [2.0]])
    with tf.GradientTape() as tape:
        memory.enqueue(embeddings * 2.0, tf.constant([0, 1]))
        total = tf.reduce_sum(memory.references().embeddings)
    assert tape.gradient(total, embeddings) is None
    assert memory.trainable_weights == []


keras = tf.keras


def test_proxies_lie_class_by_class():
    references = ProxyBank(3, 2, 5).references()
    np.testing.assert_array_equal(references.labels, [0, 0, 1, 1, 2, 2])
    assert references.embeddings.shape == (6, 5)
    assert references.valid is None


@pytest.mark.parametrize(
    ("initializer", "deviation"),
    [("he_normal", np.sqrt(2 / 128)), ("he_normal_over_proxies", np.sqrt(2 / 1000)), ("object", 3.0)],
)
def test_spread_of_the_initial_proxies(initializer, deviation):
    if initializer == "object":
        initializer = keras.initializers.RandomNormal(stddev=3.0, seed=1)
    proxies = np.array(ProxyBank(250, 4, 128, initializer=initializer).proxies)
    np.testing.assert_allclose(proxies.std(), deviation, rtol=0.02)


@pytest.mark.parametrize("initializer", ["he_normal", keras.initializers.Constant(2.0)])
def test_proxy_bank_config_round_trip(initializer):
    bank = ProxyBank(3, 2, 5, initializer=initializer)
    again = ProxyBank.from_config(bank.get_config())
    assert again.get_config() == bank.get_config()
    if initializer != "he_normal":
        assert np.all(np.array(again.proxies) == 2.0)


@pytest.mark.parametrize("labels", [[0, 3], [-1, 0]])
def test_labels_without_a_proxy_are_refused(labels):
    wrong = next(label for label in labels if label != 0)
    with pytest.raises(tf.errors.InvalidArgumentError, match=rf"expected 0\.\.2\. Relabel.* {wrong}\b.* position"):
        ProxyBank(3, 1, 2).check_labels(tf.constant([0, 1, 2, 1, *labels]))


def test_unknown_initializer_lists_the_choices():
    with pytest.raises(InvalidInput, match="received 'glorot', expected one of he_normal, he_normal_over_proxies or a"):
        ProxyBank(3, 1, 2, initializer="glorot")
