import numpy as np
import pytest
import tensorflow as tf

from common.errors import InvalidInput
from common.losses import ArcFaceLoss, NormalizedSoftmaxLoss, ProxyAnchorLoss, ProxyNCALoss
from common.references import References
from common.training import MetricModel

keras = tf.keras


@pytest.mark.parametrize("create", [ArcFaceLoss, NormalizedSoftmaxLoss, ProxyAnchorLoss, ProxyNCALoss])
def test_the_proxies_are_what_is_compared_with_unless_references_are_given(create):
    loss = create(num_classes=3, embedding_dim=4)
    embeddings, labels = tf.random.stateless_normal([5, 4], [0, 1]), tf.constant([0, 1, 2, 0, 1])
    assert [variable is loss.proxy_bank.proxies for variable in loss.proxy_variables] == [True]
    own = loss.compare_with_proxies(embeddings, labels)
    np.testing.assert_allclose(np.linalg.norm(own.references, axis=1), 1.0, rtol=1e-6)
    np.testing.assert_array_equal(own.positive, labels[:, None] == np.arange(3))
    given = References(embeddings[:2], labels[:2], None)
    assert loss.compare_with_proxies(embeddings, labels, given).positive.shape == (5, 2)
    assert float(loss(embeddings, labels)) != float(loss(embeddings, labels, given))


def test_labels_without_a_proxy_are_refused():
    with pytest.raises((InvalidInput, tf.errors.InvalidArgumentError), match="3"):
        NormalizedSoftmaxLoss(num_classes=3, embedding_dim=4)(tf.ones([2, 4]), tf.constant([0, 3]))


def test_proxies_take_a_regulariser_and_a_constraint(tmp_path):
    network = keras.Sequential([keras.Input((4,)), keras.layers.Dense(4)])
    rule = keras.constraints.MaxNorm(0.5, axis=1)
    model = MetricModel(
        network, ProxyNCALoss(3, 4, proxy_regularizer=keras.regularizers.L2(0.1), proxy_constraint=rule)
    )
    model.compile(keras.optimizers.SGD(0.1), run_eagerly=True)
    embeddings, labels = np.random.default_rng(0).normal(size=(6, 4)).astype(np.float32), np.arange(6) % 3
    model.fit(embeddings, labels, verbose=0)
    model.save(tmp_path / "model.keras")
    for loss in (model.metric_loss, keras.models.load_model(tmp_path / "model.keras").metric_loss):
        proxies = np.array(loss.proxy_bank.proxies)
        assert 0.4 < np.linalg.norm(proxies, axis=1).max() < 0.5 + 1e-6
        np.testing.assert_allclose(loss.losses, [0.1 * np.sum(proxies**2)], rtol=1e-5)
    alone = float(model.metric_loss(network(embeddings), labels))
    found = model.evaluate(embeddings, labels, verbose=0)
    np.testing.assert_allclose(found, alone + 0.1 * np.sum(proxies**2), rtol=1e-5)
