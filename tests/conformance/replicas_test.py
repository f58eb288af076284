"""Every loss in every composition on two and four replicas: the steps of one device with the global batch."""

import functools
import json

import pytest

from tests.command_line import run_program
from tests.conformance.loss_table import LOSSES

COMPOSITIONS = ("plain", "xbm", "ccp", "gsp", "zero_shot")
# One of each kind: pairs, proxies, boundaries, a memory, drawn triplets, a sum.
KINDS = ("ContrastiveLoss", "TripletLoss", "ProxyNCALoss", "MarginLoss", "CrossBatchMemoryLoss", "MinedLoss")
FEW = [f"{loss}/{composition}" for loss in KINDS for composition in COMPOSITIONS]
ALL = [f"{loss}/{composition}" for loss in LOSSES for composition in COMPOSITIONS]


@functools.cache
def found(replicas, steps, *rows):
    arguments = ["-m", "tests.conformance.replicated_steps", str(replicas), str(steps), *rows]
    finished = run_program(arguments, timeout=3600)
    assert finished.returncode == 0, finished.stderr
    return json.loads(finished.stdout.splitlines()[-1])


@pytest.mark.parametrize("row", FEW)
def test_two_replicas_step_like_one_device(row):
    assert found(2, 2, *FEW)["rows"][row]["loss_and_gradients"] < 1e-5


def test_a_gathered_batch_has_the_gradient_of_central_differences():
    assert found(2, 2, *FEW)["central_differences"] < 1e-7


@pytest.mark.slow
@pytest.mark.parametrize("replicas", [2, 4])
@pytest.mark.parametrize("row", ALL)
def test_replicas_step_like_one_device(row, replicas):
    assert found(replicas, 2, *ALL)["rows"][row]["loss_and_gradients"] < 1e-5


@pytest.mark.slow
@pytest.mark.parametrize("row", FEW)
def test_replicas_train_like_one_device_for_20_steps(row):
    assert found(2, 20, *FEW)["rows"][row]["weights"] < 1e-4
