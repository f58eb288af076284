"""Search, index, export and the page without `fcntl` and `resource`, as on Windows."""

import pytest

from tests.support.command_line import run_program

PROGRAM = """
import sys
import numpy as np
sys.modules["fcntl"] = sys.modules["resource"] = None
import filelock
filelock.lock_descriptor = lambda descriptor, blocking: True  # Windows has one of its own
import experiments.export, photo_search.search, photo_search.serve
import photo_search.page.app, photo_search.photos.actions
from photo_search.index import EmbeddingIndex
EmbeddingIndex.build([[1.0, 0.0], [0.0, 1.0]], ["a", "b"]).save(sys.argv[1])
index = EmbeddingIndex.load(sys.argv[1])
index.add(np.array([[0.8, 0.6]]), ["c"])
print(EmbeddingIndex.load(sys.argv[1]).search(np.array([[0.6, 0.8]]), 2).ids)
"""


@pytest.mark.slow
def test_commands_import_and_an_index_is_searched(tmp_path):
    fresh = "modules that the server has imported would stay"
    finished = run_program(["-c", PROGRAM, str(tmp_path / "index")], fresh=fresh)
    assert finished.stdout == "[['c', 'b']]\n", finished.stderr
