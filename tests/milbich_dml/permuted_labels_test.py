import numpy as np
import tensorflow as tf

from common.losses import TripletLoss
from milbich_dml import PermutedLabelsLoss

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
