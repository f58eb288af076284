"""Pipelines for repeated evaluation, with decoded images within a memory budget."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from common.data.input_pipeline import evaluation_batches
from common.errors import check_non_negative

if TYPE_CHECKING:
    import tensorflow as tf

    from common.data.dataset import Examples
    from common.data.images import ImageTransform

MEGABYTE = 10**6


class EvaluationInputs:
    """`evaluation_batches` of any examples: each pipeline is built once.

    Args:
        preprocessing: an `ImageTransform` without randomness.
        batch_size: inputs in a batch.
        decoded_images_mb: MB (10^6 bytes) of decoded images that `repeated` may keep in memory in all; 0: none.
    """

    def __init__(self, preprocessing: ImageTransform, batch_size: int, decoded_images_mb: float = 0) -> None:
        self.preprocessing, self.batch_size = preprocessing, batch_size
        self._room = check_non_negative("decoded_images_mb", decoded_images_mb) * MEGABYTE
        self._built: dict[int, tuple[Examples, tf.data.Dataset]] = {}  # examples are kept, so that no id comes again
        self._kept: set[int] = set()

    def __call__(self, examples: Examples) -> tf.data.Dataset:
        """Return the inputs of examples, in order; they can be read repeatedly."""
        if id(examples) not in self._built:
            batches = evaluation_batches(examples, self.preprocessing, self.batch_size)
            self._built[id(examples)] = examples, batches
        return self._built[id(examples)][1]

    def repeated(self, examples: Examples) -> tf.data.Dataset:
        """Return inputs read from files once, if the decoded images fit.

        Decoded images are kept after one full reading. Those beyond the budget are decoded at each reading. The inputs
        are the same, bit for bit.
        """
        batches = self(examples)
        size = decoded_bytes(examples, batches)
        if id(examples) not in self._kept and size is not None and size <= self._room:
            self._room -= size
            self._kept.add(id(examples))
            self._built[id(examples)] = examples, batches.cache()
        return self._built[id(examples)][1]

    def release(self) -> None:
        """Free all pipelines and their decoded images."""
        self._built.clear()
        self._kept.clear()


def decoded_bytes(examples: Examples, batches: tf.data.Dataset) -> int | None:
    """Return the inputs' memory in bytes; None if in memory or memory-mapped."""
    if examples.paths is None:
        return None
    spec = batches.element_spec
    return len(examples) * math.prod(spec.shape[1:]) * spec.dtype.size
