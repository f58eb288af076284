"""Reference sets that a batch of embeddings is compared with."""

from __future__ import annotations

from typing import NamedTuple

import tensorflow as tf


class Pairs(NamedTuple):
    """Pairs of a batch and references that a loss considers, whatever their labels."""

    positive: tf.Tensor  # bool [batch, references]
    negative: tf.Tensor  # bool [batch, references]


class References(NamedTuple):
    """A labelled set of vectors that a metric loss compares a batch with.

    The queue of a cross-batch memory, class proxies and chosen representatives of the classes are all such sets; so is
    the batch itself with the pairs that a miner has picked out.
    """

    embeddings: tf.Tensor  # floats [references, dim], not normalised
    labels: tf.Tensor  # integers [references], or bools [references, classes] of several labels
    valid: tf.Tensor | None = None  # bool [references]: the rows that take part; None: all of them
    pairs: Pairs | None = None  # the pairs that take part; None: all of valid rows, positive where labels are equal
