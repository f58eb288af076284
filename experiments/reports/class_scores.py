"""Scores summed over the queries of each test class, for means, intervals and comparisons."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from common.errors import InvalidInput


@dataclass(frozen=True, eq=False)
class ClassScores:
    """Sums of a score over the queries of each test class, per model.

    Classes, not queries, are what is drawn from a population: the mean over queries is the ratio
    `sums.sum() / counts.sum()`, and its error follows from how the classes differ.

    Args:
        sums: sum of the score over a class' queries `[models, classes]`, float64; fractions times queries.
        counts: queries of each class `[classes]`, at least one.
    """

    sums: np.ndarray
    counts: np.ndarray

    def __post_init__(self):
        sums, counts = np.asarray(self.sums, np.float64), np.asarray(self.counts)
        if sums.ndim != 2 or counts.shape != sums.shape[1:]:
            raise ValueError(
                f"Invalid class scores: received sums {sums.shape} and counts {counts.shape}, expected "
                "[models, classes] and [classes]."
            )
        if not np.isfinite(sums).all():
            raise InvalidInput(
                "Invalid scores: received NaN or infinity, expected finite numbers. Leave excluded queries out."
            )
        if len(counts) < 2:
            raise InvalidInput(
                f"Invalid labels: received {len(counts)} class, expected at least two: the interval comes from how "
                "classes differ."
            )
        if (counts < 1).any():
            raise InvalidInput("Invalid counts: received a class without queries. Leave such classes out.")
        object.__setattr__(self, "sums", sums)
        object.__setattr__(self, "counts", counts.astype(np.float64))

    @classmethod
    def stacked(cls, parts: Sequence[ClassScores]) -> ClassScores:
        """Stack the models of several scores of one test set."""
        for part in parts[1:]:
            part._check_test_set(parts[0])
        return cls(np.concatenate([part.sums for part in parts]), parts[0].counts)

    @property
    def means(self) -> np.ndarray:
        """The mean score over queries of each model `[models]`."""
        return self.sums.sum(axis=1) / self.counts.sum()

    @property
    def num_classes(self) -> int:
        """The number of test classes."""
        return len(self.counts)

    def rows(self, index) -> ClassScores:
        """Select models by a NumPy index that keeps rows as rows."""
        return ClassScores(self.sums[index], self.counts)

    def average(self, weights: np.ndarray | None = None) -> ClassScores:
        """Average the models, or sum them by weight `[models]`, into a single row."""
        row = self.sums.mean(axis=0) if weights is None else weights @ self.sums
        return ClassScores(row[None], self.counts)

    def minus(self, other: ClassScores) -> ClassScores:
        """Subtract another method's scores, by model and class.

        The other has as many models in the same order, or one, on the same test set.
        """
        self._check_test_set(other)
        if len(other.sums) not in (1, len(self.sums)):
            raise ValueError(
                f"Invalid scores: received {len(self.sums)} and {len(other.sums)} models, expected the same models and "
                "queries."
            )
        return ClassScores(self.sums - other.sums, self.counts)

    def _check_test_set(self, other: ClassScores) -> None:
        if not np.array_equal(self.counts, other.counts):
            ours, theirs = (f"{of.num_classes} classes, {of.counts.sum():.0f} queries" for of in (self, other))
            raise ValueError(
                f"Invalid scores: received test sets of {ours} and of {theirs}, expected the same models and queries."
            )
