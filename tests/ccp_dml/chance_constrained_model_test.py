import numpy as np
import pytest
import tensorflow as tf

from ccp_dml import ChanceConstrainedLoss, ChanceConstrainedModel, ProximalTerm
from common.errors import InvalidInput
from common.losses import ContrastiveLoss, CosineContrastiveLoss, MultiSimilarityLoss, TripletLoss
from common.pooling import GlobalAveragePooling
from common.references import ProxyBank, References
from common.training import EmbeddingHead, EmbeddingModel, ProxyRateOptimizer

keras = tf.keras
CLASSES, PROXIES, INPUTS, DIM, BATCH = 3, 2, 5, 4, 6
LEARNING_RATE, RATE = 0.5, 0.3
LABELS = np.array([0, 0, 1, 1, 2, 2])
PROXY_LABELS = np.repeat(np.arange(CLASSES), PROXIES)


CASES = {
    "c2": ContrastiveLoss(0.3, 1.1, normalization="clip"),
    "c1": CosineContrastiveLoss(0.2, normalization="clip"),
    "triplet": TripletLoss(0.4, anchors="references", normalization="clip"),
    "ms": MultiSimilarityLoss(2.0, 8.0, 0.4, anchors="references", normalization="clip"),
}


def step_by_hand(loss, weights, proxies, inputs, target, proximal_sign=1.0):
    """Weights and proxies after one step of gradient descent on loss(proxies x batch) + (λ/2) ‖W - W*‖²."""
    points = [tf.constant(weights, tf.float32), tf.constant(proxies, tf.float32)]
    with tf.GradientTape() as tape:
        tape.watch(points)
        value = loss(tf.constant(inputs, tf.float32) @ points[0], LABELS, References(points[1], PROXY_LABELS))
    of_weights, of_proxies = (gradient.numpy() for gradient in tape.gradient(value, points))
    of_weights = of_weights + proximal_sign * RATE * (weights - target)
    return weights - LEARNING_RATE * of_weights, proxies - LEARNING_RATE * of_proxies


def start(seed):
    rng = np.random.default_rng(seed)
    arrays = rng.normal(size=(INPUTS, DIM)), rng.normal(size=(CLASSES * PROXIES, DIM)), rng.normal(size=(BATCH, INPUTS))
    weights, proxies, inputs = (array.astype(np.float32).astype(np.float64) / 2 for array in arrays)
    return weights, proxies, inputs, weights + np.float32(0.5)


def keras_step(loss, weights, proxies, inputs, target):
    network = keras.Sequential([keras.Input((INPUTS,)), keras.layers.Dense(DIM, use_bias=False)])
    network.set_weights([target.astype(np.float32)])
    bank = ProxyBank(CLASSES, PROXIES, DIM)
    bank.proxies.assign(proxies.astype(np.float32))
    model = ChanceConstrainedModel(network, ChanceConstrainedLoss(loss, bank), rate=RATE)
    network.set_weights([weights.astype(np.float32)])
    model.compile(keras.optimizers.SGD(LEARNING_RATE))
    model.fit(inputs.astype(np.float32), LABELS, batch_size=BATCH, shuffle=False, verbose=0)
    return network.get_weights()[0], np.array(bank.proxies)


def project_step(loss, weights, proxies, inputs, target):
    bank = ProxyBank(CLASSES, PROXIES, DIM)
    bank.proxies.assign(proxies.astype(np.float32))
    backbone = keras.Sequential([keras.Input((1, 1, INPUTS)), keras.layers.Activation("linear")])
    head = EmbeddingHead(GlobalAveragePooling(), DIM)
    model = EmbeddingModel(backbone, head, ChanceConstrainedLoss(loss, bank), normalization="clip")
    images, labels = tf.constant(inputs[:, None, None, :], tf.float32), tf.constant(LABELS)
    model.build_from_batch(images, labels)
    head.set_weights([target.astype(np.float32)])
    term = ProximalTerm(head.trainable_variables, RATE)
    head.set_weights([weights.astype(np.float32)])
    model.compile_training(ProxyRateOptimizer(keras.optimizers.SGD(LEARNING_RATE), 0.5), [term])
    model.train_step((images, labels))
    return head.get_weights()[0], np.array(bank.proxies)


@pytest.mark.parametrize(("step", "pace"), [(keras_step, 1.0), (project_step, 0.5)])
@pytest.mark.parametrize("name", CASES)
def test_a_step_is_the_one_written_out_by_hand(name, step, pace):
    loss = CASES[name]
    found = step(loss, *start(0))
    expected = step_by_hand(loss, *start(0))
    proxies = start(0)[1]
    assert np.abs(expected[1] - proxies).max() > 1e-2
    np.testing.assert_allclose(found[0], expected[0], atol=2e-6)
    np.testing.assert_allclose(found[1], proxies + pace * (expected[1] - proxies), atol=2e-6)
    misprint = step_by_hand(loss, *start(0), proximal_sign=-1.0)
    assert np.abs(found[0] - misprint[0]).min() > 0.1


def test_a_network_that_is_not_built_is_refused():
    loss = ChanceConstrainedLoss(ContrastiveLoss(), ProxyBank(CLASSES, PROXIES, DIM))
    with pytest.raises(InvalidInput, match="network: .* expected one that is built"):
        ChanceConstrainedModel(keras.Sequential([keras.layers.Dense(DIM)]), loss)


def test_a_keras_file_holds_network_and_proxies_and_training_goes_on_from_them(tmp_path):
    network = keras.Sequential([keras.Input((INPUTS,)), keras.layers.Dense(DIM)])
    loss = ChanceConstrainedLoss(ContrastiveLoss(), ProxyBank(CLASSES, PROXIES, DIM))
    model = ChanceConstrainedModel(network, loss, rate=RATE)
    model.compile(keras.optimizers.SGD(0.1))
    inputs = start(0)[2].astype(np.float32)
    model.fit(inputs, LABELS, batch_size=BATCH, epochs=2, verbose=0)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    for values, saved in zip(loaded.get_weights(), model.get_weights(), strict=True):
        np.testing.assert_array_equal(values, saved)
    np.testing.assert_allclose(loaded.embed([inputs]), model.embed([inputs]), rtol=1e-6)
    loaded.compile(keras.optimizers.SGD(0.0))
    loaded.fit(inputs, LABELS, batch_size=BATCH, verbose=0)
    assert loaded.proximal_term.rate == RATE
    for target, weight in zip(loaded.proximal_term.targets(), network.trainable_variables, strict=True):
        np.testing.assert_array_equal(target, weight)
