"""Training from cached activations: a data set of their rows, and the model above."""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
import os
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import tensorflow as tf
from tensorflow import keras
from tqdm import tqdm

from common.backbones.cut_network import CutNetwork
from common.data import Dataset, Examples, ImageTransform, InputReaders, parts_of, view_batches, view_numbers
from common.errors import invalid
from common.progress import progress_bar, write_notice
from common.training.embedding_model import EmbeddingModel
from common.training.feature_store import FeatureStore, check_room

_ADVICE = (
    "Give another --cache_dir, fewer --views or a smaller --image_size, cut higher up (--trained_from), or compute the "
    "features at every step (--nocached_features)."
)


class CachedFeatures(NamedTuple):
    """The data set and activations that a run from cached features uses.

    Attributes:
        dataset: the data set, whose examples are rows of the stores.
        training: `[training examples, views, height, width, channels]`.
        evaluation: `[all examples, 1, height, width, channels]`, part after part.
    """

    dataset: Dataset
    training: FeatureStore
    evaluation: FeatureStore


class StoredInputs:
    """A reader of stored activations, in place of an `ImageTransform`.

    A training input is one of the views.

    Args:
        store: complete and open.

    Input: rows `[batch]` and seed pairs `[batch, 2]`, which decide the view (`view_numbers`).
    Output: float16 `[batch, height, width, channels]`.
    """

    works_on_batches, output_size = True, None

    def __init__(self, store: FeatureStore) -> None:
        self.store = store

    def __call__(self, rows: tf.Tensor, seeds: tf.Tensor) -> tf.Tensor:
        values = tf.numpy_function(self._read, [rows, seeds], tf.float16, stateful=False)
        return tf.ensure_shape(values, [rows.shape[0], *self.store.item_shape[1:]])

    def _read(self, rows: np.ndarray, seeds: np.ndarray) -> np.ndarray:
        return self.store.read(rows, view_numbers(seeds, self.store.num_views))


def cache_features(
    dataset: Dataset,
    network: keras.Model,
    augmentation: ImageTransform,
    preprocessing: ImageTransform,
    folder: str | os.PathLike,
    origin: dict,
    batch_size: int = 64,
) -> CachedFeatures:
    """Compute missing activations of all images; return a data set of rows.

    Training images have the views of `fixed_views`, and all images the evaluation's view. Activations are those
    of inference mode, and no gradient goes through them.

    Args:
        dataset: images; the training part has `view_seeds`.
        network: images `[batch, height, width, channels]` to activations at the cut; `CutNetwork.lower`.
        augmentation: of the views.
        preprocessing: of the evaluation's view, without randomness.
        folder: for the stores of this data set, of one fingerprint only (see `dataset_fingerprint`).
        origin: other inputs of the activations (the data's fingerprint, the network's name, the cut), JSON values.
        batch_size: images in a pass through the network.

    Raises:
        InvalidInput: no views, too little room on the disk (checked before any computation), an unwritable
            folder, or activations that float16 cannot hold.
    """
    views = dataset.train.view_seeds
    if views is None:
        raise invalid(
            "data set", received="no view_seeds", expected="training examples with some", fix="Use fixed_views."
        )
    inference = _inference(network)  # nothing is traced if all activations exist
    first_images = next(iter(view_batches(dataset.train, preprocessing, 1, np.zeros(1, int), np.zeros((1, 2)))))
    shape = tuple(map(int, network.compute_output_shape(tuple(first_images.shape))[1:]))
    origin = {**origin, "network": network_digest(network)}
    parts = [examples for _, examples in parts_of(dataset)]
    seen = {"transform": repr(augmentation), "views": hashlib.sha256(views.tobytes()).hexdigest()}
    training = FeatureStore(folder, {**origin, **seen}, len(views), (views.shape[1], *shape))
    origin = {**origin, "transform": repr(preprocessing), "parts": [name for name, _ in parts_of(dataset)]}
    evaluation = FeatureStore(folder, origin, sum(map(len, parts)), (1, *shape))
    needed = check_room([training, evaluation], _ADVICE)
    if needed:
        what = f"{needed / 1e6:,.0f} MB of features are written to {os.fspath(folder)}"
        write_notice(f"{what} (python -m experiments.clean --cache removes them)")
    jobs = (
        (training, [dataset.train], augmentation, views, "features of the training views"),
        (evaluation, parts, preprocessing, np.zeros((evaluation.num_items, 1, 2), np.int32), "features of all images"),
    )
    for store, examples, transform, seeds, description in jobs:
        with store.filling():
            missing = store.missing()
            items = np.array([item for number in missing for item in store.items_of(number)], np.int64)
            images = _images_of(examples, transform, items, seeds, batch_size)
            if missing:
                with progress_bar(total=len(items) * store.num_views, desc=description, unit="view") as bar:
                    store.fill(missing, _activations(images, inference, bar))
        store.open()
    return CachedFeatures(_rows(dataset, training, evaluation), training, evaluation)


