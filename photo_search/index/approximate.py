"""Approximate search by faiss, with measured recall: HNSW graphs and product codes."""

from __future__ import annotations

import logging
import os
import pathlib
from collections.abc import Callable
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from common import retrieval
from common.errors import InvalidInput, check_choice, check_fraction, check_positive, invalid
from common.files import write_atomically
from photo_search.index.similarity import search_similarity, similarities_of

KINDS = ("hnsw", "ivf_pq")
TARGET_RECALL = 0.95
_LINKS = 32  # of a node of the graph
_CONSTRUCTION_EFFORT = 80  # nodes looked at to place a new one
_DIMS_PER_BYTE = 4  # of a product code
_TRAINING_ROWS_PER_LIST = 40
_ROWS_AT_ONCE = 65_536
_MOST_EFFORT = {"hnsw": 1024, "ivf_pq": 256}
_RECALL_DEPTH = 10
REFINED = 16  # rows whose stored embeddings are compared, for each neighbour that is wanted


class ApproximateSearch(NamedTuple):
    """A faiss index or a database's graph, with its measured recall.

    It covers the first rows of an `EmbeddingIndex`.

    Attributes:
        kind: "hnsw" or "ivf_pq".
        rows: number of rows that it covers; later rows are searched exactly.
        effort: `efSearch` of a graph, `nprobe` of inverted lists.
        recall_at_10: share of the ten exactly nearest rows that it finds, mean over `num_queries` indexed rows, each
            without itself (of fewer than ten if there are fewer).
        num_queries: of that measurement.
        index: of faiss; or a database's search, from queries, count and effort to rows `[queries, count]`.
        target_recall: that the build was asked for.
    """

    kind: str
    rows: int
    effort: int
    recall_at_10: float
    num_queries: int
    index: Any
    target_recall: float = TARGET_RECALL

    def as_record(self) -> dict:
        """Return everything except the faiss index, for JSON."""
        return {name: value for name, value in self._asdict().items() if name != "index"}

    def candidates(self, queries: np.ndarray, count: int) -> np.ndarray:
        """Return probably near rows `[queries, at least count]`, -1 for none."""
        wanted = min(self.rows, count if self.kind == "hnsw" else REFINED * count)
        effort = max(self.effort, wanted) if self.kind == "hnsw" else self.effort
        if callable(self.index):
            return self.index(queries, wanted, effort)
        if self.kind == "hnsw":
            self.index.hnsw.efSearch = effort
        else:
            self.index.nprobe = effort
        return self.index.search(np.ascontiguousarray(queries, np.float32), wanted)[1]


def import_faiss() -> ModuleType:
    """Import faiss, or raise an `InvalidInput` with its installation."""
    logging.getLogger("faiss.loader").setLevel(logging.WARNING)  # it reports each build that it tries
    try:
        import faiss
    except ImportError as error:
        raise InvalidInput(
            f"Approximate search needs faiss, which cannot be imported ({error}). Install it "
            "(pip install faiss-cpu, or the extra faiss of this package), or search exactly."
        ) from error
    return faiss


def build_approximate(
    embeddings: np.ndarray,
    metric: str,
    kind: str,
    *,
    target_recall: float = TARGET_RECALL,
    num_queries: int = 500,
    seed: int = 0,
    own_graph: Callable[[str], Any],
) -> ApproximateSearch:
    """Build a faiss index and measure its recall against exact search.

    The effort of a search (`efSearch`, `nprobe`) is doubled until the recall at 10 of a sample of the rows reaches the
    target, or until it is 1,024 (256 lists). The result states the recall reached, which may lie below the target.

    Args:
        embeddings: `[rows, dim]` as an index stores them; read after all checks.
        metric: of the index.
        kind: "hnsw": a graph beside float32 vectors (Malkov and Yashunin 2018), fast and exact in its comparisons, and
            1.5 times as large as the embeddings. "ivf_pq": inverted lists of product codes (Jegou, Douze and Schmid
            2011), about dim / 4 + 8 bytes a row; its proposals are compared again by the stored embeddings.
        target_recall: in (0, 1].
        num_queries: rows drawn to measure the recall with.
        seed: of the draw, and of faiss' k-means.
        own_graph: makes a database's index of a kind in place of faiss'; None if there is none.

    Raises:
        InvalidInput: faiss is missing, no such kind, or too few rows (two; for "ivf_pq" 1,000).
    """
    check_choice("kind", kind, KINDS)
    check_fraction("target_recall", target_recall)
    check_positive("num_queries", num_queries)
    fewest = 2 if kind == "hnsw" else 1000
    if len(embeddings) < fewest:
        raise invalid("rows", received=len(embeddings), expected=f"{fewest} or more for {kind}", fix="Search exactly.")
    index = own_graph(kind)
    embeddings = np.asarray(embeddings)
    if index is None:
        index = _filled(import_faiss(), embeddings, metric, kind, seed)
    sample = np.sort(np.random.default_rng(seed).permutation(len(embeddings))[:num_queries])
    depth = min(_RECALL_DEPTH, len(embeddings) - 1)
    queries = np.asarray(embeddings[sample], np.float32)
    similarity = search_similarity(metric)
    exact = retrieval.find_nearest_neighbors(queries, embeddings, num_neighbors=depth + 1, similarity=similarity)
    exact = without_own_row(exact, sample)
    effort = 16 if kind == "hnsw" else 1
    while True:
        found = ApproximateSearch(kind, len(embeddings), effort, 0.0, len(sample), index, target_recall)
        rows = best_of(queries, embeddings, found.candidates(queries, depth + 1), depth + 1, metric)
        recall = recall_of(without_own_row(rows, sample), exact)
        if recall >= target_recall or effort >= _MOST_EFFORT[kind]:
            return found._replace(recall_at_10=recall)
        effort *= 2


