"""A deployed model for the page: a photo's embedding and pooling attention."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
from PIL import Image
from tensorflow import keras

from common.data.image_formats import Reading
from common.deployment import Embedder
from common.deployment.deployable_model import NETWORK
from common.errors import invalid
from common.training import EmbeddingHead
from gsp_dml import GeneralizedSumPooling
from gsp_dml.attention_maps import as_rgb, attention_overlay
from gsp_dml.perplexity_callback import pooled_features
from photo_search.photos.shown import data_address

_MOST_TOGETHER = 32  # photos in a pass
_SHOWN_SIDE = 320  # pixels of the overlay, at least


class Attention(NamedTuple):
    """Pooling weights over a photo."""

    weights: np.ndarray  # `[rows, columns]`, as multiples of the weight that average pooling would give; mean 1
    seen: np.ndarray  # the network's view of the photo, `[size, size, channels]`, 0..255

    def overlay(self) -> str:
        """Return the photo under the weights' colours, as a JPEG data address."""
        seen = self.seen.astype(np.uint8)
        picture = Image.fromarray(seen[..., 0] if seen.shape[-1] == 1 else seen)
        side = max(_SHOWN_SIDE, picture.width)
        enlarged = np.asarray(picture.convert("RGB").resize((side, side), Image.Resampling.BILINEAR))
        colored = attention_overlay(as_rgb(enlarged), self.weights, self.weights.min(), self.weights.max())
        return data_address(Image.fromarray((255 * colored).round().astype(np.uint8)), quality=88)


@dataclass
class _Parts:
    """The parts of a network that know positions."""

    backbone: keras.Model
    head: EmbeddingHead


class PhotoNetwork:
    """A deployed model of images, asked for a photo by each of several threads."""

    def __init__(self, embedder: Embedder) -> None:
        if embedder.image_size is None:
            raise invalid("--model", received="a model of tokens", expected="a model of images")
        self._embedder = embedder
        network = embedder.model.get_layer(NETWORK)
        parts = _parts_with_attention(network)
        # One size of image, so one graph each: memory does not grow with the number of photos.
        images = tf.TensorSpec([None, embedder.image_size, embedder.image_size, embedder.channels], tf.float32)
        one_pass = threading.Lock()
        self._embed = _Passes(lambda images: network(images, training=False), images, one_pass)
        self._weights = None if parts is None else _Passes(lambda images: _weights(parts, images), images, one_pass)

    @property
    def has_attention(self) -> bool:
        """True if the model has generalized sum pooling with prototypes."""
        return self._weights is not None

    @property
    def reading(self) -> Reading:
        """The model's way of decoding files."""
        return self._embedder.reading

    def embedding_of(self, photo: np.ndarray) -> np.ndarray:
        """Embed a photo `[height, width, 3]`, uint8, as `Embedder.embed`: `[1, dim]`, float32."""
        return np.asarray(self._embed(self._embedder.prepare(photo))[None], np.float32)

    def attention_of(self, photo: np.ndarray) -> Attention | None:
        """Compute attention over a photo `[height, width, 3]`, uint8, or None."""
        if self._weights is None:
            return None
        seen = self._embedder.prepare(photo)
        weights = self._weights(seen).astype(np.float64)
        return Attention(weights * weights.size, np.asarray(seen))


class _Passes:
    """Takes all images that wait through a graph together, one pass after the other.

    Args:
        function: of images `[batch, size, size, channels]`, to an output for each.
        images: their specification.
        one_pass: shared by graphs that should not run at the same time.
    """

    def __init__(self, function: Callable[[tf.Tensor], tf.Tensor], images: tf.TensorSpec, one_pass: Any) -> None:  # noqa: ANN401
        self._function = tf.function(function, input_signature=[images], autograph=False)
        self._waiting: list[tuple[tf.Tensor, Future]] = []
        self._one_pass = one_pass

    def __call__(self, image: tf.Tensor) -> np.ndarray:
        """Return the output for an image, which others may have computed meanwhile."""
        mine: Future = Future()
        self._waiting.append((image, mine))
        with self._one_pass:
            while not mine.done():
                taken = self._waiting[:_MOST_TOGETHER]
                del self._waiting[: len(taken)]  # others only append
                try:
                    outputs = np.asarray(self._function(tf.stack([each for each, _ in taken])))
                except Exception as error:  # noqa: BLE001 (each thread raises it)
                    for _, future in taken:
                        future.set_exception(error)
                else:
                    for (_, future), output in zip(taken, outputs):
                        future.set_result(output)
        return mine.result()


def _weights(parts: _Parts, images: tf.Tensor) -> tf.Tensor:
    """Return weights `[batch, rows, columns]`."""
    features, map_shape = pooled_features(parts, images)
    return tf.reshape(parts.head.pooling.spatial_weights(features), [-1, *map_shape])


def _parts_with_attention(network: keras.Model) -> _Parts | None:
    head = next((layer for layer in network.layers if isinstance(layer, EmbeddingHead)), None)
    backbone = next((layer for layer in network.layers if isinstance(layer, keras.Model)), None)
    if head is None or backbone is None or not isinstance(head.pooling, GeneralizedSumPooling):
        return None
    return _Parts(backbone, head) if bool(head.pooling.has_prototypes()) else None
