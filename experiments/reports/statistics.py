"""The fair protocol's statistics: what is averaged, its spread over collections, and an interval that can be trusted.

Why not the spread over collections. With four folds and three repeats the thesis forms 3^4 = 81 collections of one
model a fold and prints mean +- std over them. The 81 share twelve models: each model is part of 27 collections. For the
average of the single models that std is exactly

    sqrt(sum_k (R - 1)/R s_k^2) / F        (s_k: spread of fold k's R repeats, F folds)

so it understates the spread of a fresh collection by sqrt((R - 1)/R) (0.82 for three repeats), it must not be divided
by sqrt(81), it is zero for one repeat, and it knows nothing about the test classes: other unseen classes of the same
kind would move the figure by far more.

The interval here has two parts, from two resamplings of the same crossed design (every model embeds every test query):

- *test classes*: queries of a class succeed and fail together, so whole classes are resampled, not queries;
- *training*: the repeats are resampled inside their fold; the folds are fixed by the protocol.

Both draw one less than there is (n - 1 of n classes, R - 1 of R repeats), which makes the bootstrap variance of a mean
unbiased at any n (Rao and Wu, "Resampling inference with complex survey data", 1988); with R = 3 the plain bootstrap
would lose a third of it. Each standard error takes Student's t of its own degrees of freedom, and the two half-widths
add in quadrature; percentiles of three repeats could never reach beyond the three. The interaction of class and
training is counted in both parts, so the interval errs on the wide side (Owen, "The pigeonhole bootstrap", 2007,
counts it three times).

The gallery is not resampled: the interval is for queries of new classes searched among as many distractors as here.
Below about thirty test classes with skewed scores it is a little short (92 % at 16 classes in simulations, for 95 %).
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from experiments.reports.class_scores import ClassScores
from experiments.reports.intervals import Interval, Variance, interval

Model = tuple[int, int]  # (fold, repeat)
Members = Sequence[Sequence[Model]]  # the models that each row of scores is made of

_BLOCK_DRAWS = 4_000_000


@dataclass(frozen=True)
class FairEstimate:
    """One figure of the fair protocol, in fractions.

    Args:
        mean: the mean over collections.
        std: the thesis' spread over collections (see the module's text on what it leaves out); `None` when the figure
            has no collections.
        interval: `None` when per-query scores were not given.
    """

    mean: float
    std: float | None = None
    interval: Interval | None = None


def collections(num_folds: int, num_repeats: int) -> list[tuple[int, ...]]:
    """All choices of one repeat a fold: `num_repeats ** num_folds` tuples, the repeat of fold k at position k."""
    return list(itertools.product(range(num_repeats), repeat=num_folds))


def single_model_members(num_folds: int, num_repeats: int) -> list[list[Model]]:
    """Rows of single models, fold by fold, for `class_clustered_bootstrap`.

    With one repeat there is no spread inside a fold; the folds then stand in as repeats of one another. Their spread
    holds the training's and the effect of the fold on top: the interval is wider than it needs to be, not narrower.
    """
    if num_repeats == 1:
        return [[(0, fold)] for fold in range(num_folds)]
    return [[(fold, repeat)] for fold in range(num_folds) for repeat in range(num_repeats)]


def collection_members(num_folds: int, num_repeats: int) -> list[list[Model]]:
    """Rows of collections, in the order of `collections`, for `class_clustered_bootstrap`."""
    return [list(enumerate(collection)) for collection in collections(num_folds, num_repeats)]


def class_clustered_bootstrap(
    scores: ClassScores,
    num_resamples: int = 2000,
    seed: int = 0,
    *,
    members: Members | None = None,
    confidence: float = 0.95,
) -> Interval:
    """The interval of a mean score over queries and models, respecting test classes, folds and repeats.

    Args:
        scores: of every class under every model or collection.
        num_resamples: resamples of classes and of repeats, > 1.
        seed: of the resampling.
        members: the (fold, repeat) pairs behind each row, from `single_model_members` or `collection_members`; `None`:
            the rows are averaged as they are and the trainings not resampled.
        confidence: in (0, 1).

    Raises:
        ValueError: when there are not as many members as rows.
    """
    generator = np.random.default_rng(seed)
    row_weights, of_training = _training_variance(scores.means, members, num_resamples, generator)
    averaged = scores.average(row_weights)
    of_classes = _class_variance(averaged, num_resamples, generator)
    return interval(float(averaged.means[0]), of_classes, of_training, confidence)


def paired_difference(
    first: ClassScores,
    second: ClassScores,
    num_resamples: int = 2000,
    seed: int = 0,
    *,
    members: Members | None = None,
    confidence: float = 0.95,
) -> Interval:
    """The interval of the difference first - second of two methods on the same test queries, folds and repeats.

    The scores are subtracted row by row and class by class before anything is resampled: what makes a class hard, or a
    fold poor, for both methods cancels. Two trainings of one repeat need not be alike for this to be valid.

    Args:
        first: scores of the one method's models or collections.
        second: scores of the other method's, in the same order.
        num_resamples: as in `class_clustered_bootstrap`.
        seed: of the resampling.
        members: the (fold, repeat) pairs behind each row, as in `class_clustered_bootstrap`.
        confidence: in (0, 1).

    Raises:
        ValueError: as there, and when the two methods have different models or test sets.
    """
    if len(first.sums) != len(second.sums):
        raise ValueError(
            f"Invalid scores: received {len(first.sums)} and {len(second.sums)} models, expected the same models and "
            "queries."
        )
    return class_clustered_bootstrap(first.minus(second), num_resamples, seed, members=members, confidence=confidence)


def fair_estimates(
    single: Mapping[Model, Mapping[str, float]],
    concatenated: Mapping[tuple[int, ...], Mapping[str, float]],
    *,
    single_scores: Mapping[str, ClassScores] | None = None,
    concatenated_scores: Mapping[str, ClassScores] | None = None,
    num_resamples: int = 2000,
    seed: int = 0,
) -> dict[str, dict[str, FairEstimate]]:
    """The two figures of the fair protocol for every metric: mean, spread over collections and interval.

    Args:
        single: metrics of each single model by (fold, repeat), all repeats of all folds.
        concatenated: metrics of the concatenated embedding by collection, as `collections` lists them; may be empty.
        single_scores: for an interval, scores of the single models by metric, rows as in `single_model_members`.
        concatenated_scores: the same of the collections, rows in the order of `collections`.
        num_resamples: of `class_clustered_bootstrap`.
        seed: of `class_clustered_bootstrap`.

    Returns:
        `{"single": {metric: FairEstimate}, "concatenated": {...}}`; `"single"` averages a collection's models (the
        128-D figure), `"concatenated"` joins their embeddings (512-D).

    Raises:
        ValueError: when a repeat of a fold or a collection is missing.
    """
    folds, num_repeats = sorted({fold for fold, _ in single}), max(repeat for _, repeat in single) + 1
    models = list(itertools.product(folds, range(num_repeats)))
    chosen = collections(len(folds), num_repeats)
    _check_complete("model", models, single)
    _check_complete("collection", chosen if concatenated else [], concatenated)
    averages = [
        {name: float(np.mean([single[model][name] for model in zip(folds, repeats)])) for name in single[models[0]]}
        for repeats in chosen
    ]
    joined = [concatenated[repeats] for repeats in chosen] if concatenated else []

    def intervals(scores, members):
        return {
            name: class_clustered_bootstrap(rows, num_resamples, seed, members=members)
            for name, rows in (scores or {}).items()
        }

    of_singles = intervals(single_scores, single_model_members(len(folds), num_repeats))
    of_joined = intervals(concatenated_scores, collection_members(len(folds), num_repeats))
    return {"single": _over_collections(averages, of_singles), "concatenated": _over_collections(joined, of_joined)}


def _over_collections(
    metrics: Sequence[Mapping[str, float]], intervals: Mapping[str, Interval]
) -> dict[str, FairEstimate]:
    """Mean and std (population, over all collections; none for a single one) of every metric."""
    estimates = {}
    for name in metrics[0] if metrics else ():
        values = np.array([collection[name] for collection in metrics], np.float64)
        std = float(values.std()) if len(values) > 1 else None
        estimates[name] = FairEstimate(float(values.mean()), std, intervals.get(name))
    return estimates


def _check_complete(what: str, expected, received) -> None:
    missing = [key for key in expected if key not in received]
    if missing:
        raise ValueError(f"Missing {what}s: received {sorted(received)}, expected also {missing[:8]}. Run them first.")


def _class_variance(scores: ClassScores, num_resamples, generator) -> Variance:
    """Bootstrap variance of the mean over queries when whole classes are resampled, and its degrees of freedom."""
    counts, num_classes = scores.counts, scores.num_classes
    # Sums of deviations: the resampled mean minus the mean is a ratio of two sums over the drawn classes.
    deviations = scores.sums[0] - scores.means[0] * counts
    block = max(1, _BLOCK_DRAWS // num_classes)
    shifts = []
    for start in range(0, num_resamples, block):
        size = (min(block, num_resamples - start), num_classes - 1)
        drawn = generator.integers(num_classes, size=size)  # [resamples, classes - 1]
        shifts.append(deviations[drawn].sum(axis=1) / counts[drawn].sum(axis=1))
    return float(np.concatenate(shifts).var(ddof=1)), num_classes - 1


def _training_variance(means, members, num_resamples, generator) -> tuple[np.ndarray, Variance | None]:
    """The rows' weights `[models]`, and the bootstrap variance of the weighted mean (`None`: nothing was repeated).

    A row weighs the product of its models' weights; a model weighs its share of the draws among its fold's repeats.
    """
    if members is None:
        return np.full(len(means), 1 / len(means)), None
    if len(members) != len(means):
        raise ValueError(
            f"Invalid members: received {len(members)} rows, expected {len(means)}, one for each of the scores."
        )
    repeats: dict[int, list[int]] = {}
    for fold, repeat in sorted({model for row in members for model in row}):
        repeats.setdefault(fold, []).append(repeat)
    weights, plain = np.ones((num_resamples, len(means))), np.ones(len(means))
    for fold, names in repeats.items():
        draws = max(1, len(names) - 1)
        shares = generator.multinomial(draws, np.full(len(names), 1 / len(names)), size=num_resamples) / draws
        for row, models in enumerate(members):
            for model in models:
                if model[0] == fold:
                    weights[:, row] *= shares[:, names.index(model[1])]
                    plain[row] /= len(names)
    freedom = sum(len(names) - 1 for names in repeats.values())
    if freedom == 0:
        return plain / plain.sum(), None
    resampled = weights @ means / weights.sum(axis=1)
    return plain / plain.sum(), (float(resampled.var(ddof=1)), freedom)
