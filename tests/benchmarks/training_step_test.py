import functools

import pytest

from benchmarks import training_step
from benchmarks.training_step import CASES, measured, ratios, variants
from tests.experiments.tiny_network import tiny_network

SECONDS = {"fit": [3.0, 6.0], "step": [2.0, 4.0], "Keras' Adam": [4.0, 4.0], "minimal": [1.0, 3.0]}


def test_ratios_are_medians_over_rounds():
    expected = {"fit_over_minimal": 2.5, "fit_over_step": 1.5, "folded_over_unfolded": None, "over_keras_adam": 0.75}
    assert ratios(SECONDS) == expected
    assert ratios({**SECONDS, "folded": [1.0, 3.0]}) == {**expected, "folded_over_unfolded": 0.625}


@pytest.mark.slow
def test_a_small_case_runs(tmp_path):
    case = CASES["resnet10_32"]._replace(batch_size=16, num_steps=1)
    assert set(training_step.CASES) >= {"mobilenet_v2_128", "resnet50_224", "bn_inception_227"}
    assert [name for name, case in CASES.items() if not case.is_frozen] == ["resnet10_32"]
    network = functools.partial(tiny_network, 3, frozen_batch_norm=True)
    seconds = measured(variants(case._replace(network=network, is_frozen=True), str(tmp_path)), 1)
    assert list(seconds) == ["fit", "step", "Keras' Adam", "folded", "minimal"]
    assert all(0 < value[0] < 60 for value in seconds.values())
