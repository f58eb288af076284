import numpy as np
import pytest

from common.errors import InvalidInput
from common.records import ResumableCallback
from common.training import StepSchedule
from tests.common.training.fit_test import Validation, make_model, run_training

pytestmark = pytest.mark.usefixtures("functions_run_eagerly")


class Rates(ResumableCallback):
    """The learning rates of all steps."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def on_train_batch_begin(self, batch, logs=None):
        self.seen.append(float(np.asarray(self.model.optimizer.learning_rate)))


def test_the_rate_drops_at_the_steps_and_a_killed_run_goes_on_bit_for_bit(tmp_path):
    def run(path, stop_after=None):
        model, rates = make_model(), Rates()
        callbacks, schedule = [rates, StepSchedule([3, 5], 0.5)], {"max_steps": 8, "steps_per_evaluation": 2}
        try:
            run_training(path, model, Validation(model, stop_after=stop_after), 0.01, callbacks, **schedule)
        except KeyboardInterrupt:
            return None, rates.seen
        return model, rates.seen

    whole, expected = run(tmp_path / "whole")
    np.testing.assert_allclose(expected, [0.01] * 3 + [0.005] * 2 + [0.0025] * 3, rtol=1e-6)
    _, first = run(tmp_path / "parts", stop_after=2)
    resumed, rest = run(tmp_path / "parts")
    assert first[:4] + rest == expected
    for weight, other in zip(whole.get_weights(), resumed.get_weights(), strict=True):
        np.testing.assert_array_equal(weight, other)


@pytest.mark.parametrize("drops", [[], [3, 3], [5, 3], [0]])
def test_drops_out_of_order_are_refused(drops):
    with pytest.raises(InvalidInput, match="Invalid drops: received"):
        StepSchedule(drops, 0.5)
    with pytest.raises(InvalidInput, match=r"factor: received 1.0, expected a number in \(0, 1\)"):
        StepSchedule([1], 1.0)
