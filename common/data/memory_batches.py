"""Batches chosen by embeddings of the training set: coreset, distances, Fréchet, hard negatives."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from common.data.dataset import Examples
from common.data.random_batches import MPerClassBatches
from common.errors import check_choice, check_non_negative, invalid

CRITERIA = ("coreset", "distances", "frechet", "hard_negatives")
_POOL, _NUM_CANDIDATES, _NUM_BINS = 1024, 10, 50  # examples of B*, m, and bins of a histogram


class MemoryBatches(MPerClassBatches):
    """Choose SPC-n batches by a memory of embeddings, one of each example.

    Each batch draws B*, up to 1,024 random examples of the training set, and

    - `coreset` (GC): takes a random example of B*, then time and again the one farthest from those taken, of a class
      not taken yet; n - 1 random others of its class join each.
    - `distances` (DDM): is that of 10 random SPC-n batches with the smallest of `histogram_distances` to B*.
    - `frechet` (FRD): is that of 10 random SPC-n batches with the smallest of `frechet_distances` to B*.
    - `hard_negatives`: takes `nearest_of_classes` of a random example, from the whole training set instead of B*; n - 1
      random others of its class join each.

    A batch is a pure function of memory, seed, epoch and place. Without a memory it is random.

    Reference: Milbich's dissertation, section 2.2.2. Equation 2.16 has no classes; coresets of b/n examples, joined by
    others of their classes, 10 batches and 50 bins are its public code's. That code lets classes recur, looks the
    coreset's places up in another random set, and compares sorted heights of bins. The dissertation replaces the
    memory's rows as they are trained; `remember` replaces all of them, so that training can resume exactly.
    Hard negatives: Ge, Huang, Dong, Scott: Deep Metric Learning with Hierarchical Triplet Loss, ECCV 2018, whose
    anchor-neighbour sampling takes the classes with the smallest mean distance to a class; here nearest examples count.

    Args:
        labels, classes_per_batch, samples_per_class, seed: see `MPerClassBatches`; one label each.
        criterion: `coreset`, `distances`, `frechet` or `hard_negatives`.

    Raises:
        InvalidInput: as `MPerClassBatches`, or an unknown criterion.

    Examples:
        >>> batches = MemoryBatches(np.arange(12) % 4, classes_per_batch=2, samples_per_class=2, seed=0)
        >>> batches.remember(np.random.default_rng(0).normal(size=(12, 3)))
        >>> next(batches.from_step(0))[1].shape
        (4,)
    """

    def __init__(
        self, labels: np.ndarray, classes_per_batch: int, samples_per_class: int, seed: int, criterion: str = "coreset"
    ) -> None:
        super().__init__(Examples(labels).labels, classes_per_batch, samples_per_class, seed)
        self.criterion = check_choice("criterion", criterion, CRITERIA)
        self.memory: np.ndarray | None = None
        self._class_of = np.empty(len(self.examples), np.int64)
        self._class_of[self.examples] = np.repeat(np.arange(len(self.sizes)), self.sizes)

    def remember(self, embeddings: np.ndarray) -> None:
        """Replace the memory.

        Args:
            embeddings: `[examples, dim]`, finite, in the order of the labels.

        Raises:
            InvalidInput: another number of examples, or a number that is not finite.
        """
        memory, count = np.asarray(embeddings, np.float64), len(self._class_of)
        finite = bool(np.isfinite(memory).all())
        if memory.ndim != 2 or len(memory) != count or not finite:
            received = list(memory.shape) if finite else "NaN or infinity"
            raise invalid("embeddings", received=received, expected=f"finite numbers [{count}, dim]")
        self.memory = memory

    def epoch(self, epoch: int) -> np.ndarray:
        """Return indices `[batches_per_epoch, batch]` int64 of one epoch, batches sorted by class."""
        return np.stack([self._batch(epoch, place) for place in range(self.batches_per_epoch)])

    def from_step(self, step: int) -> Iterator[tuple[int, np.ndarray]]:
        """Yield (epoch, indices `[batch]`) endlessly from training step `step` (from 0) on."""
        check_non_negative("step", step)
        while True:
            epoch, place = divmod(step, self.batches_per_epoch)
            yield epoch, self._batch(epoch, place)
            step += 1

    def _batch(self, epoch: int, place: int) -> np.ndarray:
        generator, memory = np.random.default_rng((self.seed, epoch, place)), self.memory
        if memory is None:
            return self._random_batch(generator)
        if self.criterion == "hard_negatives":
            first = int(generator.integers(len(memory)))
            return self._joined(generator, nearest_of_classes(memory, self._class_of, self.classes_per_batch, first))
        pool = generator.choice(len(memory), min(_POOL, len(memory)), replace=False)
        if self.criterion == "coreset":
            return self._coreset_batch(generator, memory, pool)
        batches = [self._random_batch(generator) for _ in range(_NUM_CANDIDATES)]
        distances = frechet_distances if self.criterion == "frechet" else histogram_distances
        return batches[int(np.argmin(distances([memory[batch] for batch in batches], memory[pool])))]

    def _random_batch(self, generator: np.random.Generator) -> np.ndarray:
        return self._drawn_of(generator, self._classes(generator), self.samples_per_class).ravel()

    def _coreset_batch(self, generator: np.random.Generator, memory: np.ndarray, pool: np.ndarray) -> np.ndarray:
        if len(np.unique(self._class_of[pool])) < self.classes_per_batch:
            pool = np.append(pool, self._drawn_of(generator, self._classes(generator), 1))
        first = int(generator.integers(len(pool)))
        anchors = pool[greedy_coreset(memory[pool], self._class_of[pool], self.classes_per_batch, first)]
        return self._joined(generator, anchors)

    def _joined(self, generator: np.random.Generator, anchors: np.ndarray) -> np.ndarray:
        """Return each anchor with n - 1 others of its class."""
        return np.concatenate([np.append(anchor, self._others(generator, anchor)) for anchor in anchors])

    def _others(self, generator: np.random.Generator, anchor: int) -> np.ndarray:
        """Draw n - 1 others of an example's class; a smaller class repeats them."""
        members, count = np.flatnonzero(self._class_of == self._class_of[anchor]), self.samples_per_class - 1
        others = members[members != anchor]
        return generator.choice(others, count, replace=len(others) < count) if count else others[:0]


