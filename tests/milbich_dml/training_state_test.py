import numpy as np
import pytest

from common.errors import InvalidInput
from milbich_dml.training_state import TrainingStateHistory


def test_windows_equal_loops_over_a_long_run():
    history, rng = TrainingStateHistory(3), np.random.default_rng(0)
    seen = []
    for step in range(40):
        seen.append(rng.normal(size=3))
        history.append(seen[-1])
        recent = seen[-20:]
        recent = [recent[0]] * (20 - len(recent)) + recent
        means = [np.mean(seen[-window:], axis=0) for window in (2, 8, 16, 32)]
        expected = np.concatenate([*recent, *means, np.full(30, 1 / 30), [step / 40]])
        np.testing.assert_allclose(history.state(np.full(30, 1 / 30), step / 40), expected, rtol=1e-5)
    assert history.size(30) == 24 * 3 + 31
    assert TrainingStateHistory(7).size(30) == 199
    assert len(history.measurements) == 32


def test_what_cannot_be_a_measurement_is_refused():
    history = TrainingStateHistory(2)
    for metrics in ([1.0], [1.0, np.nan]):
        with pytest.raises(InvalidInput, match="metrics: received .* expected 2 finite numbers"):
            history.append(metrics)
    with pytest.raises(InvalidInput, match="history: received 'no measurement', expected at least one"):
        history.state([1.0], 0.0)
