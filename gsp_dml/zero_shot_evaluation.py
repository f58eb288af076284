"""Prediction of unseen classes from attributes: the thesis' evaluation of the zero-shot loss."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from common.errors import check_choice, check_positive, invalid

FITS = ("samples", "classes")


class ZeroShotAccuracy(NamedTuple):
    """Shares of unseen classes with the nearest mean embedding to their prediction, by split.

    Attributes:
        euclidean: nearest in l2, `[splits]`.
        cosine: nearest in angle, `[splits]`.
        chance: the accuracy of a guess.
    """

    euclidean: np.ndarray
    cosine: np.ndarray
    chance: float


def zero_shot_accuracy(
    attributes: np.ndarray,
    embeddings: np.ndarray,
    labels: np.ndarray,
    *,
    num_splits: int = 1000,
    ridge: float = 0.05,
    fit: str = "samples",
    seed: int = 0,
) -> ZeroShotAccuracy:
    """Fit attributes to class means on half of the classes, predict the others.

        A = argmin_A sum_i ||A z_i - v_(y_i)||^2 + ridge ||A||^2      over the examples i of the first half of classes
        predicted v_c = A (mean of z over class c)                     for each class c of the second half

    with v_c the mean embedding of class c. A class counts as right if its prediction is nearer to its own mean than to
    that of any other class of the second half; with one right answer for each query this is MAP@R as well as P@1.

    Reference: thesis section 5.3.3 and figure 5.6 (Cifar10, 8 prototypes, 1,000 splits of five and five classes), (P3).
    The text leaves open whether the regression sees examples or class means (`fit`).

    Args:
        attributes: z, `[examples, prototypes]`.
        embeddings: `[examples, dim]`, as they are compared in retrieval.
        labels: integers, `[examples]`, of four classes at least.
        num_splits: random divisions of the classes into halves.
        ridge: above 0.
        fit: "samples", or "classes" (one z a class, its mean).
        seed: of the divisions.

    Returns:
        Accuracies of each split, and the chance level.

    Raises:
        InvalidInput: an argument is out of range, or there are too few classes.
    """
    check_positive("num_splits", num_splits)
    check_positive("ridge", ridge)
    check_choice("fit", fit, FITS)
    classes, indices = np.unique(np.asarray(labels), return_inverse=True)
    if len(classes) < 4:
        raise invalid("labels", received=f"{len(classes)} classes", expected="at least four, to halve them")
    membership = np.equal.outer(np.arange(len(classes)), indices).astype(np.float64)  # [classes, examples]
    counts = membership.sum(axis=1, keepdims=True)
    attributes = np.asarray(attributes, np.float64)
    mean_attributes = membership @ attributes / counts
    mean_embeddings = membership @ np.asarray(embeddings, np.float64) / counts
    if fit == "samples":
        grams = np.stack([(attributes * row[:, None]).T @ attributes for row in membership])
        moments = counts[:, :, None] * mean_attributes[:, :, None] * mean_embeddings[:, None, :]
    else:
        grams = mean_attributes[:, :, None] * mean_attributes[:, None, :]  # [classes, prototypes, prototypes]
        moments = mean_attributes[:, :, None] * mean_embeddings[:, None, :]  # [classes, prototypes, dim]
    num_seen, accuracies = len(classes) // 2, np.empty((2, int(num_splits)))
    for split, order in enumerate(_orders(len(classes), int(num_splits), seed)):
        seen, unseen = order[:num_seen], order[num_seen:]
        damped = grams[seen].sum(axis=0) + ridge * np.eye(grams.shape[-1])
        predicted = mean_attributes[unseen] @ np.linalg.solve(damped, moments[seen].sum(axis=0))
        accuracies[:, split] = _nearest(predicted, mean_embeddings[unseen])
    return ZeroShotAccuracy(accuracies[0], accuracies[1], chance=1 / (len(classes) - num_seen))


def _orders(num_classes: int, num_splits: int, seed: int) -> Iterator[np.ndarray]:
    """Yield random orders of the classes, one per split."""
    generator = np.random.default_rng(seed)
    return (generator.permutation(num_classes) for _ in range(num_splits))


def _nearest(predicted: np.ndarray, means: np.ndarray) -> tuple[float, float]:
    """Return the share of predictions nearest to their own mean (l2, angle)."""
    own = np.arange(len(means))
    products = predicted @ means.T
    squared = (means**2).sum(axis=1)[None, :] - 2 * products  # up to what is constant in a row
    cosines = products / np.maximum(np.linalg.norm(means, axis=1), 1e-300)[None, :]
    return float((squared.argmin(axis=1) == own).mean()), float((cosines.argmax(axis=1) == own).mean())
