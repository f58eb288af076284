"""Class proxies: trainable vectors that represent their classes."""

from __future__ import annotations

import tensorflow as tf
from tensorflow import keras

from common.errors import invalid
from common.ops.pair_masks import check_class_ids
from common.parameters import Count, LayerArguments, Unpack, checked
from common.references.reference_set import References

PROXY_INITIALIZERS = ("he_normal", "he_normal_over_proxies")


@keras.utils.register_keras_serializable(package="deep_metric_learning")
class ProxyBank(keras.layers.Layer):
    """Proxies of each class as a reference set.

    Row `class * proxies_per_class + k` of the weight `proxies` is the k-th proxy of the class. Proxies are stored as
    they are trained; the loss normalises them like embeddings.

    The standard deviation of the initial components is `sqrt(2 / dim)`; the thesis leaves it open. The published code
    has `sqrt(2 / number of proxies)` (.16 for 75 of them, .015 for 8,488): `"he_normal_over_proxies"`.

    Args:
        num_classes: number of classes, their labels being 0..num_classes-1.
        proxies_per_class: number of proxies of each class.
        embedding_dim: number of components of an embedding.
        initializer: one of `PROXY_INITIALIZERS`, or a Keras initializer of the shape `[proxies, embedding_dim]` (which
            also takes a seed).
        proxy_regularizer: of the weight `proxies`, as in any Keras layer; what it gives is among the layer's `losses`.
        proxy_constraint: of the weight `proxies`, which Keras' optimisers apply after each update.

    Examples:
        >>> bank = ProxyBank(num_classes=100, proxies_per_class=1, embedding_dim=128)
        >>> loss = ContrastiveLoss()(embeddings, labels, bank.references())
    """

    @checked
    def __init__(
        self,
        num_classes: Count,
        proxies_per_class: Count,
        embedding_dim: Count,
        *,
        initializer: str | dict | keras.initializers.Initializer = "he_normal",
        proxy_regularizer: str | dict | keras.regularizers.Regularizer | None = None,
        proxy_constraint: str | dict | keras.constraints.Constraint | None = None,
        **kwargs: Unpack[LayerArguments],
    ) -> None:
        super().__init__(**kwargs)
        self.num_classes = int(num_classes)
        self.proxies_per_class = int(proxies_per_class)
        self.embedding_dim = int(embedding_dim)
        self.initializer = initializer
        self.proxy_regularizer = keras.regularizers.get(proxy_regularizer)
        self.proxy_constraint = keras.constraints.get(proxy_constraint)
        self.proxies = self.add_weight(
            name="proxies",
            shape=(num_classes * proxies_per_class, embedding_dim),
            initializer=proxy_initializer(initializer),
            regularizer=self.proxy_regularizer,
            constraint=self.proxy_constraint,
            trainable=True,
        )
        self.built = True  # the constructor makes all of the state

    def references(self) -> References:
        """Return the proxies `[num_classes * proxies_per_class, embedding_dim]` and labels, all valid."""
        return References(embeddings=tf.convert_to_tensor(self.proxies), labels=self.labels)

    @property
    def labels(self) -> tf.Tensor:
        """The class of each proxy, int64 `[num_classes * proxies_per_class]`."""
        return tf.repeat(tf.range(self.num_classes, dtype=tf.int64), self.proxies_per_class)

    def check_labels(self, labels: tf.Tensor) -> tf.Tensor:
        """Reject labels without a proxy, which the loss would silently ignore.

        Args:
            labels: integers, `[batch]`.

        Returns:
            Whether all have a proxy: a bool scalar, which XLA does not drop.

        Raises:
            tf.errors.InvalidArgumentError: a label is not in 0..num_classes-1 (not inside XLA).
        """
        return check_class_ids(labels, self.num_classes)

    def get_config(self) -> dict:
        """Return the constructor's arguments."""
        return {
            **super().get_config(),
            "num_classes": self.num_classes,
            "proxies_per_class": self.proxies_per_class,
            "embedding_dim": self.embedding_dim,
            "initializer": serialized_initializer(self.initializer),
            **self.terms_of_proxies(),
        }

    def terms_of_proxies(self) -> dict:
        """Return the regulariser and the constraint for `get_config`."""
        return {
            "proxy_regularizer": keras.regularizers.serialize(self.proxy_regularizer),
            "proxy_constraint": keras.constraints.serialize(self.proxy_constraint),
        }


def proxy_initializer(initializer: str | dict | keras.initializers.Initializer) -> keras.initializers.Initializer:
    """Return the initializer for a `PROXY_INITIALIZERS` name, serialized or object initializer.

    Raises:
        InvalidInput: the name is unknown.
    """
    # For the shape [proxies, dim], "out" is the dimension and "in" the number of proxies.
    if initializer == "he_normal":
        return keras.initializers.VarianceScaling(scale=2.0, mode="fan_out", distribution="truncated_normal")
    if initializer == "he_normal_over_proxies":
        return keras.initializers.VarianceScaling(scale=2.0, mode="fan_in", distribution="truncated_normal")
    try:
        return keras.initializers.get(initializer)
    except ValueError:
        expected = "one of " + ", ".join(PROXY_INITIALIZERS) + " or a Keras initializer"
        raise invalid("initializer", received=initializer, expected=expected) from None


def serialized_initializer(initializer: str | dict | keras.initializers.Initializer) -> str | dict:
    """Serialize an initializer for `proxy_initializer`: keep names, turn objects into dictionaries."""
    return initializer if isinstance(initializer, (str, dict)) else keras.initializers.serialize(initializer)
