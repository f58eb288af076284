"""What is kept when a problem begins."""

import numpy as np

from ccp_dml import choose_representatives
from common.training.run_directory import read_arrays
from experiments.units.problem_record import problem_path, problem_recorder


def test_embeddings_and_representatives_are_kept(tmp_path):
    queries, pools = np.arange(6.0).reshape(3, 2), np.random.default_rng(0).normal(size=(2, 4, 3)).astype(np.float32)
    observe = problem_recorder(tmp_path, lambda: queries)
    chosen = choose_representatives(pools, 2)
    observe(0, None, chosen)
    observe(1, pools[:, :2], chosen)
    first, second = (read_arrays(problem_path(tmp_path, index)) for index in (0, 1))
    assert set(first) == {"queries", "chosen"}
    np.testing.assert_array_equal(first["queries"], queries)
    np.testing.assert_array_equal(second["converged"], pools[:, :2])
    np.testing.assert_array_equal(second["chosen"], chosen.embeddings)
