"""Time and memory of a million-embedding index, beside faiss.

Command: python -m benchmarks.index [--num_embeddings=1000000] [--dim=128] [--num_queries=1000]
    [--repeats=3] [--folder=/tmp] [--database=postgresql://USER@HOST/DATABASE]

The embeddings are clustered as trained ones are: groups of classes of 20 items, each level with Gaussian offsets of
its own whose variance falls with the coordinate's number as 1/j (so that few directions hold most of it), turned by a
random rotation, unit norm. Queries are further items of the same classes, which the index does not have.

Steps: built (a copy with unit norm, checked), saved, opened again (memory-mapped), searched. "Ours" is
`EmbeddingIndex`; "faiss" is `IndexFlatIP`, called directly. Sides are timed in turn. Memory is a
step's anonymous memory above that at its start; it excludes pages of the memory-mapped file, which the system can
reclaim.
A second table compares what an index does in a day: build and save, one query, all queries, one query among the rows of
a label, 100 rows replaced, 100 removed. The peer is `IndexFlatIP` of faiss, in memory. Each step runs once.
With --database, the same steps follow with an index there, which is removed at the end. Memory is that of this process;
the server has its own.

Last line: one JSON object; `STEP_over_faiss` are ratios of times.
"""

from __future__ import annotations

import contextlib
import functools
import secrets
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import faiss
import numpy as np
from absl import app, flags

from benchmarks import measure
from photo_search.index import EmbeddingIndex
from photo_search.index.approximate import recall_of
from photo_search.index.database_server import Server

ITEMS_PER_CLASS = 20
CLASSES_PER_GROUP = 50
SPREAD = (1.0, 0.7, 0.5)  # of groups, of classes in a group, of items in a class
K = 10
_ROWS_AT_ONCE = 65_536
_NUM_CHANGED = 100  # rows that are replaced or removed
_FLAGS = flags.FLAGS


