"""Commands and flags that are gone, for one release: what to use instead."""

from __future__ import annotations

_ONE_PROCESS = "`evaluate` without it scores all queries in one process, and --sample_queries a random sample of them"
_INSTEAD = {
    "attention_figures": "`figure --id=attention --trained_run=FOLDER` draws the same",
    "cache_gb": "`dml clean --cache --keep_gb=50` removes the caches unused for longest",
    "collage_study": "`figure --id=5.5 --run` trains and compares the same, with --starts and --loss",
    "diagnostics_study": "`figure --id=milbich_2.4` correlates the same, with --training and --clustering",
    "mnist_study": "`figure --id=3.2 --run` trains and draws the same, with --anchors",
    "pooling_comparison": "`figure --id=5.12 --run` trains and compares the poolings",
    "rehearse": "`fair_eval --budget=smoke` on your own data goes through the same stages",
    "zoo": "`train_final` and `export` make a model.keras, which `search` and `serve` take as --model",
    **dict.fromkeys(("shards", "shards_dir", "shard", "shard_file", "merge"), _ONE_PROCESS),
}


def removal_of(name: str) -> str:
    """Return a sentence on a removed command or flag, or an empty text."""
    instead = _INSTEAD.get(name.lstrip("-"))
    return f"{name} is gone: {instead}." if instead else ""
