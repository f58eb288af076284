"""Recorded studies with test figures of one's choice, without training."""

import numpy as np

from experiments.rows.rows import Row
from experiments.rows.store import StudyRows

ENVIRONMENT = ("commit", "cpu", "tensorflow", "keras", "vector_instructions", "threads")
NUM_CLASSES, QUERIES = 40, 10


def configuration_of(name):
    """What tells the methods `LOSS[+ccp]+POOLING` apart."""
    *loss, pooling = name.split("+")
    return {
        "loss": "+".join(part for part in loss if part != "ccp"),
        "method": "ccp" if "ccp" in loss else "plain",
        "pooling": pooling,
        "zero_shot_weight": 0.1 if pooling == "gsp" else None,
    }


def record_ranked(
    folder,
    means,
    *,
    folds=4,
    repeats=1,
    noise=0.0,
    class_spread=5.0,
    dataset="glyphs",
    data="0123456789abcdef",
    backbone=None,
    trials=None,
):
    """A study whose method `LOSS[+ccp]+POOLING` has a mean test MAP@R of so many per cent, and a P@1 of that plus 20.

    Classes differ from it by up to `class_spread` points; runs by `noise` points, drawn. `trials` are those of each
    method, by name.
    """
    generator = np.random.default_rng(0)
    of_class = np.linspace(-class_spread, class_spread, NUM_CLASSES) / 100
    labels, counts = np.arange(NUM_CLASSES), np.full(NUM_CLASSES, QUERIES)
    rows = []
    for index, (name, mean) in enumerate(means.items()):
        configuration = {
            **{"dataset": dataset, "embedding_dim": 128, "weights": "none", "budget": "demo", "num_folds": folds},
            **configuration_of(name.partition(",")[0]),
            "backbone": backbone or "resnet10",
        }
        for fold, repeat in np.ndindex(folds, repeats):
            score = mean / 100 + noise / 100 * generator.normal()
            jitter = noise / 1000 * generator.normal(size=NUM_CLASSES)
            sums = {
                metric: (QUERIES * (score + more + of_class + jitter)).astype(np.float32)
                for metric, more in (("MAP@R", 0.0), ("P@1", 0.2))
            }
            test = {metric: float(of.sum(dtype=np.float64) / counts.sum()) for metric, of in sums.items()}
            row = {
                "kind": "training",
                "command": "python -m experiments.fair_eval",
                "protocol": "fair",
                "dataset": dataset,
                "label": name,
                "config_hash": f"{index:010x}",
                "configuration": configuration,
                "data": data,
                "fold": int(fold),
                "repeat": int(repeat),
                "environment": dict.fromkeys(ENVIRONMENT),
                "test": test,
                "extras": {"trials": trials[name]} if trials else {},
            }
            rows.append(Row(row, sums, labels, counts))
    study = StudyRows(folder)
    study.merge(rows)
    study.save()
    return StudyRows(folder)
