"""What is kept when a problem begins."""

import numpy as np

from ccp_dml import choose_representatives
from common.files import read_arrays
from experiments.runs.projection_snapshots import snapshot_path, snapshot_recorder


def test_embeddings_and_representatives_are_kept(tmp_path):
    queries, pools = np.arange(6.0).reshape(3, 2), np.random.default_rng(0).normal(size=(2, 4, 3)).astype(np.float32)
    on_problem_start = snapshot_recorder(tmp_path, lambda: queries)
    chosen = choose_representatives(pools, 2)
    on_problem_start(0, None, chosen)
    on_problem_start(1, pools[:, :2], chosen)
    first, second = (read_arrays(snapshot_path(tmp_path, index)) for index in (0, 1))
    assert set(first) == {"queries", "chosen"}
    np.testing.assert_array_equal(first["queries"], queries)
    np.testing.assert_array_equal(second["converged"], pools[:, :2])
    np.testing.assert_array_equal(second["chosen"], chosen.embeddings)