def recall_of(found: np.ndarray, exact: np.ndarray) -> float:
    """Return the share of exact neighbours `[queries, k]` in `found` `[queries, k]`."""
    hits = [len(np.intersect1d(row, truth)) for row, truth in zip(found, exact)]
    return float(np.sum(hits) / exact.size)


def without_own_row(neighbors: np.ndarray, own: np.ndarray) -> np.ndarray:
    """Drop each query's own row from neighbours `[queries, k + 1]`.

    Own rows are `[queries]`, the result `[queries, k]`. A query without its own row loses its last neighbour.
    """
    is_own = neighbors == own[:, np.newaxis]
    is_own[~is_own.any(axis=1), -1] = True
    return neighbors[~is_own].reshape(len(neighbors), neighbors.shape[1] - 1)


def best_of(queries: np.ndarray, embeddings: np.ndarray, rows: np.ndarray, k: int, metric: str) -> np.ndarray:
    """Return the k most similar of proposed rows `[queries, proposed]`.

    The best come first; equal ones are ordered by row. -1 marks an absent row, in the proposals and in the result.
    """
    ranked_by = search_similarity(metric)
    if rows.shape[1] > 4 * k:  # most are dismissed in float32
        rough = similarities_of(queries, embeddings, rows, ranked_by, np.float32)
        rows = np.take_along_axis(rows, np.argpartition(-rough, 2 * k, axis=1)[:, : 2 * k], axis=1)
    similarities = similarities_of(queries, embeddings, rows, ranked_by)
    order = np.lexsort((rows, -similarities), axis=1)[:, :k]
    return np.take_along_axis(rows, order, axis=1)


def write_approximate(path: pathlib.Path, search: ApproximateSearch) -> None:
    """Write the faiss index, atomically."""
    faiss = import_faiss()
    write_atomically(path, lambda file: faiss.write_index(search.index, faiss.PyCallbackIOWriter(file.write)))


def read_approximate(path: str | os.PathLike, record: dict) -> ApproximateSearch:
    """Read the faiss index of a record that `ApproximateSearch.as_record` gave.

    Raises:
        InvalidInput: faiss is missing, or the file is damaged or of another number of rows.
    """
    faiss = import_faiss()
    try:
        index = faiss.read_index(os.fspath(path))
    except RuntimeError as error:
        reason = str(error).splitlines()[0][:200]
        raise InvalidInput(f"{path} cannot be read ({reason}). Build the approximate index again.") from error
    if index.ntotal != record["rows"]:
        raise InvalidInput(f"{path} has {index.ntotal} rows, expected {record['rows']}. Build it again.")
    return ApproximateSearch(
        **{name: record[name] for name in ApproximateSearch._fields if name in record}, index=index
    )


def _filled(faiss: ModuleType, embeddings: np.ndarray, metric: str, kind: str, seed: int) -> Any:  # noqa: ANN401
    dim = embeddings.shape[1]
    measure = faiss.METRIC_L2 if metric == "euclidean" else faiss.METRIC_INNER_PRODUCT
    if kind == "hnsw":
        index = faiss.IndexHNSWFlat(dim, _LINKS, measure)
        index.hnsw.efConstruction = _CONSTRUCTION_EFFORT
    else:
        index = _trained_lists(faiss, embeddings, measure, seed)
    for start in range(0, len(embeddings), _ROWS_AT_ONCE):
        index.add(np.ascontiguousarray(embeddings[start : start + _ROWS_AT_ONCE], np.float32))
    return index


def _trained_lists(faiss: ModuleType, embeddings: np.ndarray, measure: int, seed: int) -> Any:  # noqa: ANN401
    """Train inverted lists, and product codes of one byte for four components.

    The number of lists is about the root of the number of rows.
    """
    rows, dim = embeddings.shape
    num_lists = int(2 ** np.clip(np.round(np.log2(np.sqrt(rows))), 2, 16))
    num_bytes = max(size for size in range(1, -(-dim // _DIMS_PER_BYTE) + 1) if dim % size == 0)
    index = faiss.index_factory(dim, f"IVF{num_lists},PQ{num_bytes}x8", measure)
    index.cp.seed = index.pq.cp.seed = seed + 1
    num_training = min(rows, max(_TRAINING_ROWS_PER_LIST * num_lists, 256 * _TRAINING_ROWS_PER_LIST))
    chosen = np.sort(np.random.default_rng(seed).permutation(rows)[:num_training])
    index.cp.min_points_per_centroid = index.pq.cp.min_points_per_centroid = 1  # avoids a warning on standard error
    index.train(np.ascontiguousarray(embeddings[chosen], np.float32))
    return index
