import numpy as np
import pytest
import tensorflow as tf

from benchmarks.measure import peak_growth_gb
from ccp_dml import ChanceConstrainedLoss, Representatives
from common.errors import InvalidInput
from common.losses import (
    ContrastiveLoss,
    CosineContrastiveLoss,
    CrossBatchMemoryLoss,
    MultiSimilarityLoss,
    ProxyNCALoss,
    TripletLoss,
)
from common.references import ProxyBank, References

keras = tf.keras
CLASSES, PROXIES, DIM = 5, 2, 4
PAIR_LOSSES = [
    ContrastiveLoss(0.1, 0.9, normalization="clip"),
    CosineContrastiveLoss(0.3),
    TripletLoss(0.2, anchors="references"),
    TripletLoss(0.2),
    MultiSimilarityLoss(2.0, 10.0, 0.5, anchors="references"),
]


def batch(seed=0, size=6):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(size, DIM)).astype(np.float32), rng.integers(0, CLASSES, size)


@pytest.mark.parametrize("base", PAIR_LOSSES, ids=lambda loss: loss.name)
@pytest.mark.parametrize("weight", [0.0, 0.1])
def test_is_the_loss_over_proxies_plus_the_weighted_one_over_the_batch(base, weight):
    bank = ProxyBank(CLASSES, PROXIES, DIM)
    loss = ChanceConstrainedLoss(base, bank, in_batch_weight=weight)
    embeddings, labels = batch()
    proxies = References(np.array(bank.proxies), np.repeat(np.arange(CLASSES), PROXIES))
    expected = float(base(embeddings, labels, proxies)) + weight * float(base(embeddings, labels))
    np.testing.assert_allclose(loss(embeddings, labels), expected, rtol=1e-6)
    others = References(*batch(seed=1))
    np.testing.assert_allclose(loss(embeddings, labels, others), base(embeddings, labels, others), rtol=1e-6)


# `losses_test` compiles each loss.
@pytest.mark.parametrize(("base", "weight"), [(PAIR_LOSSES[0], 0.0), (PAIR_LOSSES[-1], 0.1)])
def test_compiled_it_is_the_same_with_the_same_gradients(base, weight):
    bank = ProxyBank(CLASSES, PROXIES, DIM)
    embeddings, labels = map(tf.constant, batch())

    def loss_and_gradients(jit_compile):
        loss = ChanceConstrainedLoss(base, bank, in_batch_weight=weight, jit_compile=jit_compile)
        with tf.GradientTape() as tape:
            tape.watch(embeddings)
            value = 3.0 * loss(embeddings, labels)
        return [value, *tape.gradient(value, [embeddings, bank.proxies])]

    expected = loss_and_gradients(False)
    assert all(np.any(part) for part in expected)
    for found, plain in zip(loss_and_gradients(True), expected):
        np.testing.assert_allclose(found, plain, rtol=1e-5, atol=1e-6)


def test_compiled_it_trains_in_a_traced_step_and_still_checks_labels():
    loss = ChanceConstrainedLoss(ContrastiveLoss(0.1, 0.9), ProxyBank(CLASSES, PROXIES, DIM), jit_compile=True)
    embeddings, labels = batch()

    @tf.function(autograph=False)
    def gradient(labels):
        with tf.GradientTape() as tape:
            value = loss(embeddings, labels)
        return tape.gradient(value, loss.proxies.proxies)

    names = {operation.type for operation in gradient.get_concrete_function(labels).graph.get_operations()}
    assert "MatMul" not in names
    assert np.any(gradient(labels))
    with pytest.raises(tf.errors.InvalidArgumentError, match=f"expected 0..{CLASSES - 1}"):
        gradient(labels + CLASSES)
    assert np.isnan(tf.function(lambda labels: loss(embeddings, labels), jit_compile=True)(labels + CLASSES))


@pytest.mark.parametrize("jit_compile", [False, True])
def test_sample_weights_are_those_of_both_terms(jit_compile):
    base, bank, weights = TripletLoss(0.3), ProxyBank(CLASSES, PROXIES, DIM), np.arange(6.0)
    loss = ChanceConstrainedLoss(base, bank, in_batch_weight=0.1, jit_compile=jit_compile)
    expected = base(*batch(), bank.references(), sample_weight=weights) + 0.1 * base(*batch(), sample_weight=weights)
    np.testing.assert_allclose(loss(*batch(), sample_weight=weights), expected, rtol=1e-5)
    with pytest.raises(InvalidInput, match="sample_weight: received 'weights of samples', expected none with anchors"):
        TripletLoss(anchors="references")(*batch(), bank.references(), sample_weight=weights)


def test_compiled_it_refuses_a_loss_with_weights_and_is_restored():
    bank = ProxyBank(CLASSES, PROXIES, DIM)
    with pytest.raises(
        InvalidInput, match="jit_compile: received 'True for .*', expected False for a loss with weights"
    ):
        ChanceConstrainedLoss(ProxyNCALoss(CLASSES, DIM), bank, jit_compile=True)
    loss = ChanceConstrainedLoss(ContrastiveLoss(), bank, jit_compile=True)
    assert ChanceConstrainedLoss.from_config(loss.get_config()).jit_compile


