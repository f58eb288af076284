"""Dropout and Gaussian noise in training, drawn by seed and step."""

from __future__ import annotations

import dataclasses

import tensorflow as tf


@dataclasses.dataclass(frozen=True)
class Perturbations:
    """Noise of images; dropout and noise of the backbone's channels, alike at all places.

    With average pooling the pooled features are perturbed in the same way. The draws are functions of seed and step, so
    that a resumed run repeats them.

    Reference: Milbich's dissertation, table 3.7.

    Attributes:
        image_noise: standard deviation, of pixels in 0..255.
        feature_dropout: share of the channels set to 0, in [0, 1); the others are divided by the rest.
        feature_noise: standard deviation.
        seed: of the draws.
    """

    image_noise: float = 0.0
    feature_dropout: float = 0.0
    feature_noise: float = 0.0
    seed: int = 0

    def of_images(self, images: tf.Tensor, step: tf.Tensor) -> tf.Tensor:
        """Return images `[batch, height, width, channels]`, float32 if noisy."""
        if not self.image_noise:
            return images
        noise = tf.random.stateless_normal(tf.shape(images), self._seed(step, 0), alg="philox")
        return tf.cast(images, tf.float32) + self.image_noise * noise

    def of_features(self, features: tf.Tensor, step: tf.Tensor) -> tf.Tensor:
        """Return perturbed features `[batch, ..., channels]`."""
        sizes = tf.shape(features)
        shape = tf.concat([sizes[:1], tf.ones_like(sizes[1:-1]), sizes[-1:]], axis=0)
        if self.feature_dropout:
            kept = tf.random.stateless_uniform(shape, self._seed(step, 1), alg="philox") >= self.feature_dropout
            features *= tf.cast(kept, features.dtype) / (1 - self.feature_dropout)
        if self.feature_noise:
            noise = tf.random.stateless_normal(shape, self._seed(step, 2), alg="philox")
            features += tf.cast(self.feature_noise * noise, features.dtype)
        return features

    def _seed(self, step: tf.Tensor, purpose: int) -> tf.Tensor:
        return tf.stack([tf.constant(3 * self.seed + purpose, tf.int64), tf.cast(step, tf.int64)])
