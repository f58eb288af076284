import numpy as np
import pytest
import tensorflow as tf

from common.errors import InvalidInput
from common.references import ProxyBank

keras = tf.keras


def test_proxies_lie_class_by_class():
    references = ProxyBank(3, 2, 5).references()
    np.testing.assert_array_equal(references.labels, [0, 0, 1, 1, 2, 2])
    assert references.embeddings.shape == (6, 5)
    assert references.valid is None


@pytest.mark.parametrize(
    ("initializer", "deviation"),
    [("he_normal", np.sqrt(2 / 128)), ("he_normal_over_proxies", np.sqrt(2 / 1000)), ("object", 3.0)],
)
def test_spread_of_the_initial_proxies(initializer, deviation):
    if initializer == "object":
        initializer = keras.initializers.RandomNormal(stddev=3.0, seed=1)
    proxies = np.array(ProxyBank(250, 4, 128, initializer).proxies)
    np.testing.assert_allclose(proxies.std(), deviation, rtol=0.02)


@pytest.mark.parametrize("initializer", ["he_normal", keras.initializers.Constant(2.0)])
def test_config_round_trip(initializer):
    bank = ProxyBank(3, 2, 5, initializer)
    again = ProxyBank.from_config(bank.get_config())
    assert again.get_config() == bank.get_config()
    if initializer != "he_normal":
        assert np.all(np.array(again.proxies) == 2.0)


@pytest.mark.parametrize("labels", [[0, 3], [-1, 0]])
def test_labels_without_a_proxy_are_refused(labels):
    wrong = next(label for label in labels if label != 0)
    with pytest.raises(tf.errors.InvalidArgumentError, match=rf"expected 0\.\.2\. Relabel.* {wrong}\b.* position"):
        ProxyBank(3, 1, 2).check_labels(tf.constant([0, 1, 2, 1, *labels]))


def test_unknown_initializer_lists_the_choices():
    with pytest.raises(InvalidInput, match="received 'glorot', expected one of he_normal, he_normal_over_proxies or a"):
        ProxyBank(3, 1, 2, "glorot")


@pytest.mark.parametrize("sizes", [(0, 1, 2), (3, 0, 2), (3, 1, 0)])
def test_sizes_of_zero_are_refused(sizes):
    with pytest.raises(InvalidInput, match="received 0, expected a number greater than 0"):
        ProxyBank(*sizes)
