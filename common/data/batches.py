"""Class-balanced batches of example indices: a pure function of the seed and the epoch."""

from __future__ import annotations

import abc
from collections.abc import Iterator
from typing import Protocol

import numpy as np

from common.data.dataset import Examples, check_training_pairs
from common.errors import check_non_negative, check_positive, invalid


class TrainingBatches(Protocol):
    """A source of training batches."""

    batch_size: int
    batches_per_epoch: int

    def from_step(self, step: int) -> Iterator[tuple[int, np.ndarray]]:
        """Yield (epoch, indices `[batch]`) from the batch of training step `step` on."""


class EpochBatches(abc.ABC):
    """A sampler of equal batches, whose epochs are pure functions of their numbers.

    Attributes:
        batch_size: examples in a batch.
        batches_per_epoch: batches in an epoch.
        class_places: the class at each place of every batch, `[batch]` integers; None: any class may be at any place.
    """

    batch_size: int
    batches_per_epoch: int
    class_places: np.ndarray | None = None

    @abc.abstractmethod
    def epoch(self, epoch: int) -> np.ndarray:
        """Return indices `[batches_per_epoch, batch]` int64 of one epoch."""

    def from_step(self, step: int) -> Iterator[tuple[int, np.ndarray]]:
        """Yield (epoch, indices `[batch]`) endlessly from training step `step` (from 0) on."""
        check_non_negative("step", step)
        epoch, skipped = divmod(step, self.batches_per_epoch)
        while True:
            for indices in self.epoch(epoch)[skipped:]:
                yield epoch, indices
            epoch, skipped = epoch + 1, 0


class ClassBatches(EpochBatches):
    """Batches of several examples of each of several classes; subclasses draw them.

    Args:
        labels: `[examples]` integers; or bools `[examples, classes]` of several labels: an example is in several
            classes. Classes with too few examples for a pair are then left out.
        classes_per_batch: at most the number of classes.
        samples_per_class: more than 1 asks for two examples in each class.
        seed: non-negative.

    Attributes:
        sizes: number of examples `[classes]`.
        examples: places, all of the first class first `[sum of sizes]`.
        first: place of each class in `examples` `[classes]`.

    Raises:
        InvalidInput: fewer classes than a batch needs, or a class with one example.
    """

    def __init__(self, labels: np.ndarray, classes_per_batch: int, samples_per_class: int, seed: int) -> None:
        check_positive("classes_per_batch", classes_per_batch)
        check_positive("samples_per_class", samples_per_class)
        if isinstance(labels, np.ndarray) and labels.dtype == np.bool_ and labels.ndim == 2:
            several = labels[:, labels.sum(axis=0) >= min(samples_per_class, 2)]
            classes, self.examples = np.nonzero(several.T)
            self.sizes = np.bincount(classes, minlength=several.shape[1])
        else:
            examples = Examples(labels)
            classes, self.sizes = np.unique(examples.labels, return_inverse=True, return_counts=True)[1:]
            self.examples = np.argsort(classes, kind="stable")
            if samples_per_class > 1 and len(self.sizes) >= classes_per_batch:
                check_training_pairs(examples)
        if len(self.sizes) < classes_per_batch:
            expected = f"at most the number of training classes, {len(self.sizes)}"
            raise invalid("classes_per_batch", received=classes_per_batch, expected=expected)
        self.first = np.concatenate([[0], np.cumsum(self.sizes)[:-1]])
        self.classes_per_batch, self.samples_per_class = classes_per_batch, samples_per_class
        self.seed = check_non_negative("seed", seed)
        self.batch_size = classes_per_batch * samples_per_class
        self.class_places = np.repeat(np.arange(classes_per_batch), samples_per_class)


