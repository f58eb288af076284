import numpy as np
import pytest
import tensorflow as tf

from common.errors import InvalidInput
from common.losses import MarginLoss, MinedLoss
from milbich_dml import SamplingDistribution, binned


def test_begins_with_weight_on_the_bins_of_the_start():
    distribution = SamplingDistribution(30, outside=1e-3)
    weights = np.exp(np.array(distribution.log_weights))
    centers = 0.1 + 1.3 / 30 * (np.arange(30) + 0.5)
    chosen = (centers >= 0.3) & (centers <= 0.7)
    assert chosen.sum() == 9
    np.testing.assert_allclose(weights, np.where(chosen, 1.0, 1e-3), rtol=1e-5)
    np.testing.assert_allclose(distribution.probabilities().sum(), 1.0, rtol=1e-12)
    np.testing.assert_allclose(SamplingDistribution(4, start=None).probabilities(), 0.25, rtol=1e-6)


def test_begins_with_given_weights_and_a_copy_has_them():
    distribution = SamplingDistribution(3, weights=[1.0, 1e-25, 3.0])
    np.testing.assert_allclose(distribution.probabilities(), [0.25, 0.25e-25, 0.75], rtol=1e-5)
    again = SamplingDistribution.from_config(distribution.get_config())
    np.testing.assert_array_equal(again.log_weights, distribution.log_weights)
    for weights in ([1.0, 2.0], [1.0, 1.0, 0.0], [1.0, 1.0, np.nan]):
        with pytest.raises(InvalidInput, match="weights: .*expected 3 numbers in"):
            SamplingDistribution(3, weights=weights)


def test_scaling_multiplies_weights_within_their_bounds():
    distribution = SamplingDistribution(3, start=None)
    distribution.scale_by([0.8, 1.0, 1.25])
    np.testing.assert_allclose(distribution.probabilities(), np.array([0.8, 1.0, 1.25]) / 3.05, rtol=1e-6)
    distribution.scale_by([1.25, 1.0, 0.8])  # reciprocals cancel
    np.testing.assert_allclose(distribution.probabilities(), 1 / 3, rtol=1e-6)
    for _ in range(3):
        distribution.scale_by([1e-20, 1.0, 1e20])
    np.testing.assert_allclose(np.array(distribution.log_weights), np.log([1e-25, 1.0, 1e25]), rtol=1e-6)
    assert np.isfinite(distribution.probabilities()).all()


@pytest.mark.parametrize("positives_too", [False, True])
def test_a_mined_loss_draws_by_the_present_weights(positives_too):
    distribution = SamplingDistribution(4, 0.2, 1.9, None, draws="candidates", positives_too=positives_too)
    loss = MinedLoss(MarginLoss(), distribution, seed=3)
    assert distribution.trainable_variables == []
    assert any(weight is distribution.log_weights for weight in loss.weights)
    rng = np.random.default_rng(0)
    embeddings, labels = rng.normal(size=(12, 4)).astype(np.float32), np.arange(12) % 3
    step = tf.function(lambda: loss(embeddings, labels), autograph=False)
    before = float(step())
    distribution.scale_by([1e-9, 1.0, 1e9, 1e-9])
    assert float(step()) != before  # a trace reads the weight anew
    expected = binned(
        *(embeddings, labels, (3, 0)),
        log_weights=np.array(distribution.log_weights),
        low=0.2,
        high=1.9,
        draws="candidates",
        positives_too=positives_too,
    )
    for part, other in zip(distribution.triplets(embeddings, labels, (3, 0)), expected):
        np.testing.assert_array_equal(part, other)


def test_arguments_out_of_range_are_refused():
    for arguments, message in (
        ({"num_bins": 0}, "num_bins: received 0, expected a number greater than 0"),
        ({"low": 2.0}, "interval: received .* expected 0 <= low < high"),
        ({"start": (0.31, 0.32)}, "start: received .* expected an interval with the centre of a bin"),
        ({"outside": 0.0}, "outside: received 0.0, expected a weight in"),
        ({"draws": "all"}, "draws: received 'all', expected one of bins, candidates"),
    ):
        with pytest.raises(InvalidInput, match=message):
            SamplingDistribution(**arguments)
    for factors in ([1.0, 2.0], [1.0, 0.0, 1.0], [1.0, np.inf, 1.0]):
        with pytest.raises(InvalidInput, match="factors: received .* expected 3 numbers greater than 0"):
            SamplingDistribution(3, start=None).scale_by(factors)
