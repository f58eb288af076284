"""Image search: neighbours of a photo, and near-duplicates.

Regenerates: no table; searches photos of your own.
Command: python -m photo_search.search index --index=photo_index --images=photos   (and --model, if you trained one)
    python -m photo_search.search sync --index=photo_index --images=photos   (after changes of photos)
    python -m photo_search.search neighbours --index=photo_index --images=new.jpg --html=found.html
    python -m photo_search.search shell --index=photo_index   (neighbours of each path that is typed or piped)
    python -m photo_search.search duplicates --index=photo_index --html=duplicates.html
    python -m photo_search.search map --index=photo_index --html=map.html   (all photos, similar ones together)
    python -m photo_search.search bundle --index=photo_index --output=phone --format=tflite_int8
    python -m photo_search.search embed --images=photos --output=photos.npz   (for `index --embeddings`, or elsewhere)
Expected: neighbours with similarities (cosine), as a table and as a page with pictures; see docs/search.md.
Cost: embedding is a forward pass per photo; a search seconds for a million photos on 2 CPU cores.

--images is a folder (labels are the names of the folders in it), a table (CSV, JSON lines or Parquet) with a column
path and possibly label, or one file. Rerun `index` to add photos; photos already indexed (matched by path) are skipped.
`sync` also finds changed, renamed and removed photos, and `remove` forgets some.
Without --model, a network with published weights embeds (--backbone, by default one in this package). An index keeps a
copy of its model.
"""

from __future__ import annotations

import sys

from absl import flags

from common.commands import command_line
from common.errors import InvalidInput, check_choice
from photo_search.index.approximate import KINDS, TARGET_RECALL
from photo_search.index.similarity import METRICS
from photo_search.photos import actions
from photo_search.photos.bundle import FORMATS
from photo_search.photos.duplicates import define_copy_flags
from photo_search.photos.models import MODEL_FLAGS, define_model_flags

_PUSH = "push is gone: `index --index=postgresql://USER@HOST/DATABASE` keeps an index that other machines search, too."


def main(*words: str) -> None:
    """Run one of the actions; without one, say what there is."""
    if not words:
        print((sys.modules["__main__"].__doc__ or "").strip(), "Flags: --help.", sep="\n")
        return
    if words == ("push",):
        raise InvalidInput(_PUSH)
    actions.run(check_choice("action", " ".join(words), actions.FLAGS), flags.FLAGS)


def define_flags() -> None:
    """Define the flags of all actions; the text of each begins with the actions that read it."""
    define_model_flags()
    flags.DEFINE_string("images", None, "Photos: a folder, a table (.csv, .parquet, ...), or one image file.")
    flags.DEFINE_string("embeddings", None, "Instead of --model and --images: a file that embed has written.")
    flags.DEFINE_string("output", None, "The .npz or .parquet file, or the folder, to write.")
    flags.DEFINE_enum("format", "tflite", FORMATS, "The network in float32, float16 or int8.")
    flags.DEFINE_string(
        "index", None, "Folder of the index, or postgresql://USER@HOST/DATABASE#NAME; it keeps its model, too."
    )
    flags.DEFINE_string("root", None, "Store paths relative to this folder, so that both can be moved.")
    flags.DEFINE_string("metadata", None, "A table with a column path and others, for --where.")
    flags.DEFINE_boolean("dry_run", False, "Only print what would change.")
    flags.DEFINE_multi_string("label", None, "Only photos with this label; may be repeated.")
    flags.DEFINE_multi_string("where", None, "Only photos with COLUMN=VALUE; may be repeated.")
    flags.DEFINE_enum("metric", "cosine", METRICS, "How embeddings are compared.")
    flags.DEFINE_enum("dtype", "float32", ("float32", "float16"), "How embeddings are stored.")
    flags.DEFINE_enum("approximate", None, KINDS, "Also build a graph for approximate search, in a database.")
    text = "Recall@10 at which the effort of --approximate is enough; in (0, 1]."
    flags.DEFINE_float("target_recall", TARGET_RECALL, text, 0.0, 1.0)
    flags.DEFINE_integer("k", 10, "How many for each photo.")
    text = "Compare with every photo, or ask a database's graph."
    flags.DEFINE_enum("search", "exact", ("exact", "approximate"), text)
    flags.DEFINE_integer("expand", 0, "Photos that each query takes in first (0: none).", lower_bound=0)
    text = "Candidates re-ranked by k-reciprocal neighbours (0: none)."
    flags.DEFINE_integer("rerank", 0, text, lower_bound=0)
    text = "Percent of the index's own photos that may count as unlike everything in it; calibrates the similarity"
    flags.DEFINE_float("reject", None, f"{text} below which a query does.", 0.0, 50.0)
    text = "Photos of one label (or all, without labels) are one query, which finds the k nearest classes."
    flags.DEFINE_boolean("together", False, text)
    define_copy_flags()
    flags.DEFINE_string("against", None, "Only groups that also have photos of this folder, table or index.")
    flags.DEFINE_string("pairs", None, "A table with first, second, same; chooses the threshold.")
    text = "Share of the same that --pairs is to reach; in (0, 1]."
    flags.DEFINE_float("precision", 0.95, text, 0.0, 1.0)
    flags.DEFINE_string("csv", None, "Also write the table to this file.")
    flags.DEFINE_string("html", None, "Also write a page with pictures to this file.")
    flags.DEFINE_integer("shown", 50, "Most queries or groups on the page.", lower_bound=1)
    for name in {each for names in actions.FLAGS.values() for each in names}.difference(MODEL_FLAGS):
        readers = ", ".join(action for action, names in actions.FLAGS.items() if name in names)
        flags.FLAGS[name].help = f"{readers}: {flags.FLAGS[name].help}"


if __name__ == "__main__":
    define_flags()
    embeds = {"remove", "map"}.isdisjoint(sys.argv[1:])
    kept = "What is embedded is kept; run the same command to resume." if embeds else ""
    gone = {"url": _PUSH, "collection": _PUSH}
    command_line.run_command(main, kept=kept, takes_words=True, remedy=lambda name: gone.get(name, ""))
