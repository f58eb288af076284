"""Halves of a batch between which the zero-shot prediction loss transfers.

Reference: thesis section 5.2.3: the halves have no class in common.
"""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from common.errors import check_choice, invalid

HALVES = ("classes", "even_odd")

_ADVICE = (
    "Interleave an even number of classes (--sampler=m_per_class), draw one image per class, or split by classes "
    "(--zero_shot_halves=classes)."
)


def check_halves(class_places: np.ndarray | None, halves: str) -> None:
    """Check, before training, that the halves of a batch share no class.

    Args:
        class_places: the class at each place of a batch, integers `[batch]`, the same in every batch
            (`ClassBalancedBatches.class_places`); None if any class may be anywhere.
        halves: as of `ZeroShotPredictionLoss`.

    Raises:
        InvalidInput: a class would be in both halves, or a half would be empty. (With unknown places and halves by
            classes this check cannot decide before a batch exists; the loss refuses a batch of one class.)
    """
    check_choice("halves", halves, HALVES)
    if class_places is None:
        if halves == "even_odd":
            received = "even_odd, with batches in which any class may stand anywhere"
            expected = "an order of classes that is the same in all batches"
            raise invalid("zero_shot_halves", received=received, expected=expected, fix=_ADVICE)
        return
    places = np.asarray(class_places)
    num_classes = len(np.unique(places))
    if num_classes < 2:
        received = f"{halves}, with batches of {num_classes} class"
        expected, fix = "two classes or more in a batch", "Draw more classes per batch."
        raise invalid("zero_shot_halves", received=received, expected=expected, fix=fix)
    shared = np.intersect1d(places[::2], places[1::2])
    if halves == "even_odd" and len(shared):
        received = f"even_odd, with {len(shared)} of the {num_classes} classes of a batch at even and at odd places"
        raise invalid("zero_shot_halves", received=received, expected="halves without a class in common", fix=_ADVICE)


def half_of(labels: tf.Tensor, halves: str) -> tf.Tensor:
    """Return each sample's half (0 or 1), int32 `[batch]`, by one of `HALVES`."""
    return half_of_classes(labels) if halves == "classes" else half_of_positions(labels)


def half_of_classes(labels: tf.Tensor) -> tf.Tensor:
    """Assign classes to the halves in turn, by their first appearance.

    Args:
        labels: integers, `[batch]`.

    Returns:
        int32 `[batch]`: 0 or 1, the same for all of a class; the numbers of classes differ by at most one.
    """
    same = tf.equal(labels[:, None], labels[None, :])  # [batch, batch]
    first = tf.argmax(same, axis=1, output_type=tf.int32)  # where the class of each appears first
    is_first = tf.cast(tf.equal(first, tf.range(tf.size(labels))), tf.int32)
    return tf.gather(tf.cumsum(is_first, exclusive=True), first) % 2


def half_of_positions(labels: tf.Tensor) -> tf.Tensor:
    """Assign even positions of a batch to half 0, odd ones to 1."""
    return tf.range(tf.size(labels)) % 2
