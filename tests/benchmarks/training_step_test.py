"""The benchmark of the training step: what its ratios are of, and one small case from beginning to end."""

import functools

import pytest

from benchmarks import training_step
from benchmarks.training_step import CASES, figures_of, measured, ratios, variants
from tests.experiments.tiny_network import tiny_network

SECONDS = {"fit": [3.0, 6.0], "step": [2.0, 4.0], "Keras' Adam": [4.0, 4.0], "minimal": [1.0, 3.0]}


def test_ratios_are_medians_over_rounds():
    expected = {"fit_over_minimal": 2.5, "fit_over_step": 1.5, "folded_over_unfolded": None, "over_torch": None}
    expected["over_keras_adam"] = 0.75
    assert ratios(SECONDS) == expected
    assert ratios({**SECONDS, "folded": [1.0, 3.0]}) == {**expected, "folded_over_unfolded": 0.625}


def test_the_peer_is_the_faster_of_two():
    slow_and_fast = {"torch float32": [8.0, 8.0], "torch bfloat16": [4.0, 4.0]}
    assert ratios({**SECONDS, **slow_and_fast})["over_torch"] == 0.75


def test_a_round_begins_with_another_variant():
    called = []
    functions = {name: lambda name=name: called.append(name) or 1.0 for name in "ab"}
    assert measured(functions, 3) == {"a": [1.0] * 3, "b": [1.0] * 3}
    assert "".join(called) == "abbaab"


def test_the_last_line_says_null_for_what_was_not_measured():
    assert figures_of({"resnet10_32": ratios(SECONDS)}) == {
        "mobilenet_fit_over_minimal": None,
        "resnet10_fit_over_minimal": 2.5,
        "mobilenet_over_torch": None,
        "resnet50_over_torch": None,
        "mobilenet_folded_over_unfolded": None,
        "mobilenet_fused_adam_over_keras": None,
    }
    folded = figures_of({"mobilenet_v2_128": ratios({**SECONDS, "folded": [1.0, 3.0]})})
    assert folded["mobilenet_folded_over_unfolded"] == 0.625
    assert folded["mobilenet_fused_adam_over_keras"] == 0.75


@pytest.mark.slow
def test_a_small_case_runs(tmp_path):
    case = CASES["resnet10_32"]._replace(batch_size=16, num_steps=1)
    assert set(training_step.CASES) >= {"mobilenet_v2_128", "resnet50_224", "bn_inception_227"}
    assert [name for name, case in CASES.items() if not case.is_frozen] == ["resnet10_32"]
    network = functools.partial(tiny_network, 3, frozen_batch_norm=True)
    seconds = measured(variants(case._replace(network=network, is_frozen=True), str(tmp_path)), 1)
    assert list(seconds) == ["fit", "step", "Keras' Adam", "folded", "minimal"]
    assert all(0 < value[0] < 60 for value in seconds.values())
