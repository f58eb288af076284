"""A deployed model for the page: a photo's embedding and pooling attention."""

from __future__ import annotations

from collections.abc import Callable
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
    """A deployed model of images, asked for one photo at a time."""

    def __init__(self, embedder: Embedder) -> None:
        if embedder.image_size is None:
            raise invalid("--model", received="a model of tokens", expected="a model of images")
        self._embedder = embedder
        network = embedder.model.get_layer(NETWORK)
        parts = _parts_with_attention(network)
        # One size of image, so one graph each: memory does not grow with the number of photos.
        self._embed = _compiled(lambda images: network(images, training=False))
        self._weights = None if parts is None else _compiled(lambda images: _weights(parts, images))

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
        return np.asarray(self._embed(self._embedder.prepare(photo)[None]), np.float32)

    def attention_of(self, photo: np.ndarray) -> Attention | None:
        """Compute attention over a photo `[height, width, 3]`, uint8, or None."""
        if self._weights is None:
            return None
        seen = self._embedder.prepare(photo)
        weights, map_shape = self._weights(seen[None])
        relative = np.asarray(weights[0], np.float64) * weights.shape[1]
        return Attention(relative.reshape(np.asarray(map_shape)), np.asarray(seen))


def _compiled(function: Callable[[tf.Tensor], Any]) -> Callable[[tf.Tensor], Any]:
    return tf.function(function, reduce_retracing=True, autograph=False)


def _weights(parts: _Parts, images: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Return weights `[batch, positions]`, and the map's rows and columns."""
    features, map_shape = pooled_features(parts, images)
    return parts.head.pooling.spatial_weights(features), tf.constant(map_shape)


def _parts_with_attention(network: keras.Model) -> _Parts | None:
    head = next((layer for layer in network.layers if isinstance(layer, EmbeddingHead)), None)
    backbone = next((layer for layer in network.layers if isinstance(layer, keras.Model)), None)
    if head is None or backbone is None or not isinstance(head.pooling, GeneralizedSumPooling):
        return None
    return _Parts(backbone, head) if bool(head.pooling.has_prototypes()) else None
