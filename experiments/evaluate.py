"""Exact retrieval metrics for embeddings of any model and framework.

Regenerates: nothing; scores a file of yours.
Command: python -m experiments.evaluate --embeddings=test.npz [--gallery=gallery.npz] [--json=scores.json]
Expected: the same figures as a run of `experiments.fair_eval` on the same embeddings.
Cost: seconds for 60,000 embeddings on 2 CPU cores; --map and --clustering take minutes there, --diagnostics one.

The files are NumPy archives, `np.savez("test.npz", embeddings=..., labels=...)`, with `embeddings` [items, dim]
(float16, float32 or float64) and `labels` [items] (integers of any size). Without a gallery, each embedding
searches all others; with one, each searches the gallery. Pickled content is rejected. If both files have `paths`, no
path may be in both. With `class_names`, labels number these names, and items of the class "" are left out.

The figures are percentages; "lowest" and "highest" bound them over all orders of equally similar items. A wide gap
means that embeddings coincide. The JSON file holds fractions.

Bool `labels` [items, classes] are several labels for each item; items that share one are relevant. Integer `labels`
[items, levels] are a hierarchy, the finest classes first. The figures of level 2 are then "L2 P@1", ...; nDCG and
hierarchical average precision (H-AP) grade items by the number of levels that they share.

`--embeddings` may also name the folder of a finished run, or the `test_embeddings.npz` in it, which has its gallery.
The k of R@k are then those of the data set's tables.

`--sample_queries=10000` evaluates that many random queries against the whole gallery. It adds "95 % of all", a
confidence interval for the figure of all queries. The time is proportional to the number of queries.

`--metrics=verification` adds the error rates of a threshold on the cosine, `opis` how differently it treats classes,
`centroid` the accuracy of the nearest class mean, `open_set` the rejection of classes that the gallery lacks,
`classes` the figures of each class. Several are separated by commas. `--left_out_classes=20` makes 20 random classes
unknown to `open_set`.

`--encounters=photos.csv`, a table with `path` and `encounter` (or `time`: photos of one folder and minute are one
encounter), keeps photos of one encounter from finding each other.

`--diagnostics` describes the embeddings of the queries: spectral decay, distances within and between classes in two
conventions, covering radius, alignment, uniformity, and a warning if they have collapsed.
`--training=train.npz`, embeddings of the training classes by the same model, adds the generalisation gap.
"""

from __future__ import annotations

from absl import flags

from common.diagnostics.clustering import LARGEST_SEED
from common.errors import InvalidInput, check_choice
from common.files import check_output_file, write_json
from common.retrieval.query_sample import FEWEST
from common.retrieval.search.similarity_bounds import SIMILARITIES
from experiments.protocols.embedding_files import HOW_TO_WRITE, OTHER_METRICS, scores, table
from experiments.settings.flags import refuse_flags, run_command


def main() -> None:
    """Score the files, write JSON, print the table."""
    values = flags.FLAGS
    for name in values.metrics:
        check_choice("--metrics", name, OTHER_METRICS)
    if not values.embeddings:
        raise InvalidInput("Missing --embeddings: expected the path of an .npz file. " + HOW_TO_WRITE)
    if "open_set" not in values.metrics:
        refuse_flags(values, "left_out_classes", because="only --metrics=open_set reads it")
    if not (values.clustering or values.diagnostics or values.sample_queries or values.left_out_classes):
        drawing = "--clustering, --diagnostics, --left_out_classes and --sample_queries"
        refuse_flags(values, "seed", because=f"only {drawing} draw anything")
    if values.json:
        check_output_file("--json", values.json)
    found = scores(values)
    if values.json:
        write_json(values.json, found)
    print(table(found))


if __name__ == "__main__":
    flags.DEFINE_string("embeddings", None, "File of the embeddings to score: the queries; or a finished run's folder.")
    flags.DEFINE_string("gallery", None, "File of the gallery (default: the queries search one another).")
    flags.DEFINE_list("recall_at", None, "The k of R@k (default: those of a run's data set; 1,2,4,8 for other files).")
    flags.DEFINE_enum("similarity", "euclidean", SIMILARITIES, "What is near.")
    help_text = "Score only so many random queries, each against all, with 95 % intervals for all queries."
    flags.DEFINE_integer("sample_queries", None, help_text, lower_bound=FEWEST)
    flags.DEFINE_boolean("map", False, "Also mAP, over the whole ranking.")
    help_text = f"Also any of {', '.join(OTHER_METRICS)} (docs/command_line.md)."
    flags.DEFINE_list("metrics", [], help_text)
    text = "Random classes that --metrics=open_set takes out of the gallery, as unknown ones."
    flags.DEFINE_integer("left_out_classes", 0, text, lower_bound=0)
    flags.DEFINE_string("encounters", None, "A table with path and encounter or time: keeps these apart.")
    flags.DEFINE_boolean("clustering", False, "Also AMI and NMI of k-means, of the gallery if there is one.")
    flags.DEFINE_boolean("diagnostics", False, "Also spectral decay, distances of classes, covering radius, and more.")
    flags.DEFINE_string("training", None, "File of training embeddings of the same model: also the generalisation gap.")
    help_text = "Seed of k-means, of what uniformity looks at, of --left_out_classes and --sample_queries."
    flags.DEFINE_integer("seed", 0, help_text, lower_bound=0, upper_bound=LARGEST_SEED)
    flags.DEFINE_string("json", None, "File to write the figures to.")
    run_command(main)
