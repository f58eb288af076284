import pytest

from common.errors import InvalidInput
from photo_search.index import EmbeddingIndex
from tests.support.postgres import PostgresServer

pytest.importorskip("faiss", reason="faiss is not installed (pip install faiss-cpu)")
from benchmarks import index as benchmark  # noqa: E402


def test_a_small_run_has_all_figures(tmp_path):
    steps, row, figures = benchmark.run(str(tmp_path / "index"), *benchmark.clustered(2_000, 50, 16), 1)
    assert (len(steps), len(row)) == (3, 5)
    assert figures["faiss_agreement"] > 0.99
    assert figures["exact_over_faiss"] > 0


def test_a_small_comparison_has_a_ratio_for_each_step_of_a_peer(tmp_path):
    server = PostgresServer()
    try:
        database = server.address().partition("#")[0]
        with benchmark.own_index(database) as place:
            rows, figures = benchmark.peer_figures(str(tmp_path), *benchmark.clustered(2_000, 50, 16), place)
            assert len(EmbeddingIndex.load(place)) == 1_900
        with pytest.raises(InvalidInput, match="with an index of that name"):
            EmbeddingIndex.load(place)
    finally:
        server.stop()
    assert {len(row) for row in rows} == {6}
    assert [row[0] for row in rows][-2:] == ["replace", "remove"]
    assert {"build_over_faiss", "one_query_over_faiss", "queries_over_faiss", "ours_extra_gb"} <= set(figures)
    assert len(EmbeddingIndex.load(tmp_path / "ours")) == 1_900
