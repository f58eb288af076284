"""Parallel, prefetched and bit-reproducible batches of inputs from index batches."""

from __future__ import annotations

import dataclasses
import itertools
import re
import threading
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from common.data.batches import TrainingBatches
from common.data.dataset import Examples
from common.data.fixed_views import view_numbers
from common.data.image_files import decode_image
from common.data.image_formats import Reading
from common.data.images import ImageTransform
from common.errors import InvalidInput, check_non_negative, check_positive, invalid

_CALLS_PER_THREAD = 8
_BLOCK_BYTES, _BLOCK_STEPS = 4_000_000, 16  # of batches in memory that are transformed at once


def training_batches(
    examples: Examples,
    batches: TrainingBatches,
    augmentation: ImageTransform,
    seed: int,
    start_step: int = 0,
    num_threads: int | None = None,
    with_places: bool = False,
) -> tf.data.Dataset:
    """Return endless training batches, a pure function of examples, index batches, seed and step.

    A batch resumed at `start_step` equals bit for bit that of an uninterrupted run, for any number of threads.

    Args:
        examples: in memory or as files; with `view_seeds`, each is seen in these views alone.
        batches: index batches over `examples`.
        augmentation: applied with the seed pair that `example_seeds` gives to the example.
        seed: of the augmentation, non-negative.
        start_step: training step (from 0) of the first batch.
        num_threads: that decode and augment; None leaves the number to `tf.data`.
        with_places: labels also say which example each is.

    Returns:
        Pairs of inputs `[batch, height, width, channels]` (or tokens `[batch, tokens]`), as uint8 (int32) wherever the
        augmentation keeps integers, and labels `[batch]` int64, or bools `[batch, classes]` if the examples have
        `label_sets`; with `with_places`, rows of label and place among `examples` `[batch, 2]`.

    Raises:
        InvalidInput: `with_places` and `label_sets`.
    """
    check_non_negative("seed", seed)
    check_non_negative("start_step", start_step)
    content = _content(examples, augmentation)
    labels_of = examples.labels if examples.label_sets is None else examples.label_sets
    if with_places:
        if examples.label_sets is not None:
            raise invalid("with_places", received="examples with several labels", expected="one label each")
        labels_of = np.stack([labels_of, np.arange(len(examples))], axis=1)

    def draws() -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        for step, (epoch, indices) in enumerate(batches.from_step(start_step), start_step):
            seeds = example_seeds(seed, epoch, step % batches.batches_per_epoch, len(indices))
            if examples.view_seeds is not None:
                views = examples.view_seeds[indices]  # [batch, views, 2]
                seeds = views[np.arange(len(views)), view_numbers(seeds, views.shape[1])]
            yield content.taken(indices), seeds, labels_of[indices]

    size = batches.batch_size
    signature = (
        content.spec(size),
        tf.TensorSpec([size, 2], tf.int32),
        tf.TensorSpec([size, *labels_of.shape[1:]], tf.as_dtype(labels_of.dtype)),
    )
    num_steps = content.steps_at_once(augmentation, size)
    drawn = _dataset_of(draws, signature, num_steps)
    inputs = _transformed(drawn, content, augmentation, size, num_threads, examples.reading)
    if num_steps > 1:
        inputs = inputs.rebatch(size, drop_remainder=True)
    return _deterministic(inputs, num_threads)


def evaluation_batches(
    examples: Examples, preprocessing: ImageTransform, batch_size: int, num_threads: int | None = None
) -> tf.data.Dataset:
    """Return all inputs once, in order, without labels; the last batch may be smaller.

    Args:
        examples: in memory or as files.
        preprocessing: an `ImageTransform` without randomness, such as `CenterCrop(size)` or `Identity()`.
        batch_size: inputs in a batch.
        num_threads: that decode and transform; None leaves the number to `tf.data`.

    Returns:
        Inputs `[batch, height, width, channels]` (or tokens `[batch, tokens]`).
    """
    indices = np.arange(len(examples))
    return view_batches(examples, preprocessing, batch_size, indices, np.zeros((len(indices), 2)), num_threads)


