import numpy as np
import pytest
import tensorflow as tf

from common.errors import InvalidInput
from common.ops.normalization import mean_norm, normalize, normalize_groups

X = np.array([[3.0, 4.0], [0.3, 0.4], [0.0, 0.0]])


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        ("unit", [[0.6, 0.8], [0.6, 0.8], [0.0, 0.0]]),
        ("clip", [[0.6, 0.8], [0.3, 0.4], [0.0, 0.0]]),
        ("none", [[3.0, 4.0], [0.3, 0.4], [0.0, 0.0]]),
    ],
)
def test_values_by_hand(mode, expected):
    np.testing.assert_allclose(normalize(X, mode), expected, rtol=1e-12)


@pytest.mark.parametrize("mode", ["unit", "clip", "none"])
def test_gradient_equals_central_differences(mode):
    found, numeric = tf.test.compute_gradient(lambda x: normalize(x, mode), [tf.constant(X[:2])], delta=1e-6)
    np.testing.assert_allclose(found, numeric, atol=1e-8)


@pytest.mark.parametrize("dim", [8, 64, 1280])
def test_what_was_clipped_before_has_a_tangential_gradient_however_it_was_rounded(dim):
    rng = np.random.default_rng(0)
    once = normalize(rng.normal(size=(200, dim)).astype(np.float32) * 10, "clip").numpy()
    once *= np.float32(1) + np.linspace(-4, 4, 200).astype(np.float32)[:, None] * np.finfo(np.float32).eps
    squared = np.square(once.astype(np.float64)).sum(axis=1)
    assert (squared < 1).sum() > 50  # on either side of the sphere
    assert (squared > 1).sum() > 50
    vectors = tf.Variable(once)
    with tf.GradientTape() as tape:
        total = tf.reduce_sum(normalize(vectors, "clip") * rng.normal(size=once.shape).astype(np.float32))
    radial = tf.reduce_sum(tape.gradient(total, vectors) * once, axis=1)
    np.testing.assert_allclose(radial, np.zeros(200), atol=1e-4)
    np.testing.assert_allclose(normalize(vectors, "clip"), once, atol=1e-6)


@pytest.mark.parametrize("mode", ["unit", "clip", "none"])
def test_gradient_at_zero_is_finite(mode):
    x = tf.zeros((1, 2), tf.float16)
    with tf.GradientTape() as tape:
        tape.watch(x)
        total = tf.reduce_sum(normalize(x, mode))
    assert np.all(np.isfinite(tape.gradient(total, x)))


def test_half_precision_is_computed_in_float32():
    normalized = normalize(tf.constant([[300.0, 400.0]], tf.float16), "unit")
    assert normalized.dtype == tf.float32
    np.testing.assert_allclose(normalized, [[0.6, 0.8]], rtol=1e-6)


def test_unknown_mode_lists_the_choices():
    with pytest.raises(InvalidInput, match="received 'l2', expected one of unit, clip, none"):
        normalize(X, "l2")


def test_the_mean_norm_has_a_gradient_of_unit_vectors_and_none_at_zero():
    x = tf.constant(X)
    with tf.GradientTape() as tape:
        tape.watch(x)
        value = mean_norm(x)
    np.testing.assert_allclose(value, 5.5 / 3.0)
    np.testing.assert_allclose(tape.gradient(value, x), np.array([[0.6, 0.8], [0.6, 0.8], [0.0, 0.0]]) / 3.0)


def test_no_vectors_have_no_mean_norm():
    assert mean_norm(tf.zeros([0, 3])) == 0.0


@pytest.mark.parametrize("mode", ["unit", "clip"])
@pytest.mark.parametrize("component", [np.nan, np.inf, -1e20])
def test_a_vector_without_a_direction_is_nan_and_no_other(mode, component):
    normalized = normalize(tf.constant([[3.0, component], [3.0, 4.0]], tf.float32), mode)
    np.testing.assert_allclose(normalized, [[np.nan, np.nan], [0.6, 0.8]], rtol=1e-6)


@pytest.mark.parametrize("mode", ["unit", "clip", "none"])
def test_groups_are_normalised_apart(mode):
    x = np.random.default_rng(0).normal(size=(4, 3, 7))
    expected = np.concatenate([normalize(part, mode) for part in (x[..., :2], x[..., 2:6], x[..., 6:])], axis=-1)
    np.testing.assert_array_equal(normalize_groups(tf.constant(x), mode, [2, 4, 1]), expected)


@pytest.mark.parametrize("sizes", [[], [3, 3], [7, 0]])
def test_groups_that_do_not_fit_are_refused(sizes):
    with pytest.raises(InvalidInput, match="sizes: received .* expected positive numbers that add up to the 7"):
        normalize_groups(tf.zeros([2, 7]), "unit", sizes)
