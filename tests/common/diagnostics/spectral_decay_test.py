import numpy as np
import pytest

from common.diagnostics.spectral_decay import spectral_decay, spectrum
from common.errors import InvalidInput


def with_spectrum(values, num_items=40, seed=0):
    """Embeddings with these singular values."""
    rng = np.random.default_rng(seed)
    left = np.linalg.qr(rng.normal(size=(num_items, len(values))))[0]
    right = np.linalg.qr(rng.normal(size=(len(values), len(values))))[0]
    return left @ np.diag(values) @ right


def test_the_spectrum_is_recovered():
    np.testing.assert_allclose(spectrum(with_spectrum([4.0, 2.0, 1.0, 1.0])), [0.5, 0.25, 0.125, 0.125])
    np.testing.assert_allclose(spectrum(with_spectrum([4.0, 2.0, 1.0, 1.0]), skip_top=1), [0.5, 0.25, 0.25])
    np.testing.assert_allclose(spectrum(np.float32([[3, 0, 0], [0, 1, 0]])), [0.75, 0.25, 0])  # fewer items than dims
    np.testing.assert_array_equal(spectrum(np.zeros((5, 3))), 0)


def test_rho_equals_the_formula():
    # KL(U || S) = -log 4 - (log 1/2 + log 1/4 + 2 log 1/8) / 4 = -2 log 2 + 9/4 log 2
    embeddings = with_spectrum([4.0, 2.0, 1.0, 1.0])
    assert spectral_decay(embeddings) == pytest.approx(np.log(2) / 4)
    # KL(S || U) = 1/2 log 2 + 1/4 log 1 + 1/4 log 1/2
    assert spectral_decay(embeddings, direction="spectrum_to_uniform") == pytest.approx(np.log(2) / 4)
    # Without the largest: -log 3 - (log 1/2 + 2 log 1/4) / 3
    assert spectral_decay(embeddings, skip_top=1) == pytest.approx(-np.log(3) + 5 / 3 * np.log(2))


def test_isotropic_half_rank_and_collapsed_embeddings():
    assert spectral_decay(with_spectrum([1.0] * 8)) == pytest.approx(0, abs=1e-12)
    assert spectral_decay(np.random.default_rng(0).normal(size=(5000, 128))) == pytest.approx(0.003, abs=2e-3)
    half = with_spectrum([1.0] * 4 + [0.0] * 4)
    assert spectral_decay(half) == pytest.approx(-np.log(8) - (np.log(1 / 4) + np.log(1e-12)) / 2)
    assert spectral_decay(half, direction="spectrum_to_uniform") == pytest.approx(np.log(2))
    point = np.tile(np.float32([0.6, 0.8, 0, 0]), (30, 1))
    assert spectral_decay(point) == pytest.approx(-np.log(4) - 3 / 4 * np.log(1e-12))
    assert spectral_decay(point, direction="spectrum_to_uniform") == pytest.approx(np.log(4))
    assert spectral_decay(half) < spectral_decay(with_spectrum([1.0] + [0.0] * 7))
    weak, empty = with_spectrum([1.0, 1e-9]), with_spectrum([1.0, 0.0])  # a direction a billionth as strong, and none
    assert spectral_decay(weak) == pytest.approx(-np.log(2) - np.log(1e-9) / 2, rel=1e-4)
    assert spectral_decay(empty) > spectral_decay(weak) + 3


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_empty_directions_stay_empty_in_low_precision(dtype):
    rng = np.random.default_rng(0)
    half = (rng.normal(size=(2000, 4)) @ rng.normal(size=(4, 8))).astype(dtype)
    assert spectrum(half)[3] > 0.05
    np.testing.assert_array_equal(spectrum(half)[4:], 0)
    exact = (half.astype(np.float64) @ np.linalg.pinv(half.astype(np.float64), rcond=1e-2)) @ half.astype(np.float64)
    assert spectral_decay(half) == pytest.approx(spectral_decay(exact), rel=1e-3)


def test_only_centring_takes_the_mean_away():
    embeddings = with_spectrum([1.0, 1.0, 1.0]) - with_spectrum([1.0, 1.0, 1.0]).mean(axis=0)
    shifted = embeddings + 50
    assert spectral_decay(shifted, centre=True) == pytest.approx(spectral_decay(embeddings), abs=1e-9)
    assert spectral_decay(shifted) > 1
    assert spectral_decay(3 * shifted) == pytest.approx(spectral_decay(shifted))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: spectral_decay(np.ones((3, 2)), skip_top=2), "skip_top: received 2, expected less than 2"),
        (lambda: spectral_decay(np.ones((3, 2)), skip_top=-1), "skip_top: received -1"),
        (lambda: spectral_decay(np.float32([[1, np.nan]])), "NaN or infinity in row 0"),
        (lambda: spectral_decay(np.ones((3, 2)), direction="both"), "direction: received 'both'"),
        (lambda: spectral_decay(np.ones((3, 2)), floor=0.0), "floor: received 0.0, expected a number greater than 0"),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(InvalidInput, match=message):
        call()
