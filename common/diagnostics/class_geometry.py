"""Class geometry of embeddings: distances within and between classes, covering radii, uniformity."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from common.errors import InvalidInput, check_choice, check_positive
from common.ops.k_center import greedy_k_center
from common.retrieval.exact_scale import brought_to_one, unit_rows
from common.retrieval.labels import class_codes
from common.retrieval.search.blocked_search import slices
from common.retrieval.search.similarity_bounds import coordinate_range

CONVENTIONS = ("code", "print")
_PAIRS_AT_ONCE = 2**22


class ClassDistances(NamedTuple):
    """Mean distances of embeddings, and their ratio ("embedding space density").

    Attributes:
        intra: of two items of one class (pi_intra).
        inter: of the means of two classes (pi_inter).
    """

    intra: float
    inter: float

    @property
    def ratio(self) -> float:
        """pi_ratio = pi_intra / pi_inter; infinite if all class means coincide."""
        return self.intra / self.inter if self.inter > 0 else float("inf")


def class_distances(embeddings: np.ndarray, labels: np.ndarray, convention: str = "code") -> ClassDistances:
    """Compute pi_intra, pi_inter and pi_ratio by one of two conventions.

    The conventions are the dissertation's text (`"print"`) and its code (`"code"`).

    - `"print"`: d is the Euclidean distance. The mean is over all pairs of items of one class, so large classes count
      with all their pairs. Class means stay as they are.
    - `"code"`: d is the cosine distance 1 - cos. The mean is over classes of the mean over their pairs. Class means are
      brought to unit length before they are compared.

    Classes of one item have no pair and do not count in pi_intra.

    Reference: Milbich, dissertation, equations 2.19 to 2.21, and the published code of its chapter 2.

    Args:
        embeddings: `[items, dim]`; brought to unit length here, as the dissertation's are.
        labels: integers `[items]`.
        convention: one of `CONVENTIONS`.

    Raises:
        InvalidInput: embeddings that are not finite, one class only, or no class of two items.
    """
    check_choice("convention", convention, CONVENTIONS)
    points, codes = _unit_points(embeddings, labels)
    members = [points[rows] for rows in _rows_of_classes(codes)]
    with_pairs = [items for items in members if len(items) > 1]
    if len(members) < 2 or not with_pairs:
        raise InvalidInput("Invalid labels: received no two classes, or no class of two items; there is no distance.")
    means = np.stack([items.mean(axis=0) for items in members])
    if convention == "code":
        intra = np.mean([1 - _mean_cosine(items) for items in with_pairs])
        return ClassDistances(float(intra), float(1 - _mean_cosine(unit_rows(means))))
    sums, counts = zip(*(_summed_distances(items) for items in with_pairs))
    total, count = _summed_distances(means)
    return ClassDistances(float(sum(sums) / sum(counts)), float(total / count))


def class_covering_radii(
    embeddings: np.ndarray, labels: np.ndarray, num_centers: int | None = None, *, max_items: int | None = None
) -> np.ndarray:
    """Return the radius of each class's greedy k-center cover, `[classes]`.

    It measures how far a class reaches from a few of its own items. The first item of a class is its first center.
    Without `num_centers`, average the radii for k = 1 ... all n items of the class (the last is 0), which the papers
    print as one number for a class.

    Reference: thesis figure 3.3 and section 3.2.3; "ASAP DML", figure 7.

    Args:
        embeddings: `[items, dim]`; used as they are.
        labels: integers `[items]`; the classes come in their order.
        num_centers: k, or None for the mean over all k; a class of fewer items has radius 0.
        max_items: larger classes are subsampled to this many items, evenly spaced: the time grows with their square.
    """
    embeddings, exponent = brought_to_one("embeddings", np.asarray(embeddings))
    if num_centers is not None:
        check_positive("num_centers", num_centers)
    rows = _rows_of_classes(class_codes("labels", labels, len(embeddings)))
    if max_items is not None:
        check_positive("max_items", max_items)
        rows = [r[np.linspace(0, len(r) - 1, max_items).astype(int)] if len(r) > max_items else r for r in rows]
    sizes = np.array([len(of_class) for of_class in rows])
    radii = np.zeros(len(rows))
    for size in np.unique(sizes):  # classes of one size are covered together
        chosen = np.flatnonzero(sizes == size)
        for part in slices(len(chosen), max(1, _PAIRS_AT_ONCE // size**2)):
            points = embeddings[np.stack([rows[index] for index in chosen[part]])]
            radii[chosen[part]] = _covering_radii(points, num_centers)
    return np.ldexp(radii, exponent)


def alignment(embeddings: np.ndarray, labels: np.ndarray) -> float:
    """Average `|x - y|^2` over pairs of one class, on the unit sphere.

    0 if each class is a point, 2 at random.

    Reference: Wang and Isola, "Understanding contrastive representation learning through alignment and uniformity on
    the hypersphere", 2020, with alpha = 2.

    Args:
        embeddings: `[items, dim]`; brought to unit length here.
        labels: integers `[items]`.

    Raises:
        InvalidInput: embeddings that are not finite, or no class of two items.
    """
    points, codes = _unit_points(embeddings, labels)
    total, count = 0.0, 0
    for rows in _rows_of_classes(codes):
        pairs = len(rows) * (len(rows) - 1)
        if pairs:
            total, count = total + pairs * 2 * (1 - _mean_cosine(points[rows])), count + pairs
    if not count:
        raise InvalidInput("Invalid labels: received no class of two items, expected at least one pair to align.")
    return float(total / count)


def uniformity(embeddings: np.ndarray, *, temperature: float = 2.0, max_items: int = 4096, seed: int = 0) -> float:
    """Compute `log E exp(-t |x - y|^2)` over all pairs, on the unit sphere.

    0 if all embeddings coincide, lower the more they spread; at random in many dimensions about `-2t`.

    Reference: Wang and Isola, 2020, with t = 2.

    Args:
        embeddings: `[items, dim]`, at least two; brought to unit length here.
        temperature: t, > 0.
        max_items: at most this many items are drawn: the time grows with the square of their number.
        seed: of the draw.
    """
    check_positive("temperature", temperature)
    embeddings = np.asarray(embeddings)
    coordinate_range("embeddings", embeddings)
    if len(embeddings) < 2:
        raise InvalidInput("Invalid embeddings: received a single one, expected at least two to compare.")
    if len(embeddings) > max_items:
        embeddings = embeddings[np.random.default_rng(seed).choice(len(embeddings), max_items, replace=False)]
    points = unit_rows(embeddings.astype(np.float64))
    total = 0.0
    for part in slices(len(points), max(1, _PAIRS_AT_ONCE // len(points))):
        potentials = np.exp(-2 * temperature * (1 - np.clip(points[part] @ points.T, -1, 1)))
        potentials[np.arange(len(potentials)), np.arange(part.start, part.stop)] = 0.0  # no item is its own pair
        total += potentials.sum()
    return float(np.log(total / (len(points) * (len(points) - 1))))


def _covering_radii(points: np.ndarray, num_centers: int | None) -> np.ndarray:
    """Return the radii `[classes]` of points `[classes, items, dim]`."""
    size = points.shape[1]
    count = size if num_centers is None else min(num_centers, size)
    order = np.asarray(greedy_k_center(points, count))  # [classes, centers]
    radii = np.empty((len(points), count))
    nearest = np.full(points.shape[:2], np.inf)
    for step in range(count):
        centers = points[np.arange(len(points)), order[:, step]]  # [classes, dim]
        nearest = np.minimum(nearest, np.linalg.norm(points - centers[:, None], axis=2))
        radii[:, step] = nearest.max(axis=1)
    return radii.mean(axis=1) if num_centers is None else radii[:, -1]


def _unit_points(embeddings: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    embeddings = np.asarray(embeddings)
    coordinate_range("embeddings", embeddings)
    return unit_rows(embeddings.astype(np.float64)), class_codes("labels", labels, len(embeddings))


def _rows_of_classes(codes: np.ndarray) -> list[np.ndarray]:
    order = np.argsort(codes, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(codes[order])) + 1)


def _mean_cosine(points: np.ndarray) -> float:
    """Average `<x_i, x_j>` over i != j of unit (or zero) vectors `[items, dim]`."""
    count = len(points)
    squares = (points**2).sum()
    return float(((points.sum(axis=0) ** 2).sum() - squares) / (count * (count - 1)))


def _summed_distances(points: np.ndarray) -> tuple[float, int]:
    """Sum the Euclidean distances of all ordered pairs; also return their number."""
    total = sum(_block_distances(points))
    return float(total), len(points) * (len(points) - 1)


def _block_distances(points: np.ndarray) -> Iterator[float]:
    squares = (points**2).sum(axis=1)
    for part in slices(len(points), max(1, _PAIRS_AT_ONCE // len(points))):
        between = squares[part, None] + squares - 2 * points[part] @ points.T
        between[np.arange(len(between)), np.arange(part.start, part.stop)] = 0.0
        yield np.sqrt(np.maximum(between, 0.0)).sum()