class ClassBalancedBatches(ClassBatches):
    """Batches of `classes_per_batch` different classes with `samples_per_class` examples each.

    An epoch consists of ceil(mean examples per class / samples_per_class) rounds. In a round every class has its turn
    once, in random order; the classes are cut into chunks of `classes_per_batch`, and an incomplete last chunk is
    dropped, so no batch holds a class twice. Within an epoch a class draws from its own shuffled queue without
    replacement, and the queue is refilled when it is empty. Only a class with fewer examples than `samples_per_class`
    repeats an example within a batch, unless `refills_blindly`.

    The authors' published sampler is `interleaved` and `refills_blindly`. It also lets batches run on from one round
    into the next, so that a batch may hold a class twice; that is left out here, because the halves of the zero-shot
    prediction loss then share that class.

    Nothing is kept from epoch to epoch: `epoch(e)` depends on the arguments, the seed and e alone, so that a training
    run continues anywhere with the batches it would have had.

    Args:
        labels: `[examples]` integers; they need not be consecutive. Or bools `[examples, classes]`, see `ClassBatches`:
            an example is drawn by each of its labels, perhaps by two in one batch.
        classes_per_batch: at most the number of classes.
        samples_per_class: 1 or more.
        seed: non-negative.
        interleaved: the order within a batch, c1 c2 ... c1 c2 ...; by default class by class, c1 c1 ... c2 c2 ...
        refills_blindly: a refilled queue does not know what the open group has drawn already, so that an example may
            come twice in a batch wherever the size of a class is no multiple of `samples_per_class`.

    Raises:
        InvalidInput: fewer classes than a batch needs, or a class with one example where `samples_per_class` asks
            for pairs.

    Examples:
        >>> batches = ClassBalancedBatches([5, 5, 7, 7, 9, 9], classes_per_batch=3, samples_per_class=2, seed=0)
        >>> batches.epoch(0).shape
        (1, 6)
    """

    def __init__(
        self,
        labels: np.ndarray,
        classes_per_batch: int,
        samples_per_class: int,
        seed: int,
        *,
        interleaved: bool = False,
        refills_blindly: bool = False,
    ) -> None:
        super().__init__(labels, classes_per_batch, samples_per_class, seed)
        self.interleaved, self.refills_blindly = interleaved, refills_blindly
        if interleaved:
            self.class_places = np.tile(np.arange(classes_per_batch), samples_per_class)
        self._num_rounds = -(-len(self.examples) // (len(self.sizes) * samples_per_class))
        self.batches_per_epoch = self._num_rounds * (len(self.sizes) // classes_per_batch)  # of complete chunks

    def epoch(self, epoch: int) -> np.ndarray:
        """Return indices `[batches_per_epoch, batch]` int64 of one epoch, ordered as `class_places`."""
        generator = np.random.default_rng((self.seed, epoch))
        groups = self._groups(generator)  # [classes, rounds, samples_per_class]
        num_classes = len(self.sizes)
        turns = np.tile(np.arange(num_classes), (self._num_rounds, 1))
        turns = generator.permuted(turns, axis=1)  # [rounds, classes]
        turns = turns[:, : num_classes - num_classes % self.classes_per_batch]
        chosen = groups[turns, np.arange(self._num_rounds)[:, None]]  # [rounds, classes, samples_per_class]
        chosen = chosen.reshape(self.batches_per_epoch, self.classes_per_batch, self.samples_per_class)
        if self.interleaved:
            chosen = chosen.swapaxes(1, 2)
        return chosen.reshape(self.batches_per_epoch, self.batch_size)

    def _groups(self, generator: np.random.Generator) -> np.ndarray:
        groups = np.empty((len(self.sizes), self._num_rounds, self.samples_per_class), np.int64)
        for class_size in np.unique(self.sizes):
            same_size = np.flatnonzero(self.sizes == class_size)
            looks = not self.refills_blindly and class_size >= self.samples_per_class
            drawn = _draw_groups(generator, len(same_size), class_size, self._num_rounds, self.samples_per_class, looks)
            groups[same_size] = self.examples[self.first[same_size, None, None] + drawn]
        return groups


def _draw_groups(
    generator: np.random.Generator,
    num_classes: int,
    class_size: int,
    num_rounds: int,
    samples_per_class: int,
    looks: bool,
) -> np.ndarray:
    """Draw `[classes, rounds, samples_per_class]` positions in equal classes, each from its queue.

    With `looks`, a refilled queue begins with examples that the open group does not have.
    """
    num_needed = num_rounds * samples_per_class
    drawn = np.empty((num_classes, 0), np.int64)
    while drawn.shape[1] < num_needed:
        num_in_open_group = drawn.shape[1] % samples_per_class if looks else 0
        open_group = drawn[:, drawn.shape[1] - num_in_open_group :]
        refill = _refill(generator, num_classes, class_size, open_group, samples_per_class - num_in_open_group)
        drawn = np.concatenate([drawn, refill], axis=1)
    return drawn[:, :num_needed].reshape(num_classes, num_rounds, samples_per_class)


def _refill(
    generator: np.random.Generator, num_classes: int, class_size: int, open_group: np.ndarray, num_to_complete: int
) -> np.ndarray:
    """Shuffle queues `[classes, class_size]`; their first `num_to_complete` avoid the open group."""
    keys = generator.random((num_classes, class_size))
    if open_group.shape[1] == 0:
        return np.argsort(keys, axis=1)
    # The open group's members go last; once the group is complete they take their chance with all others.
    np.put_along_axis(keys, open_group, 2.0, axis=1)
    queue = np.argsort(keys, axis=1)
    queue[:, num_to_complete:] = generator.permuted(queue[:, num_to_complete:], axis=1)
    return queue


class TwoViews(EpochBatches):
    """Another sampler's batches with each index twice, `[i_1, ..., i_n, i_1, ..., i_n]`.

    The training augmentation draws by the place in the batch. So the first half of a batch is bit for bit the batch
    without views, and the second half shows the same images in other crops.

    Args:
        batches: any sampler.

    Examples:
        >>> batches = ClassBalancedBatches([5, 5, 7, 7, 9, 9], classes_per_batch=3, samples_per_class=2, seed=0)
        >>> TwoViews(batches).epoch(0).shape
        (1, 12)
    """

    def __init__(self, batches: EpochBatches) -> None:
        self.batches = batches
        self.batch_size, self.batches_per_epoch = 2 * batches.batch_size, batches.batches_per_epoch

    def epoch(self, epoch: int) -> np.ndarray:
        """Return indices `[batches_per_epoch, 2 n]` int64 of one epoch."""
        return np.tile(self.batches.epoch(epoch), (1, 2))
