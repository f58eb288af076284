import importlib.util

import numpy as np
import pytest

from benchmarks.losses import CASES, OurStep, make_inputs, summary
from tests.support.command_line import check_clean_failure, run_here

HAS_PEERS = all(importlib.util.find_spec(name) for name in ("torch", "pytorch_metric_learning"))


@pytest.mark.skipif(HAS_PEERS, reason="the peers are installed")
def test_without_its_peers_it_says_how_to_install_them():
    check_clean_failure(run_here("benchmarks.losses"), "torch", "pip install -r constraints/oracles.txt")


@pytest.mark.parametrize(
    "name",
    ["c2", "semi_hard_256", "ms_ccp", "pnca_sop", "margin_distance_112", "arcface_centers_sop", "pnp"],
)
def test_a_pass_of_ours_returns_a_finite_positive_loss(name):
    case = CASES[name]
    inputs = make_inputs(case)
    assert inputs.embeddings.shape == (case.batch, 128)
    assert (np.unique(inputs.labels, return_counts=True)[1] == 4).all()
    assert case.references == (0 if inputs.references is None else len(inputs.references[0]))
    assert 0.0 < OurStep(case, inputs)() < np.inf


def test_the_summary_leaves_out_memory_below_its_resolution():
    results = {
        "c1": {"time_ratio": 0.5, "ours_mb": 0.2, "peer_mb": 0.1},
        "semi_hard_256": {"time_ratio": 0.25, "ours_mb": 3.0, "peer_mb": 12.0},
    }
    found = summary(results)
    assert (found["worst_time_ratio"], found["worst_memory_ratio"]) == (0.5, 0.25)
    assert "c1_memory_ratio" not in found
