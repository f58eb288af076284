"""Embedded random images of every class, from which the next proxies are chosen."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np
import tensorflow as tf

from common.data.dataset import Examples
from common.data.images import ImageTransform
from common.data.input_pipeline import training_batches
from common.errors import check_positive, invalid
from common.progress import progress_bar

# Keep the draws of pools and of their augmentation apart from those of training batches with the same seed.
_DRAWING_STREAM, _AUGMENTATION_STREAM = 1, 2


def sample_pools(labels: np.ndarray, pool_size: int, num_representatives: int, seed: int | Sequence[int]) -> np.ndarray:
    """Draw `pool_size` examples of every class, in random order.

    Draws without replacement. A smaller class repeats all its examples until its pool is full.

    Reference: thesis Algorithm 2 ("b random samples of class c") with budget b; b = `num_representatives` is random
    sampling.

    Args:
        labels: integers `[examples]`, every one of 0 .. classes-1.
        pool_size: b, at least `num_representatives`.
        num_representatives: how many of each pool are to be chosen.
        seed: an integer or a sequence of integers, for `numpy.random.default_rng`.

    Returns:
        int64 `[classes, pool_size]`, indices of examples.

    Raises:
        InvalidInput: a pool that is too small to choose from, no examples, or labels with gaps.
    """
    _check_pool_size(pool_size, num_representatives)
    class_ids, counts = np.unique(labels, return_counts=True)
    if not len(class_ids):
        raise invalid("labels", received="no examples", expected="at least one example of every class")
    if not np.array_equal(class_ids, np.arange(len(class_ids))):
        raise invalid(
            "labels",
            received=f"{len(class_ids)} classes between {class_ids[0]} and {class_ids[-1]}",
            expected="every label from 0 to one less than the number of classes",
            fix="Examples.select_classes relabels them.",
        )
    generator = np.random.default_rng(seed)
    members = np.split(np.argsort(labels, kind="stable"), np.cumsum(counts)[:-1])
    return np.stack([_draw(generator, own, pool_size) for own in members])


class ClassPools:
    """Draws and embeds the pools of all classes for a projection problem.

    The pools are a pure function of seed and problem. Images are augmented as in training, because the next proxies
    represent the network's training inputs (thesis section 3.2.3). They are read and embedded in batches; only the
    embeddings are kept, `classes · pool_size · dim` floats.

    Args:
        embed: from batches of inputs to embeddings `[inputs, dim]`, normalised as the loss compares them;
            `EmbeddingModel.embed`.
        examples: the training examples, labelled 0 .. classes-1.
        augmentation: the training augmentation; `NoAugmentation()` for none.
        pool_size: b, images of each class (thesis: 12 for 8 proxies, 7 for 4).
        num_representatives: proxies of each class.
        seed: non-negative.
        batch_size: images embedded at once.

    Raises:
        InvalidInput: a pool smaller than the number of proxies, or labels with gaps.

    Examples:
        >>> pools = ClassPools(model.embed, examples, NoAugmentation(), pool_size=12, num_representatives=8, seed=0)
        >>> pools(problem=0).shape
        (75, 12, 128)
    """

    def __init__(
        self,
        embed: Callable[[Iterable], np.ndarray],
        examples: Examples,
        augmentation: ImageTransform,
        pool_size: int,
        num_representatives: int,
        seed: int,
        batch_size: int = 128,
    ) -> None:
        self.embed, self.examples, self.augmentation = embed, examples, augmentation
        self.pool_size, self.num_representatives = pool_size, num_representatives
        self.seed = seed
        self.batch_size = check_positive("batch_size", batch_size)
        _check_pool_size(pool_size, num_representatives)

    def indices(self, problem: int) -> np.ndarray:
        """Return the indices `[classes, pool]` of the examples in a problem's pools."""
        seed = (self.seed, problem, 0, _DRAWING_STREAM)
        return sample_pools(self.examples.labels, self.pool_size, self.num_representatives, seed)

    def examples_at(self, problem: int, positions: np.ndarray) -> np.ndarray:
        """Return the indices `[classes, representatives]` of examples at pool positions (see `Representatives`)."""
        return np.take_along_axis(self.indices(problem), positions, axis=1)

    def __call__(self, problem: int) -> np.ndarray:
        """Embed a problem's pools with the present weights: float32 `[classes, pool, dim]`."""
        indices = self.indices(problem)
        batches = _IndexBatches(indices.ravel(), self.batch_size, problem)
        seed = int(np.random.SeedSequence((self.seed, _AUGMENTATION_STREAM)).generate_state(1)[0])
        inputs = training_batches(self.examples, batches, self.augmentation, seed).map(_inputs_alone)
        bar = progress_bar(inputs, total=batches.batches_per_epoch, desc="class pools", unit="batch", leave=False)
        embeddings = self.embed(bar)
        return np.asarray(embeddings, np.float32)[: indices.size].reshape(*indices.shape, -1)


class _IndexBatches:
    """Given indices once, in the form of `ClassBalancedBatches`.

    Repeats the last index to fill the last batch.
    """

    def __init__(self, indices: np.ndarray, batch_size: int, epoch: int) -> None:
        self.batch_size = min(batch_size, len(indices))
        padding = -len(indices) % self.batch_size
        self._batches = np.pad(indices, (0, padding), mode="edge").reshape(-1, self.batch_size)
        self._epoch = epoch
        self.batches_per_epoch = len(self._batches)

    def from_step(self, step: int) -> Iterator[tuple[int, np.ndarray]]:
        for indices in self._batches[step:]:
            yield self._epoch, indices


def _draw(generator: np.random.Generator, members: np.ndarray, pool_size: int) -> np.ndarray:
    num_rounds = -(-pool_size // len(members))
    return np.concatenate([generator.permutation(members) for _ in range(num_rounds)])[:pool_size]


def _check_pool_size(pool_size: int, num_representatives: int) -> None:
    check_positive("proxies_per_class", num_representatives)
    if pool_size < num_representatives:
        raise invalid(
            "pool_size",
            received=pool_size,
            expected=f"at least the number of proxies of a class, {num_representatives}",
            fix="Enlarge the pool or train fewer proxies; equality means random sampling.",
        )


def _inputs_alone(inputs: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
    del labels
    return inputs