def view_batches(
    examples: Examples,
    transform: ImageTransform,
    batch_size: int,
    indices: np.ndarray,
    seeds: np.ndarray,
    num_threads: int | None = None,
) -> tf.data.Dataset:
    """Return inputs of given examples and seed pairs, in order, without labels.

    Args:
        examples: in memory or as files.
        transform: an augmentation, or a preprocessing without randomness.
        batch_size: inputs in a batch.
        indices: `[inputs]` places among the examples; an example may come several times.
        seeds: `[inputs, 2]` int32, of the augmentation.
        num_threads: that decode and transform; None leaves the number to `tf.data`.

    Returns:
        Inputs `[batch, height, width, channels]` (or tokens `[batch, tokens]`).
    """
    check_positive("batch_size", batch_size)
    content = _content(examples, transform)
    seeds = np.asarray(seeds, np.int32)

    def draws() -> Iterator[tuple[np.ndarray, np.ndarray]]:
        for start in range(0, len(indices), batch_size):
            part = slice(start, start + batch_size)
            yield content.taken(indices[part]), seeds[part]

    signature = (content.spec(None), tf.TensorSpec([None, 2], tf.int32))
    drawn = tf.data.Dataset.from_generator(draws, output_signature=signature)
    inputs = _transformed(drawn, content, transform, batch_size, num_threads, examples.reading)
    num_batches = -(-len(indices) // batch_size)
    return _deterministic(inputs, num_threads).apply(tf.data.experimental.assert_cardinality(num_batches))


def example_seeds(seed: int, epoch: int, batch: int, batch_size: int) -> np.ndarray:
    """Return a batch's seed pairs `[batch_size, 2]` int32, by seed, epoch and place.

    They follow the place in the epoch rather than the example, so an example drawn twice in an epoch has two views.
    """
    generator = np.random.default_rng((seed, epoch, batch))
    return generator.integers(0, 2**31 - 1, size=(batch_size, 2), dtype=np.int32)


def invalid_input_behind(error: Exception) -> InvalidInput | None:
    """Return the `InvalidInput` that names the file, out of an error by `tf.data`.

    TensorFlow passes an exception on as text. This recovers it, so that a command can show one helpful line.

    Returns:
        The error to raise instead, or None if a file was not the cause.
    """
    text = str(error)
    unreadable = re.search(r"InvalidInput: (Invalid image file: [^\n]*)", text)
    if unreadable:
        return InvalidInput(unreadable.group(1))
    missing = re.search(r"([^\s;}]+[^;}]*); (No such file or directory|Permission denied|Is a directory)", text)
    if missing and isinstance(error, tf.errors.OpError):
        return invalid(
            "image file",
            received=missing.group(1),
            expected=f"a file that can be read ({missing.group(2)})",
            fix="Fetch or extract the data set again.",
        )
    return None


class _Content(NamedTuple):
    """Inputs in memory or files: how to take a batch, and decode one."""

    taken: Callable[[np.ndarray], np.ndarray]  # from indices `[batch]` to what TensorFlow receives
    shape: tuple[int, ...]  # of one input there
    dtype: tf.DType
    transformed: Callable[[tf.Tensor, ImageTransform, tf.Tensor, Reading], tf.Tensor]  # by its seed pair

    def spec(self, batch_size: int | None) -> tf.TensorSpec:
        """Return the type of a batch."""
        return tf.TensorSpec([batch_size, *self.shape], self.dtype)

    def steps_at_once(self, transform: ImageTransform, batch_size: int) -> int:
        """Return how many batches to transform together; calls outlast work on small images."""
        if not (isinstance(transform, ImageTransform) and transform.works_on_batches):
            return 1
        bytes_of_batch = batch_size * int(np.prod(self.shape)) * self.dtype.size
        return max(1, min(_BLOCK_STEPS, _BLOCK_BYTES // max(bytes_of_batch, 1)))


def _content(examples: Examples, transform: ImageTransform) -> _Content:
    paths = examples.paths
    if paths is None:
        arrays = examples.arrays
        return _Content(arrays.__getitem__, arrays.shape[1:], tf.as_dtype(arrays.dtype), _of_array)
    if transform.output_size is None:
        raise invalid(
            "transformation of image files",
            received=transform,
            expected="one with a fixed output size",
            fix="Files differ in size: use CenterCrop, ThesisCrop or PublishedCodeCrop.",
        )
    return _Content(lambda indices: paths[indices].as_bytes(), (), tf.string, _of_path)


def _of_array(array: tf.Tensor, transform: ImageTransform, seed: tf.Tensor, reading: Reading) -> tf.Tensor:
    del reading
    return transform(array, seed)


def _of_path(path: tf.Tensor, transform: ImageTransform, seed: tf.Tensor, reading: Reading) -> tf.Tensor:
    return decode_image(tf.io.read_file(path), path, transform, seed, reading)


def _of_named_contents(named: tf.Tensor, transform: ImageTransform, seed: tf.Tensor, reading: Reading) -> tf.Tensor:
    return decode_image(named[1], named[0], transform, seed, reading)


def _dataset_of(
    draws: Callable[[], Iterator[tuple[np.ndarray, ...]]], signature: tuple[tf.TensorSpec, ...], num_steps: int
) -> tf.data.Dataset:
    """Return a dataset of draws: batches, or `num_steps` batches concatenated."""
    if num_steps == 1:
        return tf.data.Dataset.from_generator(draws, output_signature=signature)

    def joined() -> Iterator[tuple[np.ndarray, ...]]:
        steps = draws()
        while block := list(itertools.islice(steps, num_steps)):
            yield tuple(map(np.concatenate, zip(*block)))

    rows = tuple(tf.TensorSpec([None, *spec.shape[1:]], spec.dtype) for spec in signature)
    return tf.data.Dataset.from_generator(joined, output_signature=rows)


class _Transforms(threading.local):
    """Transformations of examples, traced once in a thread and not by each pipeline.

    Tracing one takes tenths of a second, and a training makes a pipeline for each of its evaluations. A trace holds
    calls of Python that TensorFlow keeps for as long as the graph lives that was the default one: another graph (after
    `clear_session`) is a fresh start.
    """

    def __init__(self) -> None:
        self._graph: tf.Graph | None = None
        self._traced: dict[tuple, tf.types.experimental.GenericFunction] = {}

    def of(
        self,
        transformed: Callable[[tf.Tensor, ImageTransform, tf.Tensor, Reading], tf.Tensor],
        transform: ImageTransform,
        reading: Reading,
        signature: tuple[tf.TensorSpec, tf.TensorSpec],
    ) -> Callable[[tf.Tensor, tf.Tensor], tf.Tensor]:
        """Return the function from inputs and seed pairs to transformed inputs.

        An input is a path, a name with contents, an array, or a batch of arrays. Callers trace a changeable
        transformation.
        """

        def function(inputs: tf.Tensor, seeds: tf.Tensor) -> tf.Tensor:
            return transformed(inputs, transform, seeds, reading)

        if not (dataclasses.is_dataclass(transform) and transform.__dataclass_params__.frozen):
            return function
        graph = tf.compat.v1.get_default_graph()
        if graph is not self._graph:
            self._graph, self._traced = graph, {}
        key = (transform, transformed, reading)
        traced = self._traced.setdefault(key, tf.function(function, autograph=False))
        # It looks itself up by the device and the strategy that are in scope. The trace stays a graph where functions
        # run eagerly, as what `tf.data` calls does.
        return traced.get_concrete_function(*signature)


_TRANSFORMS = _Transforms()


def images_of_files(
    files: Callable[[], Iterator[bytes | np.ndarray]],
    are_named_contents: bool,
    transform: ImageTransform,
    reading: Reading,
) -> tf.data.Dataset:
    """Read and transform image files in their order.

    Args:
        files: makes an iterator over paths, or over arrays of a name, for errors, and the contents of a file.
        are_named_contents: which of the two.
        transform: of evaluation, of a fixed output size.
        reading: of the files.

    Returns:
        uint8 images `[size, size, 3]`
    """
    transformed, shape = (_of_named_contents, [2]) if are_named_contents else (_of_path, [])
    spec = tf.TensorSpec(shape, tf.string)
    traced = _TRANSFORMS.of(transformed, transform, reading, (spec, tf.TensorSpec([2], tf.int32)))
    plain = tf.autograph.experimental.do_not_convert(lambda file: traced(file, tf.zeros([2], tf.int32)))
    return tf.data.Dataset.from_generator(files, output_signature=spec).map(plain, num_parallel_calls=tf.data.AUTOTUNE)


def _transformed(
    drawn: tf.data.Dataset,
    content: _Content,
    transform: ImageTransform,
    batch_size: int,
    num_threads: int | None,
    reading: Reading,
) -> tf.data.Dataset:
    """Transform the content of (content, seed pairs, perhaps labels); drop the seeds."""
    at_once = content.dtype != tf.string and transform.works_on_batches
    elements = drawn if at_once else drawn.unbatch()
    traced = _TRANSFORMS.of(content.transformed, transform, reading, elements.element_spec[:2])

    def mapped(inputs: tf.Tensor, seeds: tf.Tensor, *labels: tf.Tensor) -> tf.Tensor | tuple[tf.Tensor, ...]:
        pixels = traced(inputs, seeds)
        return (pixels, *labels) if labels else pixels

    # AutoGraph would read and rewrite the source of everything that is called, some seconds, and find nothing to do.
    plain = tf.autograph.experimental.do_not_convert(mapped)
    transformed = elements.map(plain, num_parallel_calls=_parallel_calls(num_threads))
    # Batches of a training are complete, and of a size that is known.
    complete = drawn.element_spec[0].shape[0] is not None
    return transformed if at_once else transformed.batch(batch_size, drop_remainder=complete)


def _parallel_calls(num_threads: int | None) -> int:
    # More calls than threads: in order, a slow image would otherwise leave the other threads without work.
    return tf.data.AUTOTUNE if num_threads is None else _CALLS_PER_THREAD * num_threads


def _deterministic(dataset: tf.data.Dataset, num_threads: int | None) -> tf.data.Dataset:
    options = tf.data.Options()
    options.deterministic = True
    options.threading.max_intra_op_parallelism = 1  # threads work on different images, not on parts of one
    if num_threads is not None:
        options.threading.private_threadpool_size = num_threads
    return dataset.with_options(options).prefetch(tf.data.AUTOTUNE)
