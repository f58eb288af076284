"""Retrieval evaluation against common tools and the bare matrix product.

Figures are time and memory.

Command: python -m benchmarks.retrieval [--cases=sop128,sop512,cub512,in_shop512] [--num_images=60502] [--repeats=3]

All compute P@1, R@2, R@4, R@8, P@R and MAP@R of the same embeddings (classes of 2-12 items around random centres on the
unit sphere). Ours and faiss are exact. The matrix product, float32 in tiles of 2,048, is the limit for any method that
compares every pair once. The calculator of pytorch-metric-learning (P@1, P@R, MAP@R) has one pass, because it is slow.
faiss and pytorch-metric-learning are optional: without them their columns are omitted. Ratios are ours over the peer,
medians over the rounds, of wall-clock and of processor time. Last line: one JSON object.
"""

from __future__ import annotations

import numpy as np
import tensorflow as tf
from absl import app, flags

from benchmarks import measure
from common.retrieval import evaluate_retrieval

try:
    import faiss
except ImportError:
    faiss = None

try:
    from pytorch_metric_learning.utils.accuracy_calculator import AccuracyCalculator
except ImportError:
    AccuracyCalculator = None

CASES = {  # dim, queries, gallery (0: self-retrieval), classes
    "sop128": (128, 60_502, 0, 11_316),
    "sop512": (512, 60_502, 0, 11_316),
    "cub512": (512, 5_924, 0, 100),
    "in_shop512": (512, 14_218, 12_612, 3_985),
}
RECALL_AT = (1, 2, 4, 8)
_FLAGS = flags.FLAGS


def clustered_embeddings(num_images: int, num_classes: int, dim: int, seed: int):
    """Draw unit vectors `[num_images, dim]` around class centres, and labels.

    The noise grows with `dim` so that items of a class are about as similar as the best of 60,000 others: MAP@R lies
    between 0 and 1.
    """
    rng = np.random.default_rng(seed)
    centers = rng.standard_normal((num_classes, dim), np.float32)
    labels = np.sort(np.r_[np.arange(num_classes).repeat(2), rng.integers(0, num_classes, num_images)])[:num_images]
    labels = np.random.default_rng(seed + 1).permutation(labels)
    scale = np.float32(np.sqrt(max(0.3, np.sqrt(dim) / 4.6 - 1)))
    noise = scale * np.random.default_rng(seed + 2).standard_normal((num_images, dim), np.float32)
    noise += centers[labels]
    noise /= np.linalg.norm(noise, axis=1, keepdims=True)
    return noise, labels


def full_product(queries: np.ndarray, gallery: np.ndarray, tile: int = 2_048) -> None:
    """Compute the bare float32 product of all pairs, tile by tile."""
    with tf.device("/CPU:0"):
        rows, columns = ([tf.constant(x[i : i + tile]) for i in range(0, len(x), tile)] for x in (queries, gallery))
        for row in rows:
            for column in columns:
                tf.matmul(row, column, transpose_b=True)


def evaluate_with_faiss(queries, query_labels, gallery=None, gallery_labels=None) -> dict[str, float]:
    """Evaluate by `faiss.knn` as its users write it.

    k = largest class, the query removed by index, metrics in NumPy.
    """
    without_self = gallery is None
    if without_self:
        gallery, gallery_labels = queries, query_labels
    num_relevant = np.bincount(gallery_labels, minlength=query_labels.max() + 1)[query_labels] - without_self
    depth = max(num_relevant.max(), max(RECALL_AT))
    neighbors = faiss.knn(queries, gallery, int(depth + without_self), metric=faiss.METRIC_L2)[1]
    if without_self:
        is_self = neighbors == np.arange(len(queries))[:, np.newaxis]
        is_self[~is_self.any(axis=1), -1] = True
        neighbors = neighbors[~is_self].reshape(len(queries), depth)
    kept = num_relevant > 0
    return _metrics((gallery_labels[neighbors] == query_labels[:, np.newaxis])[kept], num_relevant[kept])


def evaluate_with_calculator(queries, query_labels, gallery=None, gallery_labels=None) -> dict[str, float]:
    """Evaluate by pytorch-metric-learning's `AccuracyCalculator` with its own nearest neighbours."""
    names = {"P@1": "precision_at_1", "P@R": "r_precision", "MAP@R": "mean_average_precision_at_r"}
    calculator = AccuracyCalculator(include=tuple(names.values()), k="max_bin_count")
    found = calculator.get_accuracy(queries, query_labels, gallery, gallery_labels)
    return {ours: float(found[theirs]) for ours, theirs in names.items()}


