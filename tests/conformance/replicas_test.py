"""Losses in every composition on two and four replicas: the steps of one device with the global batch.

`python -m tests.conformance.replicated_steps 4` is the whole table on four of them.
"""

import functools
import json

import pytest

from common.training.devices import IS_KERAS_3
from tests.conformance.loss_table import LOSSES
from tests.support.command_line import run_program

COMPOSITIONS = ("plain", "xbm", "ccp", "gsp", "zero_shot")
# One of each kind: pairs, proxies, boundaries, a memory, drawn triplets, a sum.
KINDS = ("ContrastiveLoss", "TripletLoss", "ProxyNCALoss", "MarginLoss", "CrossBatchMemoryLoss", "MinedLoss")
FEW = [
    f"{loss}/{COMPOSITIONS[(turn + further) % len(COMPOSITIONS)]}"
    for turn, loss in enumerate(KINDS)
    for further in (0, 2)
]
ON_FOUR = [f"{loss}/{composition}" for loss, composition in zip(KINDS[::2], COMPOSITIONS[::2])]
# Draws by the bits of embeddings differ where rounding does, as between devices.
LEFT_OUT = (*KINDS, "MinedLoss by batch")
OTHERS = [loss for loss in LOSSES if loss not in LEFT_OUT]
WHOLE = [f"{loss}/{composition}" for loss in (*KINDS, *OTHERS) for composition in COMPOSITIONS]
SAMPLE = FEW  # one of each kind on either stack, some of the others on the default one
if IS_KERAS_3:
    SAMPLE = FEW + [f"{loss}/{COMPOSITIONS[turn % len(COMPOSITIONS)]}" for turn, loss in enumerate(OTHERS[::5])]

# The row of decorrelation weighs its gradient by 10, and so does a difference.
BOUNDS = {"DecorrelationLoss": 1e-4}


def bound(row):
    return BOUNDS.get(row.split("/")[0], 1e-5)


@functools.cache
def found(replicas, *rows):
    arguments = ["-m", "tests.conformance.replicated_steps", str(replicas), *rows]
    finished = run_program(arguments, timeout=3600)
    assert finished.returncode == 0, finished.stderr
    return json.loads(finished.stdout.splitlines()[-1])


def too_far_apart(replicas, rows):
    figures = found(replicas, *rows)["rows"]
    assert set(figures) == set(rows)
    return {row: figure for row, figure in figures.items() if not figure < bound(row)}


@pytest.mark.slow
@pytest.mark.parametrize("rows", [SAMPLE, pytest.param(WHOLE, marks=pytest.mark.release)], ids=["sample", "all"])
def test_two_replicas_step_like_one_device(rows):
    assert too_far_apart(2, rows) == {}


def test_a_gathered_batch_has_the_gradient_of_central_differences():
    assert found(2, *SAMPLE)["central_differences"] < 1e-7


@pytest.mark.slow
def test_four_replicas_step_like_one_device():
    assert too_far_apart(4, ON_FOUR) == {}
