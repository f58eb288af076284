"""Losses that see other labels, in turn, or a view."""

import numpy as np
import pytest
import tensorflow as tf

from common.errors import InvalidInput
from common.losses import ContrastiveLoss, MarginLoss, MinedLoss, TripletLoss, WeightedSumLoss, class_column
from common.references import References
from milbich_dml import (
    DistanceAdaptedContrastLoss,
    GroupLabelsLoss,
    InTurnLoss,
    LabelColumnLoss,
    PermutedLabelsLoss,
    ViewLoss,
)
from tests.support.eager_functions import eagerly

GROUPS = np.array([0, 2, 2, 1, 0, 1, 2])
PLACES = np.array([6, 0, 3, 1, 5, 4])


def group_labels_embeddings(number=6):
    return np.random.default_rng(0).normal(size=(number, 4))


def grouped(loss):
    found = GroupLabelsLoss(loss, len(GROUPS))
    found.set_groups(GROUPS)
    return found


def test_it_is_the_loss_of_the_groups_of_the_places():
    expected = TripletLoss(0.3)(group_labels_embeddings(), np.array([2, 0, 1, 2, 1, 0]))
    assert float(expected) > 0
    assert float(grouped(TripletLoss(0.3))(group_labels_embeddings(), PLACES)) == float(expected)


def test_references_are_grouped_likewise_and_rows_that_do_not_count_may_be_anywhere():
    points = np.random.default_rng(1).normal(size=(3, 4))
    valid = np.array([True, True, False])
    expected = TripletLoss(0.3)(
        group_labels_embeddings(), GROUPS[PLACES], References(points, np.array([0, 1, 0]), valid)
    )
    found = grouped(TripletLoss(0.3))(
        group_labels_embeddings(), PLACES, References(points, np.array([4, 5, -1]), valid)
    )
    assert float(found) == float(expected)


def test_groups_may_change_after_the_loss_was_traced():
    loss = grouped(TripletLoss(0.3))
    traced = tf.function(lambda x, y: loss(x, y))
    before = float(traced(tf.constant(group_labels_embeddings()), tf.constant(PLACES)))
    other = np.array([0, 1, 0, 1, 2, 0, 1])
    loss.set_groups(other)
    after = float(traced(tf.constant(group_labels_embeddings()), tf.constant(PLACES)))
    np.testing.assert_allclose(after, float(TripletLoss(0.3)(group_labels_embeddings(), other[PLACES])), rtol=1e-6)
    assert after != before


def test_without_groups_all_images_are_alike():
    loss = GroupLabelsLoss(MinedLoss(MarginLoss(), "distance_weighted"), 7)
    assert float(GroupLabelsLoss(TripletLoss(0.3), 7)(group_labels_embeddings(), PLACES)) == 0.0
    assert np.isfinite(float(loss(group_labels_embeddings(), PLACES)))
    loss.set_groups(np.arange(7))
    assert np.isfinite(float(loss(group_labels_embeddings(), PLACES)))


@pytest.mark.parametrize("places", [[0, 7], [-1, 0]])
def test_places_outside_of_the_training_set_are_refused(places):
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"places in the training set: expected 0\.\.6"):
        grouped(TripletLoss())(group_labels_embeddings(2), np.array(places))


@pytest.mark.parametrize("groups", [np.arange(6), np.zeros(7), np.arange(7) - 1])
def test_groups_of_another_kind_are_refused(groups):
    with pytest.raises(InvalidInput, match=r"groups: received .*, expected integers of at least 0, \[7\]"):
        GroupLabelsLoss(TripletLoss(), 7).set_groups(groups)


LABELS = np.array([5, 5, 5, 7, 7, 9, 9, 9, 9, 2])


def test_labels_are_permuted_within_the_batch():
    loss = PermutedLabelsLoss(TripletLoss(0.3), seed=3)
    embeddings = np.random.default_rng(0).normal(size=(10, 4))
    drawn = []
    for _ in range(3):
        drawn.append(loss.permuted(LABELS).numpy())
        assert float(loss(embeddings, LABELS, training=True)) == float(TripletLoss(0.3)(embeddings, drawn[-1]))
        assert sorted(drawn[-1]) == sorted(LABELS)
    assert any((drawn[0] != other).any() for other in drawn[1:])
    assert (drawn[0] != LABELS).any()
    again = PermutedLabelsLoss(TripletLoss(0.3), seed=3)
    np.testing.assert_array_equal(again.permuted(LABELS), drawn[0])
    assert (PermutedLabelsLoss(TripletLoss(0.3), seed=4).permuted(LABELS).numpy() != drawn[0]).any()


