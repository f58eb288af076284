import numpy as np
import pytest
import tensorflow as tf

from common.errors import InvalidInput
from common.references import CrossBatchMemory


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


def test_half_precision_is_held_as_float32():
    memory = CrossBatchMemory(2, 1)
    memory.enqueue(tf.constant([[0.1], [0.2]], tf.float16), tf.constant([0, 1]))
    assert memory.references().embeddings.dtype == tf.float32


def test_config_round_trip():
    config = CrossBatchMemory(7, 3).get_config()
    assert CrossBatchMemory.from_config(config).get_config() == config


def test_size_of_zero_is_refused():
    with pytest.raises(InvalidInput, match="memory_size: received 0"):
        CrossBatchMemory(0, 2)
