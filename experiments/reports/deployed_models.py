"""Table of a study's deployable models: one per fold, their concatenation, the final one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from experiments.reports.class_scores import ClassScores
from experiments.reports.intervals import Interval
from experiments.reports.plain_tables import PlainTable
from experiments.reports.statistics import class_clustered_interval, paired_difference

METRICS = ("P@1", "MAP@R")


def models_table(
    title: str,
    folds: Sequence[Mapping[str, ClassScores]],
    joined: Mapping[str, ClassScores],
    final: Mapping[str, ClassScores],
    *,
    steps: Sequence[int],
    final_steps: int,
    dim: int,
) -> PlainTable:
    """Build the table of docs/deploy.md.

    Args:
        folds: of each fold's model, its scores by metric, one row each.
        joined: the same of their concatenation.
        final: the same of the model on all training classes.
        steps: at which each fold's weights were taken.
        dim: size of a single embedding.
    """
    mean = {metric: ClassScores.stacked([of[metric] for of in folds]).average() for metric in METRICS}

    def minus(other: Mapping[str, ClassScores]) -> str:
        return _text(paired_difference(final["MAP@R"], other["MAP@R"]), True)

    rows = [
        [f"fold {fold}", f"{dim}", f"{step:,}", *_texts(scores), ""]
        for fold, (step, scores) in enumerate(zip(steps, folds, strict=True))
    ]
    rows += [
        [f"mean of the {len(folds)} folds", f"{dim}", "", *_texts(mean), minus(mean)],
        [f"concatenation of the {len(folds)}", f"{dim * len(folds)}", "", *_texts(joined), minus(joined)],
        ["final, all training classes", f"{dim}", f"{final_steps:,}", *_texts(final), ""],
    ]
    notes = [
        "95 % intervals for other test classes of the same kind, of these trained networks: how much another training "
        "would differ is not in them."
    ]
    header = ["model", "dim", "steps", *(f"{metric}, %" for metric in METRICS), "final minus it, MAP@R"]
    return PlainTable(title, header, rows, notes)


def _texts(scores: Mapping[str, ClassScores]) -> list[str]:
    return [_text(class_clustered_interval(scores[metric]), False) for metric in METRICS]


def _text(interval: Interval, is_difference: bool) -> str:
    low, high = (100 * end for end in interval.ends(of_difference=is_difference))
    sign = "+" if is_difference else ""
    return f"{100 * interval.estimate:{sign}.2f} [{low:.2f}, {high:.2f}]"
