"""Anchors, their references, and the masks of positive and negative pairs, for metric losses."""

from __future__ import annotations

import typing
from typing import NamedTuple

import tensorflow as tf

from common.errors import check_choice, invalid
from common.ops.normalization import normalize
from common.ops.pair_masks import batch_labels, pair_masks
from common.parameters import Anchors
from common.references.reference_set import References

ANCHORS: tuple[str, ...] = typing.get_args(Anchors)


class Comparison(NamedTuple):
    """Normalised anchors and references, and the pairs that they form."""

    anchors: tf.Tensor  # [anchors, dim]
    references: tf.Tensor  # [references, dim]
    positive: tf.Tensor  # bool [anchors, references]: that share a class, without self-pairs
    negative: tf.Tensor  # bool [anchors, references]: of different classes
    valid_anchors: tf.Tensor  # bool [anchors]
    anchor_labels: tf.Tensor  # int64 [anchors], or bool [anchors, classes] of several labels
    reference_labels: tf.Tensor  # int64 [references], or bool [references, classes]
    anchor_weights: tf.Tensor | None = None  # [anchors]; None: all are 1

    def weighted(self, terms: tf.Tensor) -> tf.Tensor:
        """Multiply terms `[anchors, ...]` by the weights of their anchors."""
        if self.anchor_weights is None:
            return terms
        weights = tf.cast(self.anchor_weights, terms.dtype)
        return terms * tf.reshape(weights, [-1] + [1] * (terms.shape.rank - 1))


def compare(
    embeddings: tf.Tensor,
    labels: tf.Tensor,
    references: References | None = None,
    sample_weight: tf.Tensor | None = None,
    *,
    normalization: str = "unit",
    anchors: Anchors = "embeddings",
) -> Comparison:
    """Pair a batch with a reference set, or with itself.

    Args:
        embeddings: `[batch, dim]`, of any floating-point type.
        labels: integers `[batch]`, or bools `[batch, classes]`: pairs that share a label are positive.
        references: the reference set; None: the batch itself, without self-pairs.
        sample_weight: of the samples, `[batch]`, which must be the anchors; None: all are 1.
        normalization: one of `common.ops.normalization.NORMALIZATIONS`, applied to both sides.
        anchors: which side has the role of the anchors, the rows of the result: `"embeddings"` (the batch) or
            `"references"` (each reference is an anchor over the batch, as the proxies of CCP are).

    Returns:
        A `Comparison`, computed in at least float32.

    Raises:
        InvalidInput: an argument has the wrong rank or type, the dimensions of the two sides differ, or references with
            pairs drawn for the batch, or beside weights of samples, are to be the anchors.
    """
    check_choice("anchors", anchors, ANCHORS)
    embeddings = normalize(embeddings, normalization)
    if embeddings.shape.rank not in (2, None):
        raise invalid("shape of embeddings", received=tuple(embeddings.shape), expected="[batch, dim]")
    labels = batch_labels(labels)
    if not labels.shape[:1].is_compatible_with(embeddings.shape[:1]):
        received = f"{labels.shape[0]} for {embeddings.shape[0]} embeddings"
        raise invalid("number of labels", received=received, expected="one of each embedding")
    everyone = tf.ones(tf.shape(labels)[:1], tf.bool)
    if references is None:
        return Comparison(embeddings, embeddings, *pair_masks(labels), everyone, labels, labels, sample_weight)
    reference_labels = batch_labels(references.labels)
    positive, negative = references.pairs or pair_masks(labels, reference_labels, references.valid)
    others = normalize(tf.cast(references.embeddings, embeddings.dtype), normalization)
    if not others.shape[-1:].is_compatible_with(embeddings.shape[-1:]):
        raise invalid(
            "dimension of embeddings", received=embeddings.shape[-1], expected=f"the references' {others.shape[-1]}"
        )
    if anchors == "references" and references.pairs is not None:
        fix = "A drawn triplet has its anchor in the batch: over the references it falls apart."
        raise invalid("anchors", received=anchors, expected="'embeddings' in a loss over drawn triplets", fix=fix)
    if anchors == "embeddings":
        return Comparison(embeddings, others, positive, negative, everyone, labels, reference_labels, sample_weight)
    if sample_weight is not None:
        raise invalid("sample_weight", received="weights of samples", expected="none with anchors='references'")
    valid = references.valid
    valid = tf.ones(tf.shape(reference_labels)[:1], tf.bool) if valid is None else tf.cast(valid, tf.bool)
    positive, negative = tf.transpose(positive), tf.transpose(negative)
    return Comparison(others, embeddings, positive, negative, valid, reference_labels, labels)
