import numpy as np

from common.losses import TripletLoss, class_column
from milbich_dml import GroupLabelsLoss, LabelColumnLoss

PLACES = np.array([6, 0, 3, 1, 5, 4])


def embeddings():
    return np.random.default_rng(0).normal(size=(6, 4))


def test_a_column_of_the_labels_is_handed_on():
    rows = np.stack([[3, 3, 4, 4, 4, 3], PLACES], axis=1)
    of_classes = float(TripletLoss(0.3)(embeddings(), rows[:, 0]))
    assert float(LabelColumnLoss(TripletLoss(0.3), "class")(embeddings(), rows)) == of_classes
    assert float(LabelColumnLoss(TripletLoss(0.3), "class")(embeddings(), rows[:, 0])) == of_classes
    groups = GroupLabelsLoss(TripletLoss(0.3), 7)
    groups.set_groups(np.array([0, 2, 2, 1, 0, 1, 2]))
    of_groups = float(LabelColumnLoss(groups, "place")(embeddings(), rows))
    assert of_groups == float(groups(embeddings(), PLACES)) != of_classes
    np.testing.assert_array_equal(class_column(rows), rows[:, 0])
    np.testing.assert_array_equal(class_column(PLACES), PLACES)
