import numpy as np
import tensorflow as tf

from common.losses import MinedLoss, TripletLoss
from common.references import References
from milbich_dml import DistanceAdaptedContrastLoss, ViewLoss


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