def greedy_coreset(points: np.ndarray, classes: np.ndarray, count: int, first: int) -> np.ndarray:
    """Return `count` places of points that cover a set greedily, each of another class.

    Each is farthest (Euclidean) from the nearest of those before it, the greedy solution of equation 2.16.

    Args:
        points, classes: `[points, dim]` and integers `[points]`, of `count` classes or more.
        count, first: the number of places, and the first one.
    """
    chosen, nearest = [first], np.full(len(points), np.inf)
    while len(chosen) < count:
        nearest = np.minimum(nearest, ((points - points[chosen[-1]]) ** 2).sum(axis=1))
        nearest[classes == classes[chosen[-1]]] = -1.0
        chosen.append(int(np.argmax(nearest)))
    return np.array(chosen)


def nearest_of_classes(points: np.ndarray, classes: np.ndarray, count: int, first: int) -> np.ndarray:
    """Return `first` and the nearest places of other classes, one each.

    Distances are Euclidean, from `first`. They ascend, and equal ones keep the order of places.

    Args:
        points, classes: `[points, dim]` and integers `[points]`, of `count` classes or more.
        count, first: the number of places, and the first one.
    """
    distances = np.einsum("nd,nd->n", points, points) - 2 * (points @ points[first])  # squared, less a constant
    distances[first] = -np.inf
    order = np.argsort(distances, kind="stable")
    return order[np.sort(np.unique(classes[order], return_index=True)[1])[:count]]


def histogram_distances(sets: Sequence[np.ndarray], others: np.ndarray) -> np.ndarray:
    """Return Wasserstein distances of sets' histograms of pairwise distances from another's, `[sets]`.

    Histograms have 50 bins over the range of the others' distances and sum to 1. The distance is a bin's width times
    the sum of the differences of their cumulative sums, in the unit of the points.

    Args:
        sets, others: each `[points, dim]`, two or more; distances beyond the others' range are in the outer bins.
    """
    from scipy.spatial.distance import pdist

    theirs = pdist(others)
    low, high = theirs.min(), theirs.max()

    def shares(distances: np.ndarray) -> np.ndarray:
        return np.histogram(np.clip(distances, low, high), _NUM_BINS, (low, high))[0] / len(distances)

    wanted, width = shares(theirs), (high - low) / _NUM_BINS
    return np.array([width * np.abs(np.cumsum(shares(pdist(each)) - wanted)).sum() for each in sets])


def frechet_distances(sets: Sequence[np.ndarray], others: np.ndarray) -> np.ndarray:
    """Return squared Fréchet distances between Gaussians fitted to sets and to another, `[sets]`.

    `|μ - μ*|² + tr(Σ + Σ* - 2 (Σ Σ*)^½)`, with unbiased covariances. For centred sets X and Y the trace of the root is
    the sum of the singular values of `X Yᵀ`, over the root of both counts.

    Reference: Milbich's dissertation, equation 2.17.

    Args:
        sets, others: each `[points, dim]`, two or more.
    """
    theirs = _centred(others)
    root = np.linalg.qr(theirs)[1]  # root' root is Σ*
    found = []
    for points in sets:
        shift, ours = points.mean(axis=0) - others.mean(axis=0), _centred(points)
        common = np.linalg.svd(ours @ root.T, compute_uv=False).sum()
        found.append(shift @ shift + (ours**2).sum() + (theirs**2).sum() - 2 * common)
    return np.array(found)


def _centred(points: np.ndarray) -> np.ndarray:
    return (points - points.mean(axis=0)) / np.sqrt(len(points) - 1)
