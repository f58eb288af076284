import numpy as np
import pytest
import tensorflow as tf

from common.errors import InvalidInput
from common.losses import MarginLoss, MinedLoss, TripletLoss
from common.references import References
from milbich_dml import GroupLabelsLoss

GROUPS = np.array([0, 2, 2, 1, 0, 1, 2])
PLACES = np.array([6, 0, 3, 1, 5, 4])


def embeddings(number=6):
    return np.random.default_rng(0).normal(size=(number, 4))


def grouped(loss):
    found = GroupLabelsLoss(loss, len(GROUPS))
    found.set_groups(GROUPS)
    return found


def test_it_is_the_loss_of_the_groups_of_the_places():
    expected = TripletLoss(0.3)(embeddings(), np.array([2, 0, 1, 2, 1, 0]))
    assert float(expected) > 0
    assert float(grouped(TripletLoss(0.3))(embeddings(), PLACES)) == float(expected)


def test_references_are_grouped_likewise_and_rows_that_do_not_count_may_be_anywhere():
    points = np.random.default_rng(1).normal(size=(3, 4))
    valid = np.array([True, True, False])
    expected = TripletLoss(0.3)(embeddings(), GROUPS[PLACES], References(points, np.array([0, 1, 0]), valid))
    found = grouped(TripletLoss(0.3))(embeddings(), PLACES, References(points, np.array([4, 5, -1]), valid))
    assert float(found) == float(expected)


def test_groups_may_change_after_the_loss_was_traced():
    loss = grouped(TripletLoss(0.3))
    traced = tf.function(lambda x, y: loss(x, y))
    before = float(traced(tf.constant(embeddings()), tf.constant(PLACES)))
    other = np.array([0, 1, 0, 1, 2, 0, 1])
    loss.set_groups(other)
    after = float(traced(tf.constant(embeddings()), tf.constant(PLACES)))
    np.testing.assert_allclose(after, float(TripletLoss(0.3)(embeddings(), other[PLACES])), rtol=1e-6)
    assert after != before


def test_without_groups_all_images_are_alike():
    loss = GroupLabelsLoss(MinedLoss(MarginLoss(), "distance_weighted"), 7)
    assert float(GroupLabelsLoss(TripletLoss(0.3), 7)(embeddings(), PLACES)) == 0.0
    assert np.isfinite(float(loss(embeddings(), PLACES)))
    loss.set_groups(np.arange(7))
    assert np.isfinite(float(loss(embeddings(), PLACES)))


@pytest.mark.parametrize("places", [[0, 7], [-1, 0]])
def test_places_outside_of_the_training_set_are_refused(places):
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"places in the training set: expected 0\.\.6"):
        grouped(TripletLoss())(embeddings(2), np.array(places))


@pytest.mark.parametrize("groups", [np.arange(6), np.zeros(7), np.arange(7) - 1])
def test_groups_of_another_kind_are_refused(groups):
    with pytest.raises(InvalidInput, match=r"groups: received .*, expected integers of at least 0, \[7\]"):
        GroupLabelsLoss(TripletLoss(), 7).set_groups(groups)
