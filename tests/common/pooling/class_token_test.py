import numpy as np

from common.pooling import ClassTokenPooling


def random_tokens():
    return np.random.default_rng(0).normal(size=(4, 6, 5)).astype(np.float32)


def test_the_first_of_the_tokens_is_taken():
    tokens = random_tokens()
    np.testing.assert_array_equal(ClassTokenPooling()(tokens), tokens[:, 0])
    np.testing.assert_array_equal(ClassTokenPooling()(tokens[:, None, :1]), tokens[:, 0])


def test_a_masked_first_token_is_zero():
    mask = np.ones((4, 6), bool)
    mask[1, 0] = mask[2, 3] = False
    tokens = random_tokens()
    expected = tokens[:, 0] * np.array([1, 0, 1, 1], np.float32)[:, None]
    np.testing.assert_array_equal(ClassTokenPooling()(tokens, mask=mask), expected)
