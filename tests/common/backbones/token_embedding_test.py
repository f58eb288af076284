import numpy as np
import pytest
import tensorflow as tf

from common.backbones.token_embedding import token_embedding
from common.errors import InvalidInput

keras = tf.keras


def test_each_token_is_its_row_of_initial_values_that_fill_the_interval():
    model = token_embedding(num_tokens=4000, dim=2)
    (table,) = model.get_weights()
    assert table.shape == (4000, 2)
    tokens = np.array([[0, 6, 6, 2], [5, 1, 0, 3999]], np.int32)
    np.testing.assert_array_equal(model(tokens), table[tokens])
    np.testing.assert_array_equal(model(tokens.astype(np.int64)), table[tokens])
    assert np.abs(table).max() <= 0.3
    np.testing.assert_allclose([table.min(), table.max(), table.mean(), table.std()], [-0.3, 0.3, 0, 0.173], atol=0.01)
    for settings in ({"num_tokens": 0}, {"num_tokens": 3, "dim": 0}):
        with pytest.raises(InvalidInput, match="greater than 0"):
            token_embedding(**settings)


def test_only_the_tokens_of_the_batch_get_a_gradient():
    model = token_embedding(num_tokens=5)
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(model(tf.constant([[1, 1, 4]])))
    gradient = tf.convert_to_tensor(tape.gradient(loss, model.trainable_variables)[0])
    np.testing.assert_array_equal(gradient[:, 0], [0, 2, 0, 0, 1])


def test_vectors_stay_in_the_interval_when_they_are_trained():
    model = token_embedding(num_tokens=3, bound=0.2)
    optimizer = keras.optimizers.SGD(1.0)
    table = model.trainable_variables[0]
    before = table.numpy()
    gradient = np.array([[-5, 5], [0, 0], [0.01, 0]], np.float32)
    optimizer.apply_gradients([(tf.constant(gradient), table)])
    np.testing.assert_allclose(table.numpy(), [[0.2, -0.2], before[1], np.clip(before[2] - gradient[2], -0.2, 0.2)])
