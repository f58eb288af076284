"""Verification: error rates of accepting pairs by one threshold of their cosine similarity."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from common.errors import InvalidInput, check_fraction, invalid
from common.retrieval.exact_scale import unit_rows
from common.retrieval.labels import codes_of_both
from common.retrieval.search.blocked_search import slices
from common.retrieval.search.similarity_bounds import coordinate_range

_STEPS = 2**16  # of the cosine from -1 to 1
_BLOCK = 1024  # rows and columns of a tile
_MOST_OPERATING_POINTS = 256


class Verification(NamedTuple):
    """Error rates of all pairs at each threshold of the cosine.

    A pair at least as similar as the threshold is accepted.

    Thresholds lie on a grid of 65,536 steps from -1 to 1, and the rates at each are exact counts. So the chosen
    threshold is at most 3.1e-5 above the best one of all real numbers.

    Attributes:
        thresholds: increasing `[65537]`; the last is infinite and accepts nothing.
        false_match: share of pairs of different classes that are accepted (FMR, false accept rate) `[65537]`.
        false_non_match: share of pairs of one class that are not accepted (FNMR, false reject rate) `[65537]`.
        num_genuine: pairs of one class.
        num_impostor: pairs of different classes.
    """

    thresholds: np.ndarray
    false_match: np.ndarray
    false_non_match: np.ndarray
    num_genuine: int
    num_impostor: int

    def false_non_match_at(self, false_match: float) -> float:
        """Return the lowest FNMR at an FMR of at most `false_match`, in [0, 1]."""
        check_fraction("false_match", false_match, zero_allowed=True)
        return float(self.false_non_match[np.argmax(self.false_match <= false_match)])

    @property
    def equal_error_rate(self) -> float:
        """EER, where FMR equals FNMR; linear between two thresholds."""
        gap = self.false_non_match - self.false_match  # from -1 to 1, increasing
        after = int(np.argmax(gap >= 0))
        weight = gap[after] / (gap[after] - gap[after - 1])
        return float(weight * self.false_match[after - 1] + (1 - weight) * self.false_match[after])

    @property
    def area_under_roc(self) -> float:
        """Area under the ROC curve; pairs in one step of the grid count half."""
        match = 1 - self.false_non_match
        return float(np.sum((self.false_match[:-1] - self.false_match[1:]) * (match[:-1] + match[1:])) / 2)

    def as_dict(self) -> dict[str, float]:
        """Return the figures by their names in tables.

        They are FNMR at FMRs of 1e-2, 1e-3 and 1e-4, EER and AUC. An FMR of less than one pair is left out.
        """
        rates = {text: float(text) for text in ("1e-2", "1e-3", "1e-4")}
        found = {
            f"FNMR@{text}": self.false_non_match_at(rate)
            for text, rate in rates.items()
            if rate * self.num_impostor >= 1
        }
        return {**found, "EER": self.equal_error_rate, "AUC": self.area_under_roc}


def verify_pairs(
    embeddings: np.ndarray,
    labels: np.ndarray,
    gallery_embeddings: np.ndarray | None = None,
    gallery_labels: np.ndarray | None = None,
) -> Verification:
    """Count the errors of every threshold of the cosine over all pairs.

    Without a gallery, each unordered pair of two items counts once. Cosines are float64 products in tiles of 8 MB. A
    cosine within rounding (about 1e-16) of a grid point may count on either side.

    Args:
        embeddings, labels: `[items, dim]` and integers `[items]`; brought to unit length here, zero stays zero.
        gallery_embeddings, gallery_labels: the other side of the pairs; None: the same items.

    Raises:
        InvalidInput: embeddings that are not finite, wrong labels, or no pair of one class or of two classes.

    Examples:
        >>> points = np.float32([[1, 0], [2, 0.1], [0, 1], [0.2, 3]])
        >>> verify_pairs(points, np.array([7, 7, 8, 8])).equal_error_rate
        0.0
    """
    pairs = _Pairs(embeddings, labels, gallery_embeddings, gallery_labels)
    counts = np.zeros((_STEPS + 1, 2), np.int64)  # [steps, (impostor, genuine)]; the last step: no pair
    for rows, columns, steps in pairs.tiles():
        genuine = pairs.query_codes[rows, np.newaxis] == pairs.gallery_codes[columns]
        counts += np.bincount((2 * steps + genuine).ravel(), minlength=counts.size).reshape(counts.shape)
    accepted = np.cumsum(np.r_[np.zeros((1, 2), np.int64), counts[:_STEPS][::-1]], axis=0)[::-1]  # by threshold
    num_impostor, num_genuine = map(int, accepted[0])
    if not (num_genuine and num_impostor):
        raise InvalidInput(
            f"Invalid labels: received {num_genuine} pairs of one class and {num_impostor} of different classes, "
            "expected some of each."
        )
    false_non_match = (num_genuine - accepted[:, 1]) / num_genuine
    return Verification(_thresholds(), accepted[:, 0] / num_impostor, false_non_match, num_genuine, num_impostor)


def operating_point_inconsistency(
    embeddings: np.ndarray,
    labels: np.ndarray,
    gallery_embeddings: np.ndarray | None = None,
    gallery_labels: np.ndarray | None = None,
    *,
    false_match: tuple[float, float] = (1e-2, 1e-1),
    verification: Verification | None = None,
) -> float:
    """Compute OPIS, the variance between classes of what one threshold does to them.

    `mean_t mean_i (U_i(t) - mean_i U_i(t))²`. U_i is the harmonic mean of the sensitivity (share of accepted pairs
    within class i) and the specificity (share of rejected pairs of class i with others). 0 if a threshold means the
    same for each class; at most 1/4. Thresholds t are those of the calibration range, even in the cosine: at most 256
    points of `Verification.thresholds`.

    Reference: Zhang, Xu, Tang, Fang, Wu, Tighe, Xing: Threshold-Consistent Margin Loss for Open-World Deep Metric
    Learning, ICLR 2024, whose integral over thresholds is the mean over t here.

    Args:
        embeddings, labels: `[items, dim]` and integers `[items]`, as in `verify_pairs`; they give the classes.
        gallery_embeddings, gallery_labels: `[gallery, dim]` and `[gallery]`; None: the same items.
        false_match: lowest and highest FMR of the calibration range, over all pairs, in [0, 1]. The default is ours.
        verification: of the same arrays, if known; else it is computed.

    Raises:
        InvalidInput: as `verify_pairs`, a wrong range, or no class with pairs of both kinds.
    """
    low, high = false_match
    if not 0 <= low <= high <= 1:
        raise invalid("false_match", received=false_match, expected="two increasing numbers in [0, 1]")
    arrays = embeddings, labels, gallery_embeddings, gallery_labels
    rates = (verification or verify_pairs(*arrays)).false_match
    first = int(np.argmax(rates <= high))
    last = max(first, int(np.flatnonzero(rates >= low)[-1]))
    points = np.unique(np.linspace(first, last, _MOST_OPERATING_POINTS).round().astype(np.int64))
    pairs = _Pairs(*arrays)
    counts = pairs.counts_by_class(points)  # [(impostor, genuine), classes, points that accept a pair]
    totals = counts.sum(axis=2, keepdims=True)
    counted = (totals > 0).all(axis=0).ravel()
    if not counted.any():
        raise InvalidInput("Invalid labels: received no class with a pair within it and a pair with another class.")
    accepted = np.cumsum(counts[:, counted, :0:-1], axis=2)[..., ::-1] / totals[:, counted]  # [2, classes, points]
    specificity, sensitivity = 1 - accepted[0], accepted[1]
    total = specificity + sensitivity
    utility = 2 * specificity * sensitivity / np.where(total > 0, total, 1.0)
    return float(utility.var(axis=0).mean())


class _Pairs:
    """All pairs of unit vectors, sorted by class: a tile has few classes."""

    def __init__(
        self,
        embeddings: np.ndarray,
        labels: np.ndarray,
        gallery_embeddings: np.ndarray | None,
        gallery_labels: np.ndarray | None,
    ) -> None:
        embeddings = np.asarray(embeddings)
        coordinate_range("embeddings", embeddings)
        query_codes, gallery_codes = codes_of_both(embeddings, labels, gallery_embeddings, gallery_labels)
        self.symmetric = gallery_embeddings is None
        self.queries, self.query_codes = _sorted(embeddings, query_codes)
        self.gallery, self.gallery_codes = self.queries, self.query_codes
        if gallery_embeddings is not None:
            gallery_embeddings = np.asarray(gallery_embeddings)
            coordinate_range("gallery embeddings", gallery_embeddings)
            if gallery_embeddings.shape[1] != embeddings.shape[1]:
                expected = f"{embeddings.shape[1]} components, as the queries have"
                raise invalid("gallery embeddings", received=gallery_embeddings.shape, expected=expected)
            self.gallery, self.gallery_codes = _sorted(gallery_embeddings, gallery_codes)

    def tiles(self) -> Iterator[tuple[slice, slice, np.ndarray]]:
        """Yield rows, columns and the step of each cosine `[rows, columns]`; `_STEPS`: no pair."""
        for rows in slices(len(self.queries), _BLOCK):
            for columns in slices(len(self.gallery), _BLOCK):
                if self.symmetric and columns.start < rows.start:
                    continue
                steps = _steps(self.queries[rows] @ self.gallery[columns].T)
                if self.symmetric and columns.start == rows.start:
                    steps[np.tril_indices(len(steps))] = _STEPS
                yield rows, columns, steps

    def counts_by_class(self, points: np.ndarray) -> np.ndarray:
        """Count the pairs of each class by the number of thresholds that accept them.

        Args:
            points: increasing steps of the thresholds `[points]`.

        Returns:
            `[2, classes, points + 1]`, int64: pairs with other classes, and within the class.
        """
        width = len(points) + 2  # the last: no pair
        place = np.r_[np.searchsorted(points, np.arange(_STEPS), side="right"), width - 1]
        counts = np.zeros((2, int(self.query_codes[-1]) + 1, width), np.int64)
        for rows, columns, steps in self.tiles():
            places, of_rows, of_columns = place[steps], self.query_codes[rows], self.gallery_codes[columns]
            genuine = of_rows[:, np.newaxis] == of_columns
            _add(counts, of_rows[:, np.newaxis], genuine, places)
            if self.symmetric:
                _add(counts, of_columns[np.newaxis], genuine, places)
        return counts[..., :-1]


def _sorted(embeddings: np.ndarray, codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    order = np.argsort(codes, kind="stable")
    return unit_rows(embeddings[order].astype(np.float64)), codes[order]


def _add(counts: np.ndarray, codes: np.ndarray, genuine: np.ndarray, places: np.ndarray) -> None:
    """Add the pairs of a tile to `counts` `[2, classes, places]`; `codes` are sorted."""
    first, last = int(codes.min()), int(codes.max()) + 1
    part = counts[:, first:last]
    keys = ((last - first) * genuine + (codes - first)) * counts.shape[2] + places
    part += np.bincount(keys.ravel(), minlength=part.size).reshape(part.shape)


def _steps(cosines: np.ndarray) -> np.ndarray:
    """Return the index of the highest threshold that each cosine reaches, int64."""
    return np.clip(np.floor((cosines + 1) * (_STEPS // 2)), 0, _STEPS - 1).astype(np.int64)


def _thresholds() -> np.ndarray:
    return np.r_[np.arange(_STEPS) / (_STEPS // 2) - 1, np.inf]
