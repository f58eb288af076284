"""Pictures of a sampling distribution over steps."""

import numpy as np

from experiments.reports.sampling_plot import SamplingHistory, mean_history, sampling_over_steps

EDGES = np.linspace(0.1, 1.4, 4)


def history(count, first):
    shares = np.array([[first, 1 - first, 0.0]] * count)
    return SamplingHistory("pads", 30 * np.arange(1, count + 1), EDGES, shares)


def test_a_run_that_stopped_early_stays_in_the_mean():
    mean = mean_history("two runs", [history(1, 0.2), history(3, 0.6)])
    np.testing.assert_allclose(mean.probabilities, [[0.4, 0.6, 0.0]] * 3)
    np.testing.assert_array_equal(mean.steps, [30, 60, 90])
    assert mean.label == "two runs"


def test_a_picture_has_a_panel_for_each(tmp_path):
    sampling_over_steps([history(1, 0.2), history(3, 0.6)], tmp_path / "sampling.png", title="p")
    assert (tmp_path / "sampling.png").read_bytes().startswith(b"\x89PNG")