def test_every_place_gets_every_label_equally_often():
    loss = PermutedLabelsLoss(TripletLoss())
    step = tf.function(lambda: (loss.permuted([0, 1, 2]), loss.step.assign_add(1))[0], autograph=False)
    counts = np.zeros((3, 3))
    for _ in range(600):
        counts[np.arange(3), step().numpy()] += 1
    assert np.abs(counts - 200).max() < 5 * np.sqrt(200)


def label_column_embeddings():
    return np.random.default_rng(0).normal(size=(6, 4))


def test_a_column_of_the_labels_is_handed_on():
    rows = np.stack([[3, 3, 4, 4, 4, 3], PLACES], axis=1)
    of_classes = float(TripletLoss(0.3)(label_column_embeddings(), rows[:, 0]))
    assert float(LabelColumnLoss(TripletLoss(0.3), "class")(label_column_embeddings(), rows)) == of_classes
    assert float(LabelColumnLoss(TripletLoss(0.3), "class")(label_column_embeddings(), rows[:, 0])) == of_classes
    groups = GroupLabelsLoss(TripletLoss(0.3), 7)
    groups.set_groups(np.array([0, 2, 2, 1, 0, 1, 2]))
    of_groups = float(LabelColumnLoss(groups, "place")(label_column_embeddings(), rows))
    assert of_groups == float(groups(label_column_embeddings(), PLACES)) != of_classes
    np.testing.assert_array_equal(class_column(rows), rows[:, 0])
    np.testing.assert_array_equal(class_column(PLACES), PLACES)


def random_batch(seed=0):
    return np.random.default_rng(seed).normal(size=(12, 4)), np.arange(12) % 4


@pytest.mark.parametrize("as_graph", [False, True])
def test_losses_take_turns_in_training_steps(as_graph):
    parts = [TripletLoss(0.3), ContrastiveLoss(), MarginLoss()]
    loss, batch = InTurnLoss(parts), random_batch()
    step = tf.function(lambda: loss(*batch, training=True), autograph=False)
    with eagerly(not as_graph):
        found = [float(step()) for _ in range(5)]
    expected = [float(parts[turn](*batch)) for turn in (0, 1, 2, 0, 1)]
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    assert len(set(found)) == 3
    assert [float(loss(*batch)) for _ in range(2)] == [float(loss(*batch))] * 2  # the turn stays outside of training


def test_a_loss_that_waits_has_no_gradient_and_keeps_its_counters():
    mined, margin = MinedLoss(TripletLoss(0.3)), MarginLoss()
    loss, batch = WeightedSumLoss([InTurnLoss([mined, margin])]), random_batch()
    with tf.GradientTape() as tape:
        value = loss(*batch, training=True)
    gradient = tape.gradient(value, margin.boundaries)
    assert gradient is None or not np.any(gradient)
    assert int(mined.step) == 1
    with tf.GradientTape() as tape:
        value = loss(*batch, training=True)
    assert np.any(tape.gradient(value, margin.boundaries))
    assert int(mined.step) == 1
    assert [id(variable) for variable in loss.proxy_variables] == [id(margin.boundaries)]


def two_views(seed=0, size=6, dim=4):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(2 * size, dim)), np.tile(np.arange(size) % 3, 2)


def test_the_first_view_alone_is_the_batch_without_views():
    embeddings, labels = two_views()
    loss = MinedLoss(TripletLoss(0.5), seed=2)
    references = References(*two_views(1))
    for given in (None, references):
        value = ViewLoss(MinedLoss(TripletLoss(0.5), seed=2), first_alone=True)(embeddings, labels, given)
        assert float(value) == float(loss(embeddings[:6], labels[:6], given))


def test_the_other_view_is_the_only_positive():
    embeddings, labels = two_views()
    images = np.arange(6)
    value = ViewLoss(TripletLoss(0.5), first_alone=False)(embeddings, labels)
    expected = TripletLoss(0.5)(embeddings[:6], images, References(embeddings[6:], images))
    assert float(value) == float(expected)
    assert float(value) != float(TripletLoss(0.5)(embeddings[:6], labels[:6], References(embeddings[6:], labels[6:])))


def test_a_queue_takes_the_second_view_in_a_function_of_unknown_batch_size():
    loss = ViewLoss(DistanceAdaptedContrastLoss(12, 4, 0.5), first_alone=False)
    signature = [tf.TensorSpec([None, 4], tf.float64), tf.TensorSpec([None], tf.int64)]
    step = tf.function(lambda *batch: loss(*batch, training=True), input_signature=signature, autograph=False)
    embeddings, labels = two_views()
    assert float(step(embeddings, labels)) == 0.0  # nothing in the queue
    np.testing.assert_allclose(loss.loss.queue.embeddings[:6], embeddings[6:], rtol=1e-6)
    assert float(step(embeddings, labels)) > 0.0
