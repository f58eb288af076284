"""Scores of single queries, and their means."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from common.retrieval import metrics


@dataclass(frozen=True)
class RetrievalResult:
    """Metrics over all queries with something to find, and of each query.

    Fractions in [0, 1]. The arrays follow `query_rows` `[evaluated queries]`, increasing.
    """

    precision_at_1: float
    recall_at: dict[int, float]
    r_precision: float
    map_at_r: float
    num_queries: int  # evaluated
    num_excluded_queries: int  # without any relevant item in the gallery
    query_rows: np.ndarray
    per_query_precision_at_1: np.ndarray
    per_query_r_precision: np.ndarray
    per_query_map_at_r: np.ndarray
    mean_average_precision: float | None = None  # if asked for
    tie_bounds: dict[str, tuple[float, float]] | None = None  # if asked for: lowest and highest value of each metric
    sampled_from: int | None = None  # queries that have something to find, if only a sample of them was evaluated
    intervals: dict[str, tuple[float, float]] | None = None  # of a sample: 95 %, for P@1, R@k, P@R and MAP@R of all

    def as_dict(self) -> dict[str, float]:
        """Return counts and figures by their names in tables.

        Names are "P@1", "R@2", ..., "P@R", "MAP@R" and, if computed, "mAP".
        """
        recall = {f"R@{k}": value for k, value in self.recall_at.items()}
        figures = {"P@1": self.precision_at_1, **recall, "P@R": self.r_precision, "MAP@R": self.map_at_r}
        if self.mean_average_precision is not None:
            figures["mAP"] = self.mean_average_precision
        return {**figures, "num_queries": self.num_queries, "num_excluded_queries": self.num_excluded_queries}


@dataclass(frozen=True)
class QueryScores:
    """Metrics of queries that have something to find; each is independent of others.

    Attributes:
        recall_at: the k of R@k.
        rows: of these among all queries, increasing `[scored]`, int64; at least one.
        precision_at_1, r_precision, map_at_r: fractions `[scored]`, float64.
        first_hit: rank of the nearest relevant item from 1 `[scored]`, int64; 0: farther than the largest k.
        average_precision: of the whole ranking `[scored]`, float64, if requested.
        tied_rows: of queries whose metrics ties may change, increasing `[tied]`, int64, if bounds are requested.
        lowest, highest: the metrics of these under the worst and the best order of ties `[metrics, tied]`, float64, in
            the order of `names`.
    """

    recall_at: tuple[int, ...]
    rows: np.ndarray
    precision_at_1: np.ndarray
    r_precision: np.ndarray
    map_at_r: np.ndarray
    first_hit: np.ndarray
    average_precision: np.ndarray | None = None
    tied_rows: np.ndarray | None = None
    lowest: np.ndarray | None = None
    highest: np.ndarray | None = None

    @property
    def names(self) -> list[str]:
        """The metrics: "P@1", "P@R", "MAP@R", "mAP" if requested, and R@k."""
        average = [] if self.average_precision is None else ["mAP"]
        return ["P@1", "P@R", "MAP@R", *average, *(f"R@{k}" for k in self.recall_at)]

    def by_name(self) -> dict[str, np.ndarray]:
        """Return each of `names` with its values `[scored]`."""
        average = [] if self.average_precision is None else [self.average_precision]
        recall = [metrics.recall_at_k(self.first_hit, k) for k in self.recall_at]
        return dict(zip(self.names, [self.precision_at_1, self.r_precision, self.map_at_r, *average, *recall]))

    def result(self, num_excluded_queries: int) -> RetrievalResult:
        """Average the queries, in the order of their rows."""
        means = {name: float(values.mean()) for name, values in self.by_name().items()}
        return RetrievalResult(
            precision_at_1=means["P@1"],
            recall_at={int(k): means[f"R@{k}"] for k in self.recall_at},
            r_precision=means["P@R"],
            map_at_r=means["MAP@R"],
            num_queries=len(self.rows),
            num_excluded_queries=num_excluded_queries,
            query_rows=self.rows,
            per_query_precision_at_1=self.precision_at_1,
            per_query_r_precision=self.r_precision,
            per_query_map_at_r=self.map_at_r,
            mean_average_precision=means.get("mAP"),
            tie_bounds=self._tie_bounds(),
        )

    def _tie_bounds(self) -> dict[str, tuple[float, float]] | None:
        if self.tied_rows is None or self.lowest is None or self.highest is None:
            return None
        places = np.searchsorted(self.rows, self.tied_rows)

        def mean(values: np.ndarray, of_tied: np.ndarray) -> float:
            values = values.copy()
            values[places] = of_tied
            return float(values.mean())

        ends = zip(self.by_name().items(), self.lowest, self.highest)
        return {name: (mean(values, low), mean(values, high)) for (name, values), low, high in ends}
