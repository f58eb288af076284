"""Statistics of the fair protocol: averages, spread over collections, intervals.

The thesis forms a collection of one model per fold in every way (3^4 = 81 of three repeats in four folds) and prints
mean +- std over them. For the average of the single models that std is exactly

    sqrt(sum_k (R - 1)/R s_k^2) / F        (s_k: spread of fold k's R repeats, F folds)

so it understates the spread of a fresh collection, is zero for one repeat, and knows nothing about the test classes.
The interval here has two parts of the same crossed design (every model embeds every test query):

- *test classes*: queries of a class succeed and fail together, so classes are the independent draws, not queries. The
  mean is a ratio of two sums over classes; its variance is the sum of squared deviations of the classes, each divided
  by 1 - (its share of the queries), which makes it unbiased for classes of one spread (Bell and McCaffrey, "Bias
  reduction in standard errors for linear regression with multi-stage samples", 2002). Degrees of freedom are those of
  the shares; the skewness of the classes makes the interval asymmetric (`intervals.skewed_quantiles`). If a data set
  names families of classes, a family takes the place of a class (`ClassScores.by_family`);
- *training*: folds are random. The mean of a fold over its repeats is one observation, so F folds have F - 1 degrees
  of freedom. A single split, and collections, cannot show the spread of folds: there the spread of the repeats inside
  their fold counts, and the interval is for the same splits alone. In collections each model counts with the mean of
  the collections that it is part of.

What differs between classes and runs at once is counted in the training's part and taken out of that of the classes.
Each part takes Student's t of its own degrees of freedom. docs/statistics.md says what is not covered, and how well
intervals cover in simulations (`benchmarks.interval_coverage`).
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from common.errors import InvalidInput
from experiments.reports.intervals import FEWEST_CLASSES, Interval, Variance, interval

Model = tuple[int, int]  # (fold, repeat)
Members = Sequence[Sequence[Model]]  # the models that each row of scores is made of


@dataclass(frozen=True, eq=False)
class ClassScores:
    """Sums of a score over the queries of each test class, per model.

    Classes, not queries, are what is drawn from a population: the mean over queries is the ratio
    `sums.sum() / counts.sum()`, and its error follows from how the classes differ.

    Args:
        sums: sum of the score over a class' queries `[models, classes]`, float64; fractions times queries.
        counts: queries of each class `[classes]`, at least one.
        are_families: whether each "class" is a family of classes, see `by_family`.
    """

    sums: np.ndarray
    counts: np.ndarray
    are_families: bool = False

    def __post_init__(self):
        sums, counts = np.asarray(self.sums, np.float64), np.asarray(self.counts)
        if sums.ndim != 2 or counts.shape != sums.shape[1:]:
            raise ValueError(
                f"Invalid class scores: received sums {sums.shape} and counts {counts.shape}, expected "
                "[models, classes] and [classes]."
            )
        if not np.isfinite(sums).all():
            raise InvalidInput(
                "Invalid scores: received NaN or infinity, expected finite numbers. Leave excluded queries out."
            )
        if len(counts) < 2:
            raise InvalidInput(
                f"Invalid labels: received {len(counts)} class, expected at least two: the interval comes from how "
                "classes differ."
            )
        if (counts < 1).any():
            raise InvalidInput("Invalid counts: received a class without queries. Leave such classes out.")
        object.__setattr__(self, "sums", sums)
        object.__setattr__(self, "counts", counts.astype(np.float64))

    @property
    def means(self) -> np.ndarray:
        """The mean score over queries of each model `[models]`."""
        return self.sums.sum(axis=1) / self.counts.sum()

    @property
    def num_classes(self) -> int:
        """The number of test classes."""
        return len(self.counts)

    def rows(self, index) -> ClassScores:
        """Select models by a NumPy index that keeps rows as rows."""
        return dataclasses.replace(self, sums=self.sums[index])

    def average(self, weights: np.ndarray | None = None) -> ClassScores:
        """Average the models, or sum them by weight `[models]`, into a single row."""
        row = self.sums.mean(axis=0) if weights is None else weights @ self.sums
        return dataclasses.replace(self, sums=row[None])

    def by_family(self, families: np.ndarray | None) -> ClassScores:
        """Add up the classes of each family, so that families are the independent draws.

        Args:
            families: the family of each class `[classes]`, integers; None: classes are independent. Fewer than eight
                families show too little of how families differ. Then classes stay the draws, and the interval is for
                new classes of these families.
        """
        if families is None:
            return self
        names, places = np.unique(families, return_inverse=True)
        if len(names) < FEWEST_CLASSES:
            return self
        onto = np.eye(len(names))[places]  # [classes, families]
        return ClassScores(self.sums @ onto, self.counts @ onto, are_families=True)

    def minus(self, other: ClassScores) -> ClassScores:
        """Subtract another method's scores, by model and class.

        The other has as many models in the same order, or one, on the same test set.
        """
        self._check_test_set(other)
        if len(other.sums) not in (1, len(self.sums)):
            raise ValueError(
                f"Invalid scores: received {len(self.sums)} and {len(other.sums)} models, expected the same models and "
                "queries."
            )
        return dataclasses.replace(self, sums=self.sums - other.sums)

    def _check_test_set(self, other: ClassScores) -> None:
        if not np.array_equal(self.counts, other.counts):
            ours, theirs = (f"{of.num_classes} classes, {of.counts.sum():.0f} queries" for of in (self, other))
            raise ValueError(
                f"Invalid scores: received test sets of {ours} and of {theirs}, expected the same models and queries."
            )


def collections(num_folds: int, num_repeats: int) -> list[tuple[int, ...]]:
    """List all choices of one repeat per fold: `num_repeats ** num_folds` tuples."""
    return list(itertools.product(range(num_repeats), repeat=num_folds))


def single_model_members(num_folds: int, num_repeats: int) -> list[list[Model]]:
    """List the members of single runs, one each, fold by fold, for `class_clustered_interval`."""
    return [[place] for place in itertools.product(range(num_folds), range(num_repeats))]


def class_clustered_interval(scores: ClassScores, *, members: Members | None = None) -> Interval:
    """Compute a mean score's 95 % interval from test classes, folds and repeats.

    Args:
        members: the (fold, repeat) pairs behind each row, as in `Scores.members`; `None`: the rows are averaged as they
            are, and the spread of training is not known.
    """
    row_weights, of_training, shared, same_splits = _training_variance(scores, members)
    averaged = scores.average(row_weights)
    variance, freedom, skewness = _class_variance(averaged)
    of_classes = max(variance - shared, 0.0), freedom
    found = interval(float(averaged.means[0]), of_classes, of_training, class_skewness=skewness)
    return dataclasses.replace(found, same_splits=same_splits, by_family=scores.are_families)


def paired_difference(first: ClassScores, second: ClassScores, *, members: Members | None = None) -> Interval:
    """Compute the interval of first - second on shared queries and runs.

    Scores are subtracted row by row and class by class first, so shared difficulty of a class or fold cancels. Two runs
    of one repeat need not be alike.
    """
    if len(first.sums) != len(second.sums):
        raise ValueError(
            f"Invalid scores: received {len(first.sums)} and {len(second.sums)} models, expected the same models and "
            "queries."
        )
    return class_clustered_interval(first.minus(second), members=members)


def _class_variance(scores: ClassScores) -> tuple[float, float, float]:
    """Return variance over class choices, degrees of freedom, skewness of the mean."""
    shares = scores.counts / scores.counts.sum()
    deviations = scores.sums[0] / scores.counts.sum() - scores.means[0] * shares
    variance = float((deviations**2 / (1 - shares)).sum())
    effective = (shares**2).sum() ** 2 / (shares**4).sum()  # classes of one size that would tell as much
    freedom = float(max(effective - 1, 1.0))
    plain = float((deviations**2).sum())
    if plain == 0 or effective <= 2.5:
        return variance, freedom, 0.0
    skewness = float((deviations**3).sum() / plain**1.5)
    return variance, freedom, skewness * float(np.sqrt(effective * (effective - 1)) / (effective - 2))


def _training_variance(scores: ClassScores, members: Members | None) -> tuple[np.ndarray, Variance | None, float, bool]:
    """Return row weights `[models]`, training variance, its class-shared part, and `same_splits`.

    The variance is that of the weighted mean, `None` if nothing was repeated. See the module's text.
    """
    count = len(scores.sums)
    if members is None:
        return np.full(count, 1 / count), None, 0.0, False
    if len(members) != count:
        raise ValueError(
            f"Invalid members: received {len(members)} rows, expected {count}, one for each of the scores."
        )
    folds: dict[int, list[Model]] = {}
    for model in sorted({model for row in members for model in row}):
        folds.setdefault(model[0], []).append(model)
    weights = np.array([np.prod([1 / len(folds[fold]) for fold, _ in row]) for row in members])
    weights /= weights.sum()
    same_splits = len(folds) == 1 or any(len(row) > 1 for row in members)
    # Groups of observations; an observation is a list of models.
    groups = [[[model] for model in models] for models in folds.values()] if same_splits else [list(folds.values())]
    shares = scores.counts / scores.counts.sum()
    variance = of_both = 0.0
    for group in groups:
        if len(group) == 1:
            continue
        rows_of = np.array([[any(model in row for model in models) for row in members] for models in group]) * weights
        in_group = rows_of.sum()  # the group's weight in the mean: 1, less of folds whose models are in no collection
        of_each = rows_of @ scores.sums / rows_of.sum(axis=1, keepdims=True) / scores.counts.sum()
        totals = of_each.sum(axis=1)
        scale = in_group**2 / len(group)
        variance += scale * float(totals.var(ddof=1))
        by_class = of_each - totals[:, None] * shares
        squares = (by_class - by_class.mean(axis=0)) ** 2 / (1 - shares)
        of_both += scale * float(squares.sum()) / (len(group) - 1)
    freedom = sum(len(group) - 1 for group in groups)
    return weights, (variance, freedom) if freedom else None, of_both, same_splits
