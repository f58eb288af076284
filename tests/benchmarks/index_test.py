import pytest

from benchmarks import index as benchmark
from common.errors import InvalidInput
from photo_search.index import EmbeddingIndex
from tests.support.postgres import PostgresServer


def test_a_small_run_has_all_figures(tmp_path):
    pytest.importorskip("faiss", reason="faiss is not installed (pip install faiss-cpu)")
    steps, rows, figures = benchmark.run(
        str(tmp_path / "index"), *benchmark.clustered(2_000, 50, 16), ["hnsw", "ivf_pq"], 1
    )
    assert len(steps) == len(rows) == 3
    assert {"recall_at_10", "search_over_faiss", "extra_gb"} <= set(figures)
    assert figures["faiss_agreement"] > 0.99
    assert figures["recall_at_10"] == figures["hnsw_recall_at_10"] > 0.9
    assert figures["ivf_pq_recall_at_10"] == pytest.approx(figures["ivf_pq_faiss_recall_at_10"], abs=0.03)
    assert figures["search_over_faiss"] == figures["hnsw_over_faiss"] > 0


def test_a_small_comparison_has_a_ratio_for_each_step_of_a_peer(tmp_path):
    pytest.importorskip("faiss", reason="faiss is not installed (pip install faiss-cpu)")
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
