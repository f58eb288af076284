"""Finished runs that tests write by hand."""

import numpy as np

from experiments.rows.rows import Row
from experiments.rows.run_folders import run_row


def drawn_row(path, repeat: int, seed, noise: float, configuration: dict | None = None) -> Row:
    """A finished run whose test embeddings are five well separated classes with noise."""
    labels = np.repeat(np.arange(5), 8)
    queries = np.eye(5)[labels] + noise * np.random.default_rng(seed).normal(size=(40, 5))
    path.mkdir(parents=True)
    np.savez(path / "test_embeddings.npz", queries=queries.astype(np.float32), query_labels=labels)
    result = {"test": {}, "untrained": {}, "validation": {"best": {}}, "steps": 1, "train_seconds": 1.0}
    return run_row(path, 0, repeat, configuration or {}, result)


def finished_result(test: dict, fold: int = 0, repeat: int = 0, config_hash: str = "0123456789") -> dict:
    """A result with these test metrics, which the untrained network has, too."""
    return {
        "status": "finished",
        "config_hash": config_hash,
        "fold": fold,
        "repeat": repeat,
        "test": test,
        "untrained": test,
        "steps": 30,
        "train_seconds": 2.0,
        "validation": {"best": {"MAP@R": 0.5, "step": 10}},
    }