def clustered(count: int, num_queries: int, dim: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Draw embeddings `[count, dim]` and queries `[num_queries, dim]`.

    Float32 of unit norm; see the module.
    """
    rng = np.random.default_rng(seed)
    scale = (np.arange(1, dim + 1) ** -0.5).astype(np.float32)
    rotation = np.linalg.qr(rng.normal(size=(dim, dim)))[0].astype(np.float32) * scale[:, np.newaxis]
    num_classes = max(2, count // ITEMS_PER_CLASS)
    groups = SPREAD[0] * rng.standard_normal((max(1, num_classes // CLASSES_PER_GROUP), dim), np.float32)
    classes = SPREAD[1] * rng.standard_normal((num_classes, dim), np.float32)
    classes += groups[rng.integers(0, len(groups), num_classes)]

    def items(number: int) -> np.ndarray:
        rows = classes[rng.integers(0, num_classes, number)]
        rows += SPREAD[2] * rng.standard_normal(rows.shape, np.float32)
        rows = rows @ rotation
        return rows / np.linalg.norm(rows, axis=1, keepdims=True)

    embeddings = np.empty((count, dim), np.float32)
    for start in range(0, count, _ROWS_AT_ONCE):
        embeddings[start : start + _ROWS_AT_ONCE] = items(min(_ROWS_AT_ONCE, count - start))
    return embeddings, items(num_queries)


def step(function: Callable[[], Any]) -> tuple[Any, float, float]:
    """Return a function's result, seconds and peak of extra anonymous memory.

    The memory is in GB (10^9 bytes).
    """
    anonymous_bytes = functools.partial(measure.status_bytes, "RssAnon")
    peak, done = [anonymous_bytes()], threading.Event()

    def watch() -> None:
        while not done.wait(0.02):
            peak.append(anonymous_bytes())

    before, watcher = peak[0], threading.Thread(target=watch)
    watcher.start()
    start = time.perf_counter()
    try:
        result = function()
    finally:
        seconds = time.perf_counter() - start
        done.set()
        watcher.join()
    return result, seconds, max(0, *peak, anonymous_bytes()) / 1e9 - before / 1e9


def exact_figures(index: EmbeddingIndex, queries: np.ndarray, repeats: int) -> tuple[list, dict]:
    """Return a row and figures of exact search."""
    flat = faiss.IndexFlatIP(index.dim)
    found, _, extra = step(lambda: index.search(queries, K))
    _, one, _ = step(lambda: index.search(queries[:1], K))
    flat.add(np.asarray(index.embeddings, np.float32))
    times = measure.paired_seconds(
        {"ours": lambda: index.search(queries, K), "faiss": lambda: flat.search(queries, K)}, repeats
    )
    ratio = measure.paired_ratio(times["ours"], times["faiss"])
    agreement = recall_of(flat.search(queries, K)[1], found.rows)
    row = [measure.spread(times["ours"]), measure.spread(times["faiss"]), f"{ratio:.2f}"]
    figures = {
        "exact_over_faiss": ratio,
        "exact_extra_gb": extra,
        "exact_one_query_s": one,
        "faiss_agreement": agreement,
    }
    return [*row, f"{one * 1e3:.0f}", f"{extra:.3f}"], figures


def steps_of_ours(folder: str, embeddings: np.ndarray, queries: np.ndarray) -> dict[str, Callable[[], Any]]:
    """Return what an index does in a day, by name."""
    ids, labels = _ids_and_labels(len(embeddings))
    opened = functools.cache(lambda: EmbeddingIndex.load(folder))
    some = slice(_NUM_CHANGED)
    return {
        "build": lambda: EmbeddingIndex.build(embeddings, ids, labels).save(folder, replace=True),
        "first_query": lambda: opened().search(queries[:1], K).ids,
        "one_query": lambda: opened().search(queries[:1], K).ids,
        "queries": lambda: opened().search(queries, K).ids,
        "label_query": lambda: opened().search(queries[:1], K, among=opened().rows_labelled(labels[:1])).ids,
        "replace": lambda: opened().upsert(embeddings[some], ids[some], labels[some]),
        "remove": lambda: opened().remove(ids[some]),
    }


def steps_of_faiss(embeddings: np.ndarray, queries: np.ndarray) -> dict[str, Callable[[], Any]]:
    """Return the steps of `steps_of_ours` that faiss alone has, in memory."""
    flat = faiss.IndexFlatIP(embeddings.shape[1])
    search = {"one_query": lambda: flat.search(queries[:1], K), "queries": lambda: flat.search(queries, K)}
    return {"build": lambda: flat.add(embeddings), **search}


@contextlib.contextmanager
def own_index(database: str | None) -> Iterator[str | None]:
    """Yield a free place in a database, if any; empty it afterwards."""
    if database is None:
        yield None
        return
    server = Server(f"{database}#benchmark_{secrets.token_hex(4)}")
    try:
        yield f"{database}#{server.name}"
    finally:
        with server.transaction() as cursor:
            cursor.execute(server.sql("DROP SCHEMA IF EXISTS {schema} CASCADE"))


def _ids_and_labels(count: int) -> tuple[list[str], list[str]]:
    num_classes = min(1000, count // K)
    return [f"photos/{row:07}.jpg" for row in range(count)], [f"class {row % num_classes}" for row in range(count)]


def peer_figures(
    folder: str, embeddings: np.ndarray, queries: np.ndarray, database: str | None = None
) -> tuple[list[list], dict]:
    """Return the rows of the second table, and ratios to faiss."""
    sides = {"ours": steps_of_ours(f"{folder}/ours", embeddings, queries), "faiss": steps_of_faiss(embeddings, queries)}
    if database:
        sides["database"] = steps_of_ours(database, embeddings, queries)
    measured = {side: {name: step(function)[1:] for name, function in steps.items()} for side, steps in sides.items()}
    figures = {f"{side}_extra_gb": sum(extra for _, extra in steps.values()) for side, steps in measured.items()}
    ratios = {name: measured["ours"][name][0] / seconds for name, (seconds, _) in measured["faiss"].items()}
    there = measured.get("database", {})
    rows = [
        [
            name.replace("_", " "),
            *(f"{seconds:.4f}", f"{extra:.3f}", f"{ratios[name]:.3g}" if name in ratios else "-"),
            *(f"{each:.{digits}f}" for each, digits in zip(there.get(name, ()), (4, 3))),
        ]
        for name, (seconds, extra) in measured["ours"].items()
    ]
    figures |= {f"database_{name}_s": seconds for name, (seconds, _) in there.items()}
    return rows, figures | {f"{name}_over_faiss": ratio for name, ratio in ratios.items()}


def run(folder: str, embeddings: np.ndarray, queries: np.ndarray, repeats: int) -> tuple[list[list], list, dict]:
    """Return the rows of steps, that of the search, and all figures.

    The index is written to `folder`.
    """
    index, build_seconds, build_extra = step(lambda: EmbeddingIndex.build(embeddings, range(len(embeddings))))
    _, save_seconds, save_extra = step(lambda: index.save(folder))
    del index
    index, load_seconds, load_extra = step(lambda: EmbeddingIndex.load(folder))
    steps = [
        ["built in memory", f"{build_seconds:.2f}", f"{build_extra:.3f}"],
        ["saved", f"{save_seconds:.2f}", f"{save_extra:.3f}"],
        ["opened", f"{load_seconds:.4f}", f"{load_extra:.3f}"],
    ]
    figures = {"build_s": build_seconds, "save_s": save_seconds, "load_s": load_seconds, "load_extra_gb": load_extra}
    row, more = exact_figures(index, queries, repeats)
    return steps, row, figures | more


def main(_) -> None:
    """Measure, print both tables and the figures."""
    EmbeddingIndex.build(clustered(2_000, 1, 16)[0], range(2_000)).neighbors_of(range(500), 5)  # warm up
    data = clustered(_FLAGS.num_embeddings, _FLAGS.num_queries, _FLAGS.dim)
    with tempfile.TemporaryDirectory(dir=_FLAGS.folder) as folder, own_index(_FLAGS.database) as place:
        steps, row, figures = run(f"{folder}/index", *data, _FLAGS.repeats)
        daily, ratios = peer_figures(folder, *data, place)
    size = f"{_FLAGS.num_embeddings:,} x {_FLAGS.dim}"
    measure.print_table([size, "seconds", "extra GB"], steps)
    print()
    header = [f"ours, s ({_FLAGS.num_queries} queries)", "faiss, s", "ours / faiss", "one query, ms", "extra GB"]
    measure.print_table(header, [row])
    print()
    there = ["database, s", "extra GB"] if _FLAGS.database else []
    measure.print_table([size, "ours, s", "extra GB", "ours / faiss", *there], daily)
    measure.print_figures(figures | ratios)


if __name__ == "__main__":
    flags.DEFINE_integer("num_embeddings", 1_000_000, "Rows of the index.", lower_bound=1_000)
    flags.DEFINE_integer("dim", 128, "Components of an embedding.", lower_bound=2)
    flags.DEFINE_integer("num_queries", 1_000, "Queries that are searched together.", lower_bound=1)
    flags.DEFINE_integer("repeats", 3, "Rounds of the paired timing.", lower_bound=1)
    flags.DEFINE_string("folder", None, "Where the index is written (default: the system's temporary folder).")
    flags.DEFINE_string("database", None, "Address of a PostgreSQL server with pgvector, which is compared, too.")
    app.run(main)
