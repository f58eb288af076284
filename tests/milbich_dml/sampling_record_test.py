import numpy as np

from milbich_dml import SamplingDistribution, SamplingRecord
from milbich_dml.policy_adapted_sampling import Decision


def test_decisions_are_kept_in_their_order_and_restored():
    record = SamplingRecord(SamplingDistribution(2, start=None), 7)
    assert len(record) == 0
    for number, reward in enumerate((None, -1.0)):
        shares = np.array([0.25, 0.75]) if number else np.array([0.5, 0.5])
        record.observe(Decision(number, shares, np.zeros(3), np.array([number, 2]), reward))
    other = SamplingRecord(SamplingDistribution(2, start=None), 7)
    other.restore(record.state(), record.arrays())
    found = other.as_arrays()
    np.testing.assert_array_equal(found["steps"], [7, 14])
    np.testing.assert_array_equal(found["probabilities"], [[0.5, 0.5], [0.25, 0.75]])
    np.testing.assert_array_equal(found["actions"], [[0, 2], [1, 2]])
    np.testing.assert_array_equal(found["rewards"], [np.nan, -1.0])
    np.testing.assert_allclose(found["edges"], [0.1, 0.75, 1.4])
