"""Random batches of examples: SPC-n and SPC-R, pure functions of seed and epoch."""

from __future__ import annotations

import numpy as np

from common.data.batches import ClassBatches, EpochBatches
from common.data.dataset import Examples, check_training_pairs
from common.errors import check_non_negative, check_positive, invalid


class MPerClassBatches(ClassBatches):
    """SPC-n: random classes, n random examples of each; every batch is drawn independently.

    `ClassBalancedBatches` gives every class its turn before any has a second one; here nothing is remembered from
    batch to batch. A batch holds no class twice, and an example twice only where a class has fewer than n. An epoch
    has as many batches as fit into the data.

    Reference: Milbich's dissertation, section 2.2.2, which finds SPC-2 sufficient. (Its code draws classes and
    examples with replacement.)

    Args:
        labels: `[examples]` integers, or bools `[examples, classes]`; see `ClassBalancedBatches`.
        classes_per_batch: at most the number of classes.
        samples_per_class: n, 1 or more.
        seed: non-negative.

    Raises:
        InvalidInput: fewer classes than a batch needs, or a class with one example where n asks for pairs.

    Examples:
        >>> MPerClassBatches([5, 5, 7, 7, 9, 9], classes_per_batch=2, samples_per_class=2, seed=0).epoch(0).shape
        (1, 4)
    """

    def __init__(self, labels: np.ndarray, classes_per_batch: int, samples_per_class: int, seed: int) -> None:
        super().__init__(labels, classes_per_batch, samples_per_class, seed)
        self.batches_per_epoch = max(len(self.examples) // self.batch_size, 1)

    def epoch(self, epoch: int) -> np.ndarray:
        """Return indices `[batches_per_epoch, batch]` int64 of one epoch, batches sorted by class."""
        generator = np.random.default_rng((self.seed, epoch))
        rounds = range(self.batches_per_epoch)
        chosen = np.concatenate([self._classes(generator) for _ in rounds])  # [groups]
        return self._drawn_of(generator, chosen, self.samples_per_class).reshape(-1, self.batch_size)

    def _classes(self, generator: np.random.Generator) -> np.ndarray:
        """Draw the classes of a batch `[classes_per_batch]`."""
        return generator.choice(len(self.sizes), self.classes_per_batch, replace=False)

    def _drawn_of(self, generator: np.random.Generator, classes: np.ndarray, count: int) -> np.ndarray:
        """Draw examples of each class `[classes, count]`."""
        places = _distinct_places(generator, self.sizes[classes], count)
        return self.examples[self.first[classes, None] + places]


class HierarchicalBatches(MPerClassBatches):
    """Batches of few superclasses, with several of their classes each.

    Many negatives of a batch are then of the anchor's own superclass, which makes them hard. Each batch draws
    superclasses, then as many classes of each, then examples as `MPerClassBatches` does. Superclasses with fewer
    classes are not drawn.

    Reference: the batches of few categories in Cakir, He, Xia, Kulis, Sclaroff: Deep Metric Learning to Rank (FastAP),
    CVPR 2019.

    Args:
        levels: `[examples, 2]` integers: class and superclass.
        superclasses_per_batch: 1 or more.
        classes_per_superclass: 1 or more.
        samples_per_class: 1 or more.
        seed: non-negative.

    Raises:
        InvalidInput: as `MPerClassBatches`; a class in two superclasses, or too few superclasses with as many classes.

    Examples:
        >>> levels = np.repeat([[0, 0], [1, 0], [2, 1], [3, 1]], 2, axis=0)
        >>> batches = HierarchicalBatches(levels, 1, 2, samples_per_class=2, seed=0)
        >>> np.unique(levels[batches.epoch(0)][..., 1], axis=1).shape  # one superclass in each batch
        (2, 1)
    """

    def __init__(
        self,
        levels: np.ndarray,
        superclasses_per_batch: int,
        classes_per_superclass: int,
        samples_per_class: int,
        seed: int,
    ) -> None:
        levels = np.asarray(levels)
        if levels.ndim != 2 or levels.shape[1] != 2:
            raise invalid("levels", received=list(levels.shape), expected="[examples, 2]: class and superclass")
        check_positive("superclasses_per_batch", superclasses_per_batch)
        check_positive("classes_per_superclass", classes_per_superclass)
        super().__init__(levels[:, 0], superclasses_per_batch * classes_per_superclass, samples_per_class, seed)
        above = np.unique(levels, axis=0)  # [classes, 2], in the order of the classes
        if len(above) != len(self.sizes):
            expected = "each class in one superclass"
            raise invalid("levels", received=f"{len(self.sizes)} classes in {len(above)} pairs", expected=expected)
        superclasses, counts = np.unique(above[:, 1], return_counts=True)
        drawn = superclasses[counts >= classes_per_superclass]
        if len(drawn) < superclasses_per_batch:
            expected = f"at most the number of superclasses with {classes_per_superclass} classes, {len(drawn)}"
            raise invalid("superclasses_per_batch", received=superclasses_per_batch, expected=expected)
        self.superclasses_per_batch, self.classes_per_superclass = superclasses_per_batch, classes_per_superclass
        self._classes_of = [np.flatnonzero(above[:, 1] == superclass) for superclass in drawn]

    def _classes(self, generator: np.random.Generator) -> np.ndarray:
        drawn = generator.choice(len(self._classes_of), self.superclasses_per_batch, replace=False)
        size = self.classes_per_superclass
        return np.concatenate([generator.choice(self._classes_of[place], size, replace=False) for place in drawn])


class RandomPairBatches(EpochBatches):
    """SPC-R: random examples, the last one of a class already in the batch.

    So every batch has a positive pair, and classes occur in proportion to their examples. No example is twice in a
    batch. An epoch has as many batches as fit into the data.

    Args:
        labels: `[examples]` integers; they need not be consecutive.
        batch_size: 2 or more, at most the number of examples.
        seed: non-negative.

    Raises:
        InvalidInput: a batch size out of range, or a class with one example.
    """

    def __init__(self, labels: np.ndarray, batch_size: int, seed: int) -> None:
        examples = Examples(labels)
        if not 2 <= batch_size <= len(examples):
            expected = f"2 up to the number of training examples, {len(examples)}"
            raise invalid("batch_size", received=batch_size, expected=expected)
        check_training_pairs(examples)
        self.batch_size = batch_size
        self.seed = check_non_negative("seed", seed)
        self.batches_per_epoch = len(examples) // batch_size
        self._classes = np.unique(examples.labels, return_inverse=True)[1]  # [examples]
        ends = np.cumsum(np.bincount(self._classes))[:-1]
        self._examples_of = np.split(np.argsort(self._classes, kind="stable"), ends)  # [classes][examples of the class]

    def epoch(self, epoch: int) -> np.ndarray:
        """Return indices `[batches_per_epoch, batch]` int64 of one epoch, each batch's repeated class last."""
        generator = np.random.default_rng((self.seed, epoch))
        return np.stack([self._batch(generator) for _ in range(self.batches_per_epoch)])

    def _batch(self, generator: np.random.Generator) -> np.ndarray:
        chosen = generator.choice(len(self._classes), self.batch_size - 1, replace=False)
        known = np.concatenate([self._examples_of[c] for c in np.unique(self._classes[chosen])])
        others = np.setdiff1d(known, chosen)
        if not len(others):  # whole classes were drawn: any other example will do
            others = np.setdiff1d(np.arange(len(self._classes)), chosen)
        return np.append(chosen, generator.choice(others))


def _distinct_places(generator: np.random.Generator, sizes: np.ndarray, count: int) -> np.ndarray:
    """Draw places `[groups, count]` below each group's size, without repetition until exhausted."""
    places = np.empty((len(sizes), count), np.int64)
    for column in range(count):
        num_used = column % sizes  # of the present round through the group
        place = np.floor(generator.random(len(sizes)) * (sizes - num_used)).astype(np.int64)
        used = np.where(np.arange(column) >= (column - num_used)[:, None], places[:, :column], sizes[:, None])
        for taken in np.sort(used, axis=1).T:  # the place among those that are left, counted past those that are not
            place += place >= taken
        places[:, column] = place
    return places
