import numpy as np
import pytest
import tensorflow as tf

from common.errors import InvalidInput
from common.losses import ContrastiveLoss, MinedLoss, MultiSimilarityLoss, WeightedSumLoss

keras = tf.keras
LABELS = np.repeat(np.arange(3), 2)
EMBEDDINGS = np.random.default_rng(0).normal(size=(6, 4)).astype(np.float32)


def compiled(loss, **settings):
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(4, kernel_initializer="identity")])
    model.compile(keras.optimizers.SGD(0.1), loss=loss, run_eagerly=True, **settings)
    return model


@pytest.mark.parametrize(
    "labels",
    [LABELS, list(LABELS), LABELS[:, None].tolist(), LABELS[:, None].astype(np.float64), LABELS + 2**40],
)
def test_both_calls_give_the_same_value(labels):
    loss = MultiSimilarityLoss()
    expected = loss(EMBEDDINGS, LABELS)
    for found in (
        loss(labels, EMBEDDINGS),
        loss(labels, EMBEDDINGS, None),
        loss(labels, tf.constant(EMBEDDINGS), sample_weight=None),
        loss(y_true=labels, y_pred=EMBEDDINGS),
        loss(EMBEDDINGS, labels),
        loss(EMBEDDINGS, labels=labels),
    ):
        assert found == expected
    one_component = MultiSimilarityLoss(normalization="none")
    assert one_component(labels, EMBEDDINGS[:, :1]) == one_component(EMBEDDINGS[:, :1], LABELS)


def test_fit_and_evaluate_report_the_value():
    loss = MultiSimilarityLoss()
    model = compiled(loss)
    expected = float(loss(EMBEDDINGS, LABELS))
    assert model.evaluate(EMBEDDINGS, LABELS + 2**40, batch_size=6, verbose=0) == pytest.approx(expected)
    assert model.fit(EMBEDDINGS, LABELS, batch_size=6, verbose=0).history["loss"] == [pytest.approx(expected)]
    assert model.evaluate(EMBEDDINGS, LABELS, batch_size=6, verbose=0) < expected


def test_fit_with_several_labels():
    """Through Keras, which makes floats of integers elsewhere."""
    several = np.eye(3, dtype=bool)[LABELS]
    several[0, 1] = True
    loss = MultiSimilarityLoss()
    expected = float(loss(EMBEDDINGS, several))
    assert expected != float(loss(EMBEDDINGS, LABELS))
    history = compiled(loss).fit(EMBEDDINGS, several, batch_size=6, verbose=0).history
    assert history["loss"] == [pytest.approx(expected)]


@pytest.mark.parametrize("weights", [{"sample_weight": np.ones(6)}, {"class_weight": {0: 1.0, 1: 2.0, 2: 1.0}}])
def test_sample_weights_are_refused_by_a_loss_over_pairs(weights):
    with pytest.raises(
        InvalidInput, match="sample_weight: received .* expected none. Its terms are no terms of single"
    ):
        compiled(ContrastiveLoss()).fit(EMBEDDINGS, LABELS, verbose=0, **weights)


def test_sample_weights_and_class_weights_reach_a_loss_with_terms_of_anchors():
    loss, weights = MultiSimilarityLoss(), np.array([0.0, 0.5, 1.0, 2.0, 0.25, 1.0])
    expected = float(loss(EMBEDDINGS, LABELS, sample_weight=weights))
    assert expected != float(loss(EMBEDDINGS, LABELS))
    for found in (
        loss(LABELS, EMBEDDINGS, weights),
        loss(LABELS, EMBEDDINGS, sample_weight=list(weights)),
        loss(EMBEDDINGS, LABELS, sample_weight=weights[:, None]),
        compiled(loss).fit(EMBEDDINGS, LABELS, batch_size=6, verbose=0, sample_weight=weights).history["loss"][0],
        compiled(loss).evaluate(EMBEDDINGS, LABELS, batch_size=6, verbose=0, sample_weight=weights),
    ):
        assert float(found) == pytest.approx(expected, rel=1e-6)
    by_class = compiled(loss).fit(EMBEDDINGS, LABELS, batch_size=6, verbose=0, class_weight={0: 0.5, 1: 3.0, 2: 1.0})
    of_samples = loss(EMBEDDINGS, LABELS, sample_weight=np.array([0.5, 0.5, 3.0, 3.0, 1.0, 1.0]))
    assert by_class.history["loss"][0] == pytest.approx(float(of_samples))
    with pytest.raises(
        InvalidInput, match=r"shape of sample_weight: received \(6, 2\), expected \[batch\] or \[batch, 1"
    ):
        loss(EMBEDDINGS, LABELS, sample_weight=np.ones((6, 2)))


def test_labels_that_are_no_class_ids_stop_the_step_or_make_the_loss_not_a_number():
    with pytest.raises(tf.errors.InvalidArgumentError, match="expected class ids that are whole"):
        compiled(MultiSimilarityLoss()).fit(EMBEDDINGS, LABELS + 0.5, verbose=0)
    value = tf.function(MultiSimilarityLoss(), jit_compile=True)
    assert np.isnan(value(tf.constant(LABELS + 0.5), tf.constant(EMBEDDINGS)))
    assert np.isfinite(value(tf.constant(LABELS + 0.0), tf.constant(EMBEDDINGS)))


def test_a_loss_at_the_end_of_a_functional_model():
    embeddings, labels = keras.Input((4,)), keras.Input((), dtype="int64")
    model = keras.Model([embeddings, labels], MultiSimilarityLoss()(embeddings, labels))
    assert model([EMBEDDINGS, LABELS]) == MultiSimilarityLoss()(EMBEDDINGS, LABELS)


def test_a_loss_with_a_step_counter_is_not_computed_twice():
    def gradient(loss):
        embeddings = tf.constant(EMBEDDINGS)
        with tf.GradientTape() as tape:
            tape.watch(embeddings)
            value = tf.recompute_grad(lambda x: loss(x, LABELS, training=True))(embeddings)
        return tape.gradient(value, embeddings)

    with pytest.raises(InvalidInput, match=r"tf.recompute_grad: received 'MinedLoss'.*outside of the recomputed part"):
        gradient(MinedLoss(MultiSimilarityLoss(), "random"))
    assert np.isfinite(gradient(WeightedSumLoss([MultiSimilarityLoss()]))).all()
