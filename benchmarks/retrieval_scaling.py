"""Time and memory of exact retrieval evaluation by number of embeddings.

Command: python -m benchmarks.retrieval_scaling [--sizes=10000,30000,60000,120000] [--dim=128] [--repeats=3]
    [--noproduct] [--sample_queries=10000] [--shards=2] [--figure=docs/figures/retrieval_scaling.png]

Self-retrieval of the embeddings of `benchmarks.retrieval` (small classes, as in Stanford Online Products): P@1, R@k,
P@R and MAP@R. Memory is that of a first evaluation above the embeddings and labels; with `--repeats=1` it is the timed
one. The bare float32 product of all pairs alternates with ours (`--noproduct`: not). The exponent is the slope of the
time in log-log over the last doubling. With `--sample_queries` also a random sample of the queries, each against all:
its time, its 95 % interval for MAP@R of all queries, and that MAP@R. With `--shards` also the total time of that many
shards of the queries, one after the other. Last line: one JSON object.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable

from absl import app, flags

from benchmarks import measure
from benchmarks.retrieval_data import clustered_embeddings, full_product
from common.errors import check_given
from common.retrieval import evaluate_retrieval, score_queries
from experiments.protocols.query_shards import Shard

_ITEMS_PER_CLASS = 5.346  # Stanford Online Products' test half: 60,502 images of 11,316 classes
_BUDGET_GB = 1.0  # the aim for the largest size
_FLAGS = flags.FLAGS


def measure_size(
    num_images: int,
    dim: int,
    repeats: int,
    sample_queries: int | None = None,
    product: bool = True,
    shards: int | None = None,
) -> dict:
    """Measure one size: `seconds` (a list), `extra_gb`, `embeddings_gb`, `map_at_r`.

    With the product also `product_seconds` (a list), with a sample `sampled_seconds` (a list) and `interval` of MAP@R,
    with shards `sharded_seconds` (a list), of all of them together.
    """
    embeddings, labels = clustered_embeddings(num_images, max(2, round(num_images / _ITEMS_PER_CLASS)), dim, seed=0)
    started = time.perf_counter()
    result, extra_gb = measure.peak_growth_gb(lambda: evaluate_retrieval(embeddings, labels))
    first = time.perf_counter() - started
    intervals = []

    def sample() -> None:
        drawn = evaluate_retrieval(embeddings, labels, sample_queries=sample_queries)
        intervals.append(check_given("intervals", drawn.intervals)["MAP@R"])

    def score_shards(total: int) -> None:
        for number in range(1, total + 1):
            score_queries(embeddings, labels, query_rows=Shard(number, total).rows(num_images))

    functions: dict[str, Callable[[], object]] = {}
    if repeats > 1:
        functions["ours"] = lambda: evaluate_retrieval(embeddings, labels)
    if product:
        functions["product"] = lambda: full_product(embeddings, embeddings)
    if sample_queries is not None:
        functions["sampled"] = sample
    if shards is not None:
        functions["sharded"] = lambda: score_shards(shards)
    seconds = {"ours": [first]} | (measure.paired_seconds(functions, repeats) if functions else {})
    return {
        **({"product_seconds": seconds["product"]} if product else {}),
        **({"sampled_seconds": seconds["sampled"], "interval": intervals[-1]} if intervals else {}),
        **({"sharded_seconds": seconds["sharded"]} if shards is not None else {}),
        "seconds": seconds["ours"],
        "extra_gb": extra_gb,
        "embeddings_gb": embeddings.nbytes / 1e9,
        "map_at_r": result.map_at_r,
    }


def exponent(smaller: tuple[int, float], larger: tuple[int, float]) -> float:
    """Return b of time = a · n^b through two points (n, seconds)."""
    return math.log(larger[1] / smaller[1]) / math.log(larger[0] / smaller[0])


def table(found: dict[int, dict]) -> list[list]:
    """Return the measured figures, a row a size."""
    rows = [
        [
            f"{size:,}",
            measure.spread(figures["seconds"]),
            *_beside_product(figures),
            f"{figures['extra_gb']:.3f}",
            f"{figures['embeddings_gb']:.3f}",
        ]
        for size, figures in found.items()
    ]
    for row, figures in zip(rows, found.values()):
        if "interval" in figures:
            low, high = figures["interval"]
            sampled = measure.spread(figures["sampled_seconds"])
            row += [sampled, f"[{100 * low:.2f}, {100 * high:.2f}]", f"{100 * figures['map_at_r']:.2f}"]
        if "sharded_seconds" in figures:
            ratio = measure.paired_ratio(figures["sharded_seconds"], figures["seconds"])
            row += [measure.spread(figures["sharded_seconds"]), f"{ratio:.2f}"]
    return rows


def _beside_product(figures: dict) -> tuple[str, str]:
    """Return the product's seconds and ours over it.

    Dashes if it was not timed.
    """
    if "product_seconds" not in figures:
        return "-", "-"
    ratio = measure.paired_ratio(figures["seconds"], figures["product_seconds"])
    return measure.spread(figures["product_seconds"]), f"{ratio:.2f}"


def summary(found: dict[int, dict]) -> dict:
    """Return figures by size, and the last two sizes' time exponent."""
    medians = {size: statistics.median(figures["seconds"]) for size, figures in found.items()}
    figures = {}
    for size, values in found.items():
        figures |= {f"seconds_{size}": medians[size], f"extra_gb_{size}": values["extra_gb"]}
        if "product_seconds" in values:
            figures[f"over_product_{size}"] = measure.paired_ratio(values["seconds"], values["product_seconds"])
        if "sharded_seconds" in values:
            figures[f"sharded_over_one_{size}"] = measure.paired_ratio(values["sharded_seconds"], values["seconds"])
        if "interval" in values:
            figures[f"sampled_over_exact_{size}"] = measure.paired_ratio(values["sampled_seconds"], values["seconds"])
            low, high = values["interval"]
            figures |= {
                f"sampled_low_{size}": low,
                f"sampled_high_{size}": high,
                f"map_at_r_{size}": values["map_at_r"],
            }
    if len(medians) > 1:
        figures["exponent"] = exponent(*sorted(medians.items())[-2:])
    return figures