def test_proxies_are_trained_and_may_have_a_pace_of_their_own():
    loss = ChanceConstrainedLoss(ContrastiveLoss(), ProxyBank(CLASSES, PROXIES, DIM))
    assert [tuple(variable.shape) for variable in loss.trainable_variables] == [(CLASSES * PROXIES, DIM)]
    assert [tuple(variable.shape) for variable in loss.proxy_variables] == [(CLASSES * PROXIES, DIM)]
    around_proxies = ChanceConstrainedLoss(ProxyNCALoss(CLASSES, DIM), ProxyBank(CLASSES, PROXIES, DIM))
    shapes = [tuple(variable.shape) for variable in around_proxies.proxy_variables]
    assert shapes == [(CLASSES, DIM), (CLASSES * PROXIES, DIM)]


def test_until_it_adopts_representatives_it_may_be_the_loss_in_the_batch():
    base, bank = ContrastiveLoss(0.1, 0.9), ProxyBank(CLASSES, PROXIES, DIM)
    loss = ChanceConstrainedLoss(base, bank, in_batch_weight=0.1, warm_up_in_batch=True)
    compiled = tf.function(lambda embeddings, labels: loss(embeddings, labels))
    np.testing.assert_allclose(compiled(*batch()), base(*batch()), rtol=1e-6)
    chosen = np.random.default_rng(1).normal(size=(CLASSES, PROXIES, DIM)).astype(np.float32)
    loss.start_problem(0, Representatives(np.zeros((CLASSES, PROXIES), int), chosen))
    expected = float(base(*batch(), bank.references())) + 0.1 * float(base(*batch()))
    np.testing.assert_allclose(compiled(*batch()), expected, rtol=1e-6)
    again = keras.layers.deserialize(keras.layers.serialize(loss))
    again.set_weights(loss.get_weights())
    np.testing.assert_array_equal(again(*batch()), loss(*batch()))


def test_a_cross_batch_memory_inside_advances_in_training():
    loss = ChanceConstrainedLoss(
        CrossBatchMemoryLoss(CosineContrastiveLoss(), 12, DIM, start_step=0), ProxyBank(CLASSES, PROXIES, DIM)
    )
    loss(*batch())
    assert int(loss.loss.step) == 0
    loss(*batch(), training=True)
    assert int(loss.loss.step) == 1


@pytest.mark.parametrize("normalization", ["clip", "unit", "none"])
def test_representatives_come_back_as_the_loss_compares_them(normalization):
    bank = ProxyBank(CLASSES, PROXIES, DIM)
    loss = ChanceConstrainedLoss(ContrastiveLoss(normalization=normalization), bank)
    chosen = np.random.default_rng(0).normal(size=(CLASSES, PROXIES, DIM)).astype(np.float32)
    loss.start_problem(0, Representatives(np.zeros((CLASSES, PROXIES)), chosen))
    np.testing.assert_array_equal(np.array(bank.proxies)[PROXIES], chosen[1, 0])
    norms = np.linalg.norm(chosen, axis=-1, keepdims=True)
    expected = {"clip": chosen / np.maximum(norms, 1), "unit": chosen / norms, "none": chosen}[normalization]
    np.testing.assert_allclose(loss.representatives(), expected, rtol=1e-6)
    with pytest.raises(InvalidInput, match="representatives"):
        loss.start_problem(0, Representatives(np.zeros((CLASSES, 1)), chosen[:, :1]))


def test_a_label_without_proxies_is_an_error():
    loss = ChanceConstrainedLoss(ContrastiveLoss(), ProxyBank(CLASSES, PROXIES, DIM))
    with pytest.raises(tf.errors.InvalidArgumentError, match="expected 0..4"):
        loss(np.zeros((2, DIM), np.float32), np.array([0, CLASSES]))
    with pytest.raises(InvalidInput, match="in_batch_weight"):
        ChanceConstrainedLoss(ContrastiveLoss(), ProxyBank(CLASSES, PROXIES, DIM), in_batch_weight=-0.1)


def test_memory_at_the_size_of_sop():
    """8,488 x 4 proxies: batch x proxies is 4.3 MB, proxies² 4.6 GB, batch x proxies² 148 GB."""
    loss = ChanceConstrainedLoss(PAIR_LOSSES[3], ProxyBank(8_488, 4, 128))
    embeddings = tf.random.stateless_normal([32, 128], [1, 2])
    labels = tf.repeat(tf.range(8) * 1000, 4)

    @tf.function
    def gradients():
        with tf.GradientTape() as tape:
            tape.watch(embeddings)
            value = loss(embeddings, labels)
        return tape.gradient(value, [embeddings, *loss.trainable_variables])

    (_, proxy_gradient), growth = peak_growth_gb(gradients)
    assert np.all(np.isfinite(proxy_gradient))
    assert np.any(proxy_gradient)
    assert growth < 0.4
