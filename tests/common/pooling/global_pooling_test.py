import numpy as np
import pytest
import tensorflow as tf

from common.pooling import GlobalAverageMaxPooling, GlobalAveragePooling, GlobalMaxPooling

keras = tf.keras

POOLINGS = {
    GlobalAveragePooling: lambda x: x.mean(axis=0),
    GlobalMaxPooling: lambda x: x.max(axis=0),
    GlobalAverageMaxPooling: lambda x: x.mean(axis=0) + x.max(axis=0),
}


@pytest.fixture(params=list(POOLINGS), ids=lambda pooling: pooling.__name__)
def pooling_class(request):
    return request.param


def random_maps():
    return np.random.default_rng(0).normal(size=(4, 3, 2, 5)).astype(np.float32)


def test_feature_maps_equal_the_definition(pooling_class):
    maps = random_maps()
    expected = [POOLINGS[pooling_class](image.reshape(-1, 5)) for image in maps]
    np.testing.assert_allclose(pooling_class()(maps), expected, rtol=1e-6, atol=1e-6)


def test_masked_positions_do_not_count(pooling_class):
    tokens = random_maps().reshape(4, 6, 5)
    mask = np.arange(6) < np.array([[6], [1], [3], [0]])
    expected = [POOLINGS[pooling_class](x[m]) if m.any() else np.zeros(5) for x, m in zip(tokens, mask)]
    spoiled = np.where(mask[..., None], tokens, np.nan)
    np.testing.assert_allclose(pooling_class()(spoiled, mask=mask), expected, rtol=1e-6, atol=1e-6)


def test_a_mask_comes_along_from_an_embedding_layer():
    embedding = keras.layers.Embedding(5, 3, mask_zero=True)
    tokens = np.array([[1, 2, 0, 0], [4, 0, 0, 0]])
    table = np.asarray(embedding(tokens))
    expected = [table[0, :2].mean(axis=0), table[1, 0]]
    np.testing.assert_allclose(GlobalAveragePooling()(embedding(tokens)), expected, rtol=1e-6)


def test_half_precision_is_averaged_in_float32():
    maps = np.full((1, 64, 64, 1), 100.0, np.float16)  # the sum, 409,600, is above the largest float16
    pooled = GlobalAveragePooling(dtype="float16")(maps)
    assert pooled.dtype == tf.float16
    np.testing.assert_array_equal(pooled, [[100.0]])
