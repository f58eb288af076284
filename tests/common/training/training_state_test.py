import numpy as np
import pytest

from common.errors import InvalidInput
from common.training.training_state import TrainingStateHistory


def test_the_first_state_repeats_the_first_measurement():
    history = TrainingStateHistory(2, windows=(2, 3), length=3)
    history.append([0.5, 0.25])
    state = history.state([0.4, 0.6], progress=0.125)
    np.testing.assert_array_equal(state, np.float32([0.5, 0.25] * 5 + [0.4, 0.6, 0.125]))
    assert len(state) == history.size(2) == 13


def test_four_measurements_by_hand():
    history = TrainingStateHistory(1, windows=(2, 3), length=3)
    for value in (1.0, 2.0, 4.0, 8.0):
        history.append([value])
    np.testing.assert_allclose(history.state([1.0], 0.5), [2, 4, 8, 6, 14 / 3, 1, 0.5], rtol=1e-6)


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
