import numpy as np
import pytest
import tensorflow as tf

from gsp_dml import CombinedSumHead, GeneralizedSumPooling

keras = tf.keras


@pytest.fixture
def features():
    return np.abs(np.random.default_rng(0).normal(size=(4, 3, 3, 6))).astype(np.float32)


def head_of(aggregation, **kwargs):
    prototypes = np.random.default_rng(1).normal(size=(5, 4))
    settings = {"transport_ratio": 0.3, "smoothing": 20.0, "prototype_initializer": prototypes, **kwargs}
    return CombinedSumHead(GeneralizedSumPooling(5, **settings), 4, aggregation=aggregation)


def parts_of(head, features):
    """Flat features, the projection and n p."""
    kernel = np.asarray(head.projection.kernel)
    flat = features.reshape(4, 9, 6)
    return flat, kernel, 9 * np.asarray(head.pooling.spatial_weights(tf.constant(flat @ kernel)))


def test_the_maximum_is_added_through_the_same_projection(features):
    head = head_of("max")
    outputs = head(features)
    flat, kernel, weights = parts_of(head, features)
    expected = (weights[..., None] * flat).mean(1) @ kernel + flat.max(1) @ kernel
    np.testing.assert_allclose(outputs["embeddings"], expected, rtol=1e-5, atol=1e-5)
    assert weights.std() > 0.1
    assert len(head.trainable_weights) == 2  # one projection, prototypes


def test_the_generalised_mean_is_over_weighted_features(features):
    head = head_of("generalized_mean")
    outputs = head(features)
    flat, kernel, weights = parts_of(head, features)
    powers = np.maximum(weights[..., None] * flat, 1e-6) ** 3
    np.testing.assert_allclose(outputs["embeddings"], powers.mean(1) ** (1 / 3) @ kernel, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("aggregation", ["max", "generalized_mean"])
def test_without_selection_the_second_aggregation_alone_is_left(features, aggregation):
    head = head_of(aggregation, transport_ratio=1.0)
    outputs = np.asarray(head(features)["embeddings"])
    flat, kernel, weights = parts_of(head, features)
    np.testing.assert_allclose(weights, 1.0, rtol=1e-5)
    pooled = flat.mean(1) + flat.max(1) if aggregation == "max" else (flat**3).mean(1) ** (1 / 3)
    np.testing.assert_allclose(outputs, pooled @ kernel, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("aggregation", ["max", "generalized_mean"])
def test_half_precision_is_that_of_the_head_and_not_of_where_it_is_rebuilt(features, aggregation):
    pooling = GeneralizedSumPooling(5, transport_ratio=0.3, smoothing=20.0, prototype_initializer="random")
    head = CombinedSumHead(pooling, 4, aggregation=aggregation, dtype="mixed_bfloat16")
    outputs = head(features)
    rebuilt = CombinedSumHead.from_config(head.get_config())
    rebuilt(features)
    rebuilt.set_weights(head.get_weights())
    assert outputs["embeddings"].dtype == tf.float32
    for name, expected in outputs.items():
        np.testing.assert_array_equal(rebuilt(features)[name], expected)
    assert rebuilt.projection.compute_dtype == "bfloat16"


@pytest.mark.parametrize("aggregation", ["max", "generalized_mean"])
def test_padding_does_not_count(features, aggregation):
    head, tokens, lengths = head_of(aggregation), features.reshape(4, 9, 6), [9, 4, 1, 6]
    mask = np.arange(9) < np.array(lengths)[:, None]
    outputs = head(np.where(mask[..., None], tokens, np.inf), mask=mask)
    for index, length in enumerate(lengths):
        alone = head(tokens[index : index + 1, :length])
        for name in ("embeddings", "attributes"):
            np.testing.assert_allclose(outputs[name][index], alone[name][0], rtol=1e-5, atol=1e-6)


def test_the_mask_of_keras_arrives_and_keeps_padding_out_of_the_memory():
    inputs = keras.Input([None], dtype="int32")
    embedding = keras.layers.Embedding(9, 6, mask_zero=True, embeddings_initializer="uniform")
    head = CombinedSumHead(GeneralizedSumPooling(2, memory_size=2), 4, aggregation="max")
    model = keras.Model(inputs, head(embedding(inputs)))
    short, padded = np.array([[1, 2, 3], [4, 5, 6]]), np.array([[1, 2, 3, 0, 0], [4, 5, 6, 0, 0]])
    np.testing.assert_allclose(model(padded)["embeddings"], model(short)["embeddings"], rtol=1e-5, atol=1e-7)
    model(padded, training=True)
    averages = np.asarray(head.projection(tf.reduce_mean(embedding(short), axis=1)))
    np.testing.assert_allclose(head.pooling.memory, averages, rtol=1e-5, atol=1e-7)
