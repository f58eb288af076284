import numpy as np
import pytest

from common.errors import InvalidInput
from common.losses import (
    ContrastiveLoss,
    CosineContrastiveLoss,
    CrossBatchMemoryLoss,
    MultiSimilarityLoss,
)
from common.references import References

DIM = 3


def batches(count, size=4, seed=0):
    rng = np.random.default_rng(seed)
    return [(rng.normal(size=(size, DIM)).astype(np.float32), rng.integers(0, 3, size)) for _ in range(count)]


def over_the_last(loss, embeddings, labels, earlier, memory_size):
    """`loss` over the last `memory_size` samples of earlier batches, kept in a Python list."""
    samples = [sample for batch in earlier for sample in zip(*batch)][-memory_size:]
    if not samples:
        return 0.0
    vectors, classes = (np.array(column) for column in zip(*samples))
    return float(loss(embeddings, labels, References(vectors, classes)))


@pytest.mark.parametrize("memory_size", [3, 4, 10, 12])
@pytest.mark.parametrize(
    "base", [CosineContrastiveLoss(), MultiSimilarityLoss(), ContrastiveLoss(normalization="clip")]
)
def test_equals_the_batch_plus_a_list_of_the_batches_before(base, memory_size):
    loss = CrossBatchMemoryLoss(base, memory_size, DIM, start_step=0, weight=0.3)
    history = []
    for embeddings, labels in batches(7):
        memory_term = over_the_last(base, embeddings, labels, history, memory_size)
        expected = float(base(embeddings, labels)) + 0.3 * memory_term
        np.testing.assert_allclose(loss(embeddings, labels, training=True), expected, rtol=1e-5)
        history.append((embeddings, labels))


@pytest.mark.parametrize("memory_size", [3, 10])
@pytest.mark.parametrize("base", [CosineContrastiveLoss(), MultiSimilarityLoss()])
def test_several_labels_equal_a_list_of_the_batches_before(base, memory_size):
    loss = CrossBatchMemoryLoss(base, memory_size, DIM, start_step=0, num_classes=5)
    loss = CrossBatchMemoryLoss.from_config(loss.get_config())
    history, generator = [], np.random.default_rng(1)
    for embeddings, _ in batches(6):
        sets = generator.random((len(embeddings), 5)) < 0.3
        expected = float(base(embeddings, sets)) + over_the_last(base, embeddings, sets, history, memory_size)
        np.testing.assert_allclose(loss(embeddings, sets, training=True), expected, rtol=1e-5)
        history.append((embeddings, sets))


def test_a_union_is_one_loss_over_batch_and_memory_without_selves():
    """Multi-similarity is a mean over anchors: here each anchor alone, over all samples but itself."""
    base = MultiSimilarityLoss()
    loss = CrossBatchMemoryLoss(base, 10, DIM, start_step=0, terms="union")
    (earlier, earlier_labels), (embeddings, labels), (others, other_labels) = batches(3)
    first = loss(earlier, earlier_labels, training=True)  # the memory is empty
    np.testing.assert_allclose(first, base(earlier, earlier_labels), rtol=1e-6)
    terms = []
    for place in range(len(labels)):
        rest = np.delete(embeddings, place, axis=0), np.delete(labels, place)
        samples = (np.concatenate(pair) for pair in zip(rest, (earlier, earlier_labels)))
        terms.append(base(embeddings[place : place + 1], labels[place : place + 1], References(*samples)))
    np.testing.assert_allclose(loss(embeddings, labels), np.mean(terms), rtol=1e-5)
    given = [np.concatenate(pair) for pair in ((others, earlier), (other_labels, earlier_labels))]
    found = loss(embeddings, labels, References(others, other_labels))
    np.testing.assert_allclose(found, base(embeddings, labels, References(*given)), rtol=1e-5)


def test_the_memory_alone_takes_the_place_of_the_batch_when_it_starts():
    base = CosineContrastiveLoss()
    loss = CrossBatchMemoryLoss(base, 4, DIM, start_step=1, terms="memory")
    (first, first_labels), (second, second_labels) = batches(2)
    np.testing.assert_allclose(loss(first, first_labels, training=True), base(first, first_labels), rtol=1e-6)
    expected = base(second, second_labels, References(first, first_labels))
    np.testing.assert_allclose(loss(second, second_labels, training=True), expected, rtol=1e-6)


@pytest.mark.parametrize(
    ("num_classes", "labels", "message"),
    [
        (None, np.eye(4, dtype=bool), "labels: received 'bools, of several labels an image'.*with num_classes"),
        (5, np.arange(4), r"labels: received 'int64 \[4\]', expected bools \[batch, 5\]"),
        (5, np.eye(4, dtype=bool), r"labels: received 'bool \[4, 4\]', expected bools \[batch, 5\]"),
    ],
)
def test_labels_of_another_kind_than_the_memory_s_are_refused(num_classes, labels, message):
    loss = CrossBatchMemoryLoss(ContrastiveLoss(), 8, DIM, start_step=100, num_classes=num_classes)
    with pytest.raises(InvalidInput, match=message):
        loss(np.zeros((4, DIM), np.float32), labels, training=True)


@pytest.mark.parametrize(
    ("settings", "begins_at"),
    [({"start_step": 3}, 3), ({"start_step": 1, "fill_before_start": True}, 4)],  # 9 / 4 rounded up: 3 batches
)
def test_the_memory_term_starts_at_the_start_step_or_so_many_batches_later(settings, begins_at):
    base = CosineContrastiveLoss()
    loss = CrossBatchMemoryLoss(base, 9, DIM, **settings)
    has_memory_term = []
    for embeddings, labels in batches(6):
        value = loss(embeddings, labels, training=True)
        has_memory_term.append(bool(value > base(embeddings, labels) + 1e-3))
    assert has_memory_term == [step >= begins_at for step in range(6)]


def test_enqueue_first_lets_the_batch_meet_itself():
    base = MultiSimilarityLoss()
    loss = CrossBatchMemoryLoss(base, 8, DIM, start_step=0, enqueue_first=True)
    history = []
    for embeddings, labels in batches(4):
        history.append((embeddings, labels))
        expected = float(base(embeddings, labels)) + over_the_last(base, embeddings, labels, history, 8)
        np.testing.assert_allclose(loss(embeddings, labels, training=True), expected, rtol=1e-5)


@pytest.mark.parametrize("enqueue_first", [False, True])
def test_only_training_calls_change_the_state(enqueue_first):
    loss = CrossBatchMemoryLoss(ContrastiveLoss(), 8, DIM, start_step=0, enqueue_first=enqueue_first)
    (first, first_labels), (second, second_labels) = batches(2)
    loss(first, first_labels, training=True)
    before = [np.array(weight) for weight in loss.weights]
    values = {float(loss(second, second_labels, training=mode)) for mode in (False, None, False)}
    assert len(values) == 1
    for old, new in zip(before, loss.weights):
        np.testing.assert_array_equal(old, new)


def test_given_references_take_the_place_of_the_batch_in_the_first_term():
    base = ContrastiveLoss()
    loss = CrossBatchMemoryLoss(base, 4, DIM, start_step=0)
    (first, first_labels), (second, second_labels), (third, third_labels) = batches(3)
    loss(first, first_labels, training=True)
    references = References(third, third_labels)
    expected = base(second, second_labels, references) + base(second, second_labels, References(first, first_labels))
    np.testing.assert_allclose(loss(second, second_labels, references), expected, rtol=1e-6)
