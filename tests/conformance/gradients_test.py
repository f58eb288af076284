"""One table of all gradients that are written by hand, against derivatives from values in float64.

In float32 at 67 rows, with 17 channels and 5 prototypes, of vectors inside, on and outside of the unit ball: here, and
on emulated processors whose approximations are off by a unit in the last place.
"""

import functools
import pathlib
import re

import numpy as np
import pytest
import tensorflow as tf

from gsp_dml import prototype_costs
from tests.conformance.gradient_cases import CASES, CHANNELS, COMPILED, vectors
from tests.conformance.gradient_check import GradientCheck
from tests.conformance.inexact_arithmetic import PROCESSORS
from tests.support.sources import PACKAGES

ROOT = pathlib.Path(__file__).resolve().parents[2]
ROWS = 67
BOUND = 1e-4

# Each file with a `tf.custom_gradient`, and the cases that check it.
CUSTOM_GRADIENTS = {
    "ccp_dml/chance_constrained_loss.py": {"CompiledLoss"},
    "milbich_dml/decorrelation.py": {"reverse_gradient"},
    "common/training/gradients.py": set(),  # by weights, of micro batches: `losses_test`
    "common/pooling/weighted_pooling.py": {"weighted_sum"},
    "gsp_dml/partial_transport.py": {"partial_transport", "partial_transport, fixed point"},
    "gsp_dml/prototype_costs.py": {"prototype_costs", "prototype_costs, a feature near a prototype"},
    "gsp_dml/generalized_sum_pooling.py": set(),  # the identity, with a warning
    "gsp_dml/transport_pooling.py": {"transport_pooling", "CompiledPooling"},
}


@functools.cache
def check_of(name, lengths, dtype="float32") -> GradientCheck:
    return GradientCheck(name, ROWS, lengths, dtype)


def all_cases(is_wanted=lambda name: True):
    return pytest.mark.parametrize(
        ("name", "lengths"),
        [(name, lengths) for name, case in CASES.items() if is_wanted(name) for lengths in case.lengths],
    )


def test_the_table_has_every_custom_gradient():
    found = {
        str(path.relative_to(ROOT))
        for package in PACKAGES
        for path in (ROOT / package).rglob("*.py")
        if re.search(r"^\s*@tf\.custom_gradient$", path.read_text(), re.MULTILINE)
    }
    assert found == set(CUSTOM_GRADIENTS)
    assert {name for name, case in CASES.items() if case.is_custom} == set().union(*CUSTOM_GRADIENTS.values())


@all_cases()
def test_gradients_agree_with_float64_differences(name, lengths):
    check = check_of(name, lengths)
    assert check.error() < BOUND
    if name not in COMPILED and lengths == CASES[name].lengths[0]:
        assert check.error(as_function=True) < BOUND


@all_cases(lambda name: name not in COMPILED)
def test_gradients_do_not_hang_on_inexact_operations(name, lengths):
    errors = {label: check_of(name, lengths).error(processor) for label, processor in PROCESSORS.items()}
    assert {label: error for label, error in errors.items() if not error < BOUND} == {}


def test_compiled_pooling_does_not_hang_on_inexact_operations():
    assert check_of("CompiledPooling", "mixed").error(PROCESSORS["one unit low"]) < BOUND


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.is_custom and name not in COMPILED])
def test_gradients_of_bfloat16_inputs_are_right_but_for_their_rounding(name):
    lengths = "mixed" if "mixed" in CASES[name].lengths else CASES[name].lengths[0]
    assert check_of(name, lengths, "bfloat16").error() < 2.0**-8 + BOUND


def costs_gradient(features, prototypes, upstream):
    features = tf.constant(features)
    with tf.GradientTape() as tape:
        tape.watch(features)
        costs = prototype_costs(features, tf.constant(prototypes))
    return tape.gradient(costs, features, tf.constant(upstream, features.dtype)).numpy()


def test_a_vector_on_the_ball_to_rounding_has_the_gradient_outside():
    """Norms of 1 + O(1e-7) fall inside or outside by the order of a sum, and have the same gradient in either case."""
    generator = np.random.default_rng(0)
    directions = generator.normal(size=(ROWS, CHANNELS))
    features = (directions / np.linalg.norm(directions, axis=1, keepdims=True)).astype(np.float32)
    prototypes = vectors(5, "inside", generator)[0]
    upstream = generator.normal(size=(ROWS, 5))
    found = costs_gradient(features, prototypes.astype(np.float32), upstream)
    inside, outside = (
        costs_gradient(scale * features.astype(np.float64), prototypes, upstream) for scale in (1 - 1e-5, 1 + 1e-6)
    )
    assert (np.linalg.norm(found - outside, axis=1) < 1e-4 * np.linalg.norm(outside, axis=1)).all()
    assert np.linalg.norm(inside - outside) > 0.1 * np.linalg.norm(inside)  # the sides differ