def _metrics(hits: np.ndarray, num_relevant: np.ndarray) -> dict[str, float]:
    ranks = np.arange(1, hits.shape[1] + 1)
    counted = hits & (ranks <= num_relevant[:, np.newaxis])
    average = (counted * np.cumsum(counted, axis=1) / ranks).sum(axis=1) / num_relevant
    recall = {f"R@{k}": float(hits[:, :k].any(axis=1).mean()) for k in RECALL_AT}
    r_precision = (counted.sum(axis=1) / num_relevant).mean()
    return {"P@1": recall["R@1"], **recall, "P@R": float(r_precision), "MAP@R": float(average.mean())}


def run_case(name: str) -> tuple[dict, dict]:
    """Return one row of the table and the case's figures."""
    dim, num_queries, num_gallery, num_classes = CASES[name]
    if _FLAGS.num_images is not None:
        scale = min(1.0, _FLAGS.num_images / num_queries)
        num_queries, num_gallery, num_classes = (int(x * scale) for x in (num_queries, num_gallery, num_classes))
    num_classes = max(2, num_classes)
    embeddings, labels = clustered_embeddings(num_queries + num_gallery, num_classes, dim, seed=0)
    data = [embeddings, labels]
    if num_gallery:
        data = [embeddings[:num_queries], labels[:num_queries], embeddings[num_queries:], labels[num_queries:]]
    ours, extra_gb = measure.peak_growth_gb(lambda: evaluate_retrieval(*data, recall_at=RECALL_AT))
    functions = {"ours": lambda: evaluate_retrieval(*data, recall_at=RECALL_AT)}
    if faiss:
        functions["faiss"] = lambda: evaluate_with_faiss(*data)
        _check_agreement(ours.as_dict(), functions["faiss"]())
    functions["matmul"] = lambda: full_product(embeddings[:num_queries], data[-2])
    wall, processor = measure.paired_clocks(functions, _FLAGS.repeats)
    if AccuracyCalculator:
        results: list = []
        once = measure.paired_clocks({"calculator": lambda: results.append(evaluate_with_calculator(*data))}, 1)
        _check_agreement(ours.as_dict(), results[0])
        for clock, seconds in zip((wall, processor), once):
            clock["calculator"] = seconds["calculator"] * _FLAGS.repeats
    figures = {f"{name}_extra_gb": extra_gb, f"{name}_map_at_r": ours.map_at_r}
    row = {"case": name, "queries x gallery x dim": f"{num_queries} x {num_gallery or num_queries} x {dim}"}
    row |= {f"{side} s": measure.spread(seconds) for side, seconds in wall.items()}
    for peer in [peer for peer in wall if peer != "ours"]:
        for over, clock in (("over", wall), ("cpu_over", processor)):
            figures[f"{name}_{over}_{peer}"] = measure.paired_ratio(clock["ours"], clock[peer])
            row[f"{over} {peer}"] = f"{figures[f'{name}_{over}_{peer}']:.2f}"
    return {**row, "extra GB": f"{extra_gb:.3f}"}, figures


def _check_agreement(ours: dict[str, float], theirs: dict[str, float]) -> None:
    """Check that results differ only by near ties, which the peers decide in float32."""
    difference = max(abs(ours[key] - theirs[key]) for key in theirs)
    if difference > 1e-4:
        raise RuntimeError(f"ours and a peer differ by {difference}: {ours}, {theirs}")


def main(_) -> None:
    """Run the cases, print the table and the figures."""
    small, small_labels = clustered_embeddings(4_096, 800, 64, seed=9)
    evaluate_retrieval(small, small_labels)  # TensorFlow starts its threads
    rows, figures = [], {}
    for name in _FLAGS.cases:
        row, case_figures = run_case(name)
        rows.append(row)
        figures.update(case_figures)
    measure.print_table(list(rows[0]), [list(row.values()) for row in rows])
    figures["extra_gb"] = max(value for key, value in figures.items() if key.endswith("_extra_gb"))
    measure.print_figures(figures)


if __name__ == "__main__":
    flags.DEFINE_list("cases", list(CASES), f"Which of {', '.join(CASES)}.")
    flags.DEFINE_integer("num_images", None, "Scales every case down to at most this many queries.", lower_bound=100)
    flags.DEFINE_integer("repeats", 3, "Rounds of the paired timing.", lower_bound=1)
    app.run(main)