def model_above_cut(model: EmbeddingModel) -> EmbeddingModel:
    """Return the model's part above the cut, sharing head, losses and network.

    Args:
        model: built, on a `CutNetwork`.

    Returns:
        A model from activations `[batch, height, width, channels]` to embeddings. Training it trains `model`, except
        below the cut.
    """
    if not isinstance(model.backbone, CutNetwork):
        raise invalid("backbone", received=type(model.backbone).__name__, expected="a CutNetwork")
    above = EmbeddingModel(
        model.backbone.upper,
        model.head,
        model.metric_loss,
        normalization=model.normalization,
        attribute_loss=model.attribute_loss,
        attribute_weight=model.attribute_weight,
        feature_sizes=model.feature_sizes,
        num_views=model.num_views,
        perturbations=model.perturbations,
    )
    if model.folds_batch_norm:
        above.fold_batch_norm()
    return above


def network_digest(network: keras.Model) -> str:
    """Return a digest of a network's layers (kind, shape, order) and weights."""
    digest = hashlib.sha256()
    for layer in network.layers:
        outputs = layer.output if isinstance(layer.output, (list, tuple)) else [layer.output]
        digest.update(repr((type(layer).__name__, [tuple(tensor.shape) for tensor in outputs])).encode())
        for weight in layer.get_weights():
            digest.update(repr((weight.shape, weight.dtype.str)).encode() + np.ascontiguousarray(weight).tobytes())
    return digest.hexdigest()


def _inference(network: keras.Model) -> Callable[[tf.Tensor], tf.Tensor]:
    @tf.function(reduce_retracing=True, autograph=False)
    def activations(images: tf.Tensor) -> tf.Tensor:
        return network(images, training=False)

    return activations


def _images_of(
    parts: list[Examples], transform: ImageTransform, items: np.ndarray, seeds: np.ndarray, batch_size: int
) -> Iterator[tf.Tensor]:
    """Yield images of all views of items, numbered part after part.

    `seeds` is `[items, views, 2]`.
    """
    ends = np.cumsum([len(part) for part in parts])
    for part, start, end in zip(parts, [0, *ends], ends):
        chosen = items[(items >= start) & (items < end)]
        if len(chosen):
            indices = np.repeat(chosen - start, seeds.shape[1])
            yield from view_batches(part, transform, batch_size, indices, seeds[chosen].reshape(-1, 2))


def _activations(
    images: Iterator[tf.Tensor], inference: Callable[[tf.Tensor], tf.Tensor], bar: tqdm
) -> Iterator[np.ndarray]:
    for batch in images:
        activations = inference(batch).numpy()
        bar.update(len(batch))
        yield activations


def _rows(dataset: Dataset, training: FeatureStore, evaluation: FeatureStore) -> Dataset:
    parts = parts_of(dataset)
    starts = itertools.accumulate((len(examples) for _, examples in parts), initial=0)
    rows = {
        name: dataclasses.replace(
            examples, inputs=start + np.arange(len(examples)), paths=None, boxes=None, view_seeds=None
        )
        for (name, examples), start in zip(parts, starts)
    }
    readers = InputReaders(StoredInputs(training), StoredInputs(evaluation))
    return dataclasses.replace(
        dataset,
        train=rows["train"],
        test=rows["test"],
        gallery=rows.get("gallery"),
        validation=rows.get("validation"),
        kind="cached_features",
        readers=readers,
    )
