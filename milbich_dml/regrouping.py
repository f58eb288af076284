"""Re-clustering of training images across classes during training (MIC)."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning

from common.errors import check_choice, check_non_negative, check_positive, invalid
from common.records import ResumableCallback
from milbich_dml.group_labels import GroupLabelsLoss

STANDARDIZED, CENTRED, AS_THEY_ARE = _STANDARDIZATIONS = ("standardized", "centred", "none")
_SAME = 1e-5  # of a mean: a smaller deviation is that of float32 arithmetic


def without_classes(vectors: np.ndarray, labels: np.ndarray, standardization: str = STANDARDIZED) -> np.ndarray:
    """Normalise vectors by their class: `(f - μ_c) / σ_c`.

    This keeps the differences between images of a class, on the scale of that class.

    Reference: Milbich's dissertation, section 3.1.2 (with the standard deviation of each component); MIC's public code
    subtracts the mean only (`centred`).

    Args:
        vectors: `[items, dim]`, finite.
        labels: integers `[items]`.
        standardization: `standardized`, `centred`, or `none` (the vectors as they are).

    Returns:
        float32 `[items, dim]`. A component is 0 for a class whose images share it.

    Raises:
        InvalidInput: an unknown standardisation, or vectors that are not finite.

    Examples:
        >>> without_classes(np.float32([[1, 5], [3, 5], [0, 2]]), np.array([0, 0, 1]))
        array([[-1.,  0.],
               [ 1.,  0.],
               [ 0.,  0.]], dtype=float32)
    """
    check_choice("standardization", standardization, _STANDARDIZATIONS)
    vectors = np.asarray(vectors, np.float32)
    if not np.isfinite(vectors).all():
        raise invalid("vectors", received="NaN or infinity", expected="finite numbers")
    if standardization == AS_THEY_ARE:
        return vectors
    found = np.empty_like(vectors)
    order = np.argsort(labels, kind="stable")
    for places in np.split(order, np.flatnonzero(np.diff(np.asarray(labels)[order])) + 1):
        of_class = vectors[places].astype(np.float64)
        mean = of_class.mean(axis=0)
        of_class -= mean
        if standardization == STANDARDIZED:
            deviation = of_class.std(axis=0)
            deviation[deviation < _SAME * np.abs(mean)] = 0.0
            of_class = np.divide(of_class, deviation, out=np.zeros_like(of_class), where=deviation > 0.0)
        found[places] = of_class
    return found


def classes_per_group(groups: np.ndarray, labels: np.ndarray) -> float:
    """Return the mean number of classes in a group.

    It is 1 if groups lie within classes.

    Reference: Milbich's dissertation, figure 3.4.

    Args:
        groups: integers `[items]`, at least one.
        labels: integers `[items]`.

    Examples:
        >>> classes_per_group(np.array([0, 0, 1, 1]), np.array([5, 7, 7, 7]))
        1.5
    """
    pairs = np.unique(np.stack([groups, labels]), axis=1)
    return pairs.shape[1] / len(np.unique(groups))


class Regrouping(ResumableCallback):
    """Finds a `GroupLabelsLoss`' groups by k-means, again every `steps_per_round` steps.

    Call `group` once before training begins, warm-up included. A round is a function of the model's weights and of
    (seed, number of the round), and groups are a weight, so a resumed run continues bit for bit.

    Reference: Milbich's dissertation, section 3.1.2 (the groups of equation 3.3), after MIC (Roth, Brattoli, Ommer,
    ICCV 2019).

    Args:
        loss: the trained loss.
        vectors: called with the number of the round; returns a vector for each training image `[num_examples, dim]`,
            such as those of `without_classes`.
        num_groups: from 2 to `num_examples`.
        steps_per_round: training steps between two rounds, at least 1.
        seed: of k-means, at least 0.

    Raises:
        InvalidInput: a number out of its range; in a round, a number of vectors other than that of images.

    Examples:
        >>> classes, features = np.arange(100) % 5, np.random.default_rng(0).normal(size=(100, 8))
        >>> loss = GroupLabelsLoss(MinedLoss(MarginLoss(), "distance_weighted"), num_examples=100)
        >>> regrouping = Regrouping(loss, lambda number: without_classes(features, classes), 4, steps_per_round=200)
        >>> regrouping.group()  # then fit(model, ..., extra_callbacks=[regrouping])
    """

    def __init__(
        self,
        loss: GroupLabelsLoss,
        vectors: Callable[[int], np.ndarray],
        num_groups: int,
        steps_per_round: int,
        seed: int = 0,
    ) -> None:
        super().__init__()
        if not 2 <= num_groups <= loss.num_examples:
            raise invalid("num_groups", received=num_groups, expected=f"2 to {loss.num_examples}, the training images")
        self.loss, self.vectors, self.num_groups = loss, vectors, num_groups
        self.steps_per_round = check_positive("steps_per_round", steps_per_round)
        self.seed = check_non_negative("seed", seed)
        self._steps, self._rounds = 0, 0

    def on_train_batch_end(self, batch: int, logs: dict | None = None) -> None:
        self._steps += 1
        if self._steps % self.steps_per_round == 0:
            self.group()

    def group(self) -> None:
        """Make one round."""
        vectors = np.asarray(self.vectors(self._rounds))
        if len(vectors) != self.loss.num_examples:
            raise invalid("number of vectors", received=len(vectors), expected=f"{self.loss.num_examples}")
        seed = int(np.random.SeedSequence([self.seed, self._rounds]).generate_state(1)[0])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # fewer distinct vectors than groups
            self.loss.set_groups(KMeans(self.num_groups, n_init=1, random_state=seed).fit_predict(vectors))
        self._rounds += 1

    def state(self) -> dict:
        """Return the numbers of steps and rounds; the groups are a weight."""
        return {"steps": self._steps, "rounds": self._rounds}

    def restore(self, state: dict, arrays: list[np.ndarray]) -> None:
        """Resume from `state`."""
        self._steps, self._rounds = state["steps"], state["rounds"]
