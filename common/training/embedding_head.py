"""The head from feature maps to embeddings: pooling and linear projection, either first."""

from __future__ import annotations

import tensorflow as tf
from tensorflow import keras

from common.errors import check_positive, invalid
from common.ops.shapes import InputShape
from common.parameters import LayerArguments, Unpack, checked


@keras.utils.register_keras_serializable(package="deep_metric_learning")
class EmbeddingHead(keras.layers.Layer):
    """Pools local features and projects them linearly.

    `project_first=False`: pool, then `Dense(embedding_dim)`. `project_first=True`: a 1 x 1 convolution to
    `embedding_dim` channels, then the pooling. Generalised sum pooling needs the latter (its prototypes live in the
    embedding space). For average pooling both are the same function. Without `embedding_dim`, the pooled features are
    the embedding.

    Reference: thesis section 5.2.4 (1 x 1 convolution before pooling); no bias, Glorot uniform as in its code; section
    5.3.1 (no projection). A bias serves a projection in closed form, which removes the mean (`principal_components`).

    Args:
        pooling: a pooling layer, from `[batch, height, width, channels]` (or `[batch, positions, channels]`) to
            `[batch, channels]`, or to a dictionary with `pooled` and `attributes`.
        embedding_dim: the size of the embedding, > 0; None for that of the pooled features.
        project_first: whether the projection precedes the pooling.
        use_bias: whether the projection adds a vector; it starts at 0.
        gives_features: whether the output also has the pooled `projected_features`, as `SelfDistillationLoss` needs.

    Input shape:
        `[batch, height, width, channels]` or `[batch, positions, channels]`.

    Output shape:
        A dictionary: `embeddings` `[batch, embedding_dim]` and, if the pooling returns them, `attributes`
        `[batch, prototypes]`; with `gives_features` also `projected_features` `[batch, channels]`.
    """

    @checked
    def __init__(
        self,
        pooling: keras.layers.Layer,
        embedding_dim: int | None,
        *,
        project_first: bool = False,
        use_bias: bool = False,
        gives_features: bool = False,
        **kwargs: Unpack[LayerArguments],
    ) -> None:
        super().__init__(**kwargs)
        self.pooling = pooling
        self.embedding_dim, self.project_first, self.use_bias = embedding_dim, project_first, use_bias
        self.gives_features = gives_features
        if gives_features and (project_first or embedding_dim is None):
            raise invalid("gives_features", received=True, expected="False without a projection of the pooled features")
        self.projection: keras.layers.Dense | None = None
        if embedding_dim is not None:
            check_positive("embedding_dim", embedding_dim)
            options = {"dtype": self.dtype_policy, "name": "projection"}  # not the policy of where a file is read
            self.projection = keras.layers.Dense(embedding_dim, use_bias=use_bias, **options)
        elif project_first:
            raise invalid("project_first", received=True, expected="False, where there is no projection")
        elif use_bias:
            raise invalid("use_bias", received=True, expected="False, where there is no projection")

    def build(self, input_shape: InputShape) -> None:
        if self.projection is not None:
            self.projection.build((None, input_shape[-1]))
        if not self.pooling.built:
            pooled_shape = (*input_shape[:-1], self.embedding_dim) if self.project_first else input_shape
            self.pooling.build(pooled_shape)
        super().build(input_shape)

    def call(self, features: tf.Tensor, training: bool | None = None) -> dict[str, tf.Tensor]:
        if self.projection is not None and self.project_first:
            features = self.projection(features)
        pooled = self.pooling(features, training=training and self.trainable)
        outputs = dict(pooled) if isinstance(pooled, dict) else {"pooled": pooled}
        embeddings = outputs.pop("pooled")
        if self.gives_features:
            outputs["projected_features"] = embeddings
        if self.projection is not None and not self.project_first:
            embeddings = self.projection(embeddings)
        return {"embeddings": embeddings, **outputs}

    def get_config(self) -> dict:
        return {
            **super().get_config(),
            "pooling": keras.layers.serialize(self.pooling),
            "embedding_dim": self.embedding_dim,
            "project_first": self.project_first,
            # older versions read the other heads
            **{name: True for name in ("use_bias", "gives_features") if getattr(self, name)},
        }

    @classmethod
    def from_config(cls, config: dict) -> EmbeddingHead:
        config = dict(config)
        config["pooling"] = keras.layers.deserialize(config["pooling"])
        return cls(**config)