def draw(path: str, found: dict[int, dict]) -> None:
    """Draw seconds in log-log, and GB, over the number of embeddings."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    sizes = list(found)
    figure, (time_axes, memory_axes) = plt.subplots(1, 2, figsize=(9, 3.6), constrained_layout=True)
    for key, label, style in (("seconds", "evaluation", "o-"), ("product_seconds", "bare product of all pairs", "s--")):
        if all(key in figures for figures in found.values()):
            medians = [statistics.median(found[size][key]) for size in sizes]
            time_axes.loglog(sizes, medians, style, label=label)
    time_axes.set(xlabel="embeddings", ylabel="seconds", title="time")
    memory_axes.plot(sizes, [found[size]["extra_gb"] for size in sizes], "o-", label="evaluation")
    memory_axes.plot(sizes, [found[size]["embeddings_gb"] for size in sizes], "s--", label="the embeddings themselves")
    memory_axes.axhline(_BUDGET_GB, color="grey", linestyle=":", label="aim for the largest")
    memory_axes.set(xlabel="embeddings", ylabel="GB", title="memory above the embeddings", ylim=(0, 1.1 * _BUDGET_GB))
    for axes in (time_axes, memory_axes):
        axes.set_xticks(sizes, [f"{size / 1000:g}k" for size in sizes])
        axes.minorticks_off()
        axes.legend(frameon=False)
        axes.grid(alpha=0.3)
    figure.savefig(path, dpi=120)
    plt.close(figure)


def main(argv) -> None:
    """Measure all sizes, print the table and the figures, draw."""
    del argv
    sizes = [int(size) for size in _FLAGS.sizes]
    if _FLAGS.sample_queries is not None and _FLAGS.sample_queries > min(sizes) // 2:
        raise app.UsageError(
            f"--sample_queries: received {_FLAGS.sample_queries}, expected at most half of the smallest of --sizes."
        )
    small, small_labels = clustered_embeddings(4_096, 800, 64, seed=9)
    evaluate_retrieval(small, small_labels)  # TensorFlow starts its threads
    options = _FLAGS.dim, _FLAGS.repeats, _FLAGS.sample_queries, _FLAGS.product, _FLAGS.shards
    found = {size: measure_size(size, *options) for size in sizes}
    header = ["embeddings", "ours, s", "product, s", "ours / product", "extra GB", "embeddings, GB"]
    if _FLAGS.sample_queries is not None:
        header += ["sampled, s", "95 % of MAP@R", "MAP@R"]
    if _FLAGS.shards is not None:
        header += ["shards, s", "shards / ours"]
    measure.print_table(header, table(found))
    if _FLAGS.figure:
        draw(_FLAGS.figure, found)
    measure.print_figures(summary(found))


if __name__ == "__main__":
    flags.DEFINE_list("sizes", ["10000", "30000", "60000", "120000"], "Numbers of embeddings.")
    flags.DEFINE_integer("dim", 128, "Components of an embedding.", lower_bound=1)
    flags.DEFINE_integer("repeats", 3, "Rounds of the paired timing.", lower_bound=1)
    flags.DEFINE_bool("product", True, "Also time the bare product of all pairs.")
    help_text = "Also evaluate so many random queries; at most half of the smallest size. By default none."
    flags.DEFINE_integer("sample_queries", None, help_text, lower_bound=100)
    flags.DEFINE_integer(
        "shards", None, "Also score so many shards, one after the other; by default none.", lower_bound=1
    )
    flags.DEFINE_string("figure", None, "PNG file to draw; by default none.")
    app.run(main)
