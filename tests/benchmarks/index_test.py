import importlib.util
import mmap

import numpy as np
import pytest

from benchmarks import index as benchmark
from common.index import EmbeddingIndex


def test_embeddings_are_clustered_and_queries_are_new():
    embeddings, queries = benchmark.clustered(3_000, 50, 32)
    np.testing.assert_allclose(np.linalg.norm(np.r_[embeddings, queries], axis=1), 1, atol=1e-5)
    found = EmbeddingIndex.build(embeddings, range(3_000)).search(queries, 10)
    # nearer than the nearest of as many random directions of 32 components would be, and never an item itself
    assert np.median(found.similarities[:, 0]) > 0.8
    assert found.similarities.max() < 0.9999
    values = np.linalg.eigvalsh(np.cov(embeddings.T))[::-1]
    assert values[:8].sum() > 0.55 * values.sum()


def test_a_step_counts_what_it_takes():
    def fill():
        new = mmap.mmap(-1, 2**27, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)  # not memory that this process has kept
        np.frombuffer(new, np.uint8)[:] = 1
        return new

    (kept, seconds, extra) = benchmark.step(fill)
    assert len(kept) == 2**27
    assert seconds > 0
    if benchmark.anonymous_bytes():
        assert 0.13 < extra < 0.2


def test_a_small_run_has_all_figures(tmp_path):
    pytest.importorskip("faiss", reason="faiss is not installed (pip install faiss-cpu)")
    steps, rows, figures = benchmark.run(str(tmp_path / "index"), 2_000, 50, 16, ["hnsw", "ivf_pq"], 1)
    assert len(steps) == len(rows) == 3
    assert {"recall_at_10", "search_over_faiss", "extra_gb"} <= set(figures)
    assert figures["faiss_agreement"] > 0.99
    assert figures["recall_at_10"] == figures["hnsw_recall_at_10"] > 0.9
    assert figures["ivf_pq_recall_at_10"] == pytest.approx(figures["ivf_pq_faiss_recall_at_10"], abs=0.03)
    assert figures["search_over_faiss"] == figures["hnsw_over_faiss"] > 0


def test_a_small_comparison_has_a_ratio_for_each_step_of_a_peer(tmp_path):
    pytest.importorskip("faiss", reason="faiss is not installed (pip install faiss-cpu)")
    rows, figures = benchmark.peer_figures(str(tmp_path), *benchmark.clustered(2_000, 50, 16))
    assert [row[0] for row in rows][-2:] == ["replace", "remove"]
    assert {"build_over_faiss", "one_query_over_faiss", "queries_over_faiss", "ours_extra_gb"} <= set(figures)
    if importlib.util.find_spec("lancedb"):
        assert {"label_query_over_lancedb", "replace_over_lancedb", "remove_over_lancedb"} <= set(figures)
    assert len(EmbeddingIndex.load(tmp_path / "ours")) == 1_900
