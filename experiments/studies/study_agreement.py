"""Recorded study beside printed tables: rank correlations, and signs of effects.

*Agreement*: Spearman's and Kendall's coefficient, over shared methods, between the benchmark's mean test figure and
the printed one of a data set.

*Interval*: percentile bootstrap over methods and runs. Of each fold's R repeats R - 1 are drawn with replacement,
which gives the mean of the draw the variance of the mean of R repeats (R draws would give (R - 1)/R of it). Without
repeats folds are drawn, the same for all methods. Methods are drawn with their drawn runs. A loss and all its variants
(memory, CCP, GSP, mining, regularisation) are a family; families are drawn whole, since a loss with a change is not
independent of the loss alone. Printed figures are taken as they are. Coverage of 95 % intervals was simulated once
(1,500 studies each; six losses with the variants of table 3.1 or 5.1; true coefficients from 0 to .8). It is 93.9 to
97.3 % if the loss explains half or more of the variance between methods, and 91.0 to 95.3 % if it explains none.
Methods drawn singly had 80 to 82 % if it explains nine tenths.

*Ceiling*: the same coefficient between the printed data sets themselves: no benchmark can be asked to rank methods more
like SOP than CUB does.

*Rule*: a benchmark may be called a stand-in for a data set if Spearman's coefficient is above half of the mean ceiling,
and no stand-in if it is below; in both cases at 5 % after Holm over the rows of the printed table, `ALL` included.
Otherwise the question is open. A p value is twice the smaller share of the bootstrap on one side of that threshold.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from common.errors import InvalidInput
from experiments import reports
from experiments.published.conventional import ROWS, revisiting_published
from experiments.published.values import PublishedValue, fair_published
from experiments.reports.comparisons import LEVEL, holm
from experiments.reports.correlations import draws_by_size, kendall_rows, spearman_rows
from experiments.rows.rows import TRAINING
from experiments.rows.scores import cell, complete_repeats, labels_of, method_difference, scores_of_trainings
from experiments.rows.store import StudyRows

_FAIR = "fair"


class Effect(NamedTuple):
    """Effect of one change on a method, here and as published."""

    kind: str  # of the change: `memory`, `CCP`, `GSP` or `regularisation`
    label: str  # the method with it
    baseline: str  # the same without
    cell: reports.TableCell  # label - baseline in the table's metric, with its interval, in fractions
    printed: Mapping[str, float]  # the difference by data set, in points

    def agrees_on(self, dataset: str) -> bool:
        """Return whether the estimate has the published sign; zero agrees with none."""
        return self.cell.estimate.mean * self.printed[dataset] > 0


class TableAgreement(NamedTuple):
    """Study beside one printed table."""

    study: str
    table: str  # a key of `RANKINGS`
    labels: tuple[str, ...]  # the study's methods that the table prints
    twins: tuple[str, ...]  # methods whose printed row another one is nearer to
    incomplete: tuple[str, ...]  # methods without every fold
    ranks: Mapping[str, RankAgreement]  # by printed data set
    effects: tuple[Effect, ...]  # paired differences of these methods


def study_agreement(study: StudyRows) -> list[TableAgreement]:
    """Compare a fair study with printed tables of enough shared losses."""
    rows = _fair_rows(study)
    configurations = {row["label"]: row["configuration"] for row in rows}
    complete = [label for label in labels_of(study) if label in configurations and complete_repeats(study, label)]
    incomplete = tuple(label for label in configurations if label not in complete)
    found, most = [], 0
    for table, ranking in RANKINGS.items():
        printed, twins = printed_methods(ranking, {label: configurations[label] for label in complete})
        trainings = {label: _figures(study, label, ranking.metric) for label in complete}
        ranks = rank_agreements(trainings, printed)
        labels = tuple(label for label in complete if any(label in of for of in printed.values()))
        most = max(most, len(families(labels)))
        if ranks:
            of_labels = {label: configurations[label] for label in labels}
            effects = tuple(_effects(study, of_labels, ranking.metric, printed))
            found.append(TableAgreement(study.name, table, labels, twins, incomplete, ranks, effects))
    if not found:
        raise InvalidInput(
            f"{study.folder} cannot be compared: received {len(complete)} methods with every fold "
            f"({', '.join(complete) or 'none'}), of which a printed table has at most {most} losses; expected "
            f"at least {FEWEST_LOSSES} that one of {', '.join(RANKINGS)} has. Record more of its methods, such as "
            "those of `experiments.table --id=5.1`."
        )
    return found


def _fair_rows(study: StudyRows) -> list[dict]:
    rows = [row for row in study.rows if row["kind"] == TRAINING and row["protocol"] == _FAIR]
    if not rows:
        raise InvalidInput(
            f"{study.folder} cannot be compared: received no row of the fair protocol there, expected the folder of a "
            "study. Record one: python -m experiments.table --id=5.1 --run --record=results/table_5_1"
        )
    tested = sorted({f"{row['dataset']} (data {row['data']})" for row in rows})
    if len(tested) > 1:
        raise InvalidInput(
            f"{study.folder} cannot be compared: received rows of {', '.join(tested)}, expected one data set. Record "
            "each into a folder of its own."
        )
    return rows


def _figures(study: StudyRows, label: str, metric: str) -> np.ndarray:
    """Return a method's metric `[folds, repeats]` over repeats that every fold has."""
    repeats = complete_repeats(study, label)
    rows = scores_of_trainings(study, label, repeats).rows  # by fold, then repeat
    return np.array([row["test"][metric] for row in rows]).reshape(-1, repeats)


def _effects(study: StudyRows, configurations: Mapping[str, Configuration], metric: str, printed) -> Iterator[Effect]:
    """Yield every change with both methods among the labels, tested together."""
    pairs = list(_pairs(configurations))
    rows = []
    for _, label, baseline in pairs:
        difference = cell(method_difference(study, label, baseline, metric), is_difference=True, baseline=baseline)
        rows.append(reports.TableRow(f"{label} - {baseline}", {("", metric): difference}))
    for (kind, label, baseline), row in zip(pairs, reports.compared(rows)):
        gaps = {
            dataset: round(of[label] - of[baseline], 4)
            for dataset, of in printed.items()
            if label in of and baseline in of
        }
        if gaps:
            yield Effect(kind, label, baseline, row.cells["", metric], gaps)


def _pairs(configurations: Mapping[str, Configuration]) -> Iterator[tuple[str, str, str]]:
    """Yield kind, label and baseline of each change."""
    owners = {_method(configuration): label for label, configuration in configurations.items()}
    for (loss, method, pooling), label in owners.items():
        parts = loss.split("+")
        changes = {
            "memory": ("+".join(part for part in parts if part != "xbm"), method, pooling),
            "CCP": (loss, "plain", pooling),
            "GSP": (loss, method, "gap" if pooling == "gsp" else pooling),
            "regularisation": ("+".join(part for part in parts if part != "rho"), method, pooling),
        }
        for kind, without in changes.items():
            if without != (loss, method, pooling) and without in owners:
                yield kind, label, owners[without]


def _method(configuration: Configuration) -> tuple[str, str, str]:
    loss, method, pooling = (str(configuration[name]) for name in ("loss", "method", "pooling"))
    return loss, method, pooling


Configuration = Mapping[str, object]  # fields of `ExperimentConfig`
_DIM = 128  # what the thesis calls the mean of single models


class PrintedRanking(NamedTuple):
    """Printed table."""

    metric: str  # compared, of `Scores`
    datasets: tuple[str, ...]
    cell: Callable[[Configuration, str], PublishedValue | None]  # of a configuration on a data set, or None


def printed_methods(
    ranking: PrintedRanking, configurations: Mapping[str, Configuration]
) -> tuple[dict[str, dict[str, float]], tuple[str, ...]]:
    """Assign the printed figures to a study's methods, each row to one method.

    Returns:
        Percent, by data set and label, without lost and doubtful cells; and the labels whose printed row another label
        of the study is nearer to.
    """
    owners: dict[str, str] = {}
    for label in sorted(configurations, key=lambda label: _distance(label, configurations[label])):
        for dataset in ranking.datasets:
            cell = ranking.cell(configurations[label], dataset)
            if cell is not None:
                owners.setdefault(cell.method, label)
    figures: dict[str, dict[str, float]] = {dataset: {} for dataset in ranking.datasets}
    twins = []
    for label, configuration in configurations.items():
        for dataset in ranking.datasets:
            cell = ranking.cell(configuration, dataset)
            if cell is not None and owners[cell.method] != label:
                twins.append(label)
            elif cell is not None and cell.is_target and cell.value is not None:
                figures[dataset][label] = cell.value
    return figures, tuple(dict.fromkeys(twins))


def _distance(label: str, configuration: Configuration) -> tuple[bool, bool, int]:
    """Return a method's distance to its printed row, by loss, mining and name."""
    loss = str(configuration["loss"])
    row = ROWS.get(loss)
    return bool(row and row.differs), "+distance" not in loss, len(label)


def _fair_cell(table: str, chapter: int) -> Callable[[Configuration, str], PublishedValue | None]:
    def cell(configuration: Configuration, dataset: str) -> PublishedValue | None:
        loss, pooling, method = (str(configuration[name]) for name in ("loss", "pooling", "method"))
        zero_shot = bool(configuration.get("zero_shot_weight"))
        found = fair_published(dataset, loss, pooling, method, _DIM, "MAP@R", chapter=chapter, zero_shot=zero_shot)
        return found if found is not None and found.table == table else None

    return cell


def _revisiting_cell(configuration: Configuration, dataset: str) -> PublishedValue | None:
    is_plain = configuration["method"] == "plain" and configuration["pooling"] == "gap"
    return revisiting_published(dataset, str(configuration["loss"]), "R@1") if is_plain else None


_FOUR = ("SOP", "In-shop", "CUB", "Cars196")
RANKINGS: Mapping[str, PrintedRanking] = {
    "thesis 3.1": PrintedRanking("MAP@R", _FOUR, _fair_cell("3.1", 3)),
    "thesis 5.1": PrintedRanking("MAP@R", _FOUR, _fair_cell("5.1", 5)),
    "Revisiting 2.2": PrintedRanking("P@1", ("SOP", "CUB", "Cars196"), _revisiting_cell),
}


FEWEST_LOSSES = 5  # families, the draws of the bootstrap
SHARE_OF_CEILING = 0.5
_NUM_RESAMPLES = 2000  # of the bootstrap
ALL = "all"  # the mean over the printed data sets, over the methods that all of them have
STAND_IN, NO_STAND_IN, OPEN, NO_CEILING = "stand-in", "no stand-in", "inconclusive", "no ceiling"

Figures = Mapping[str, float]  # by method
Coefficient = Callable[[np.ndarray, np.ndarray], np.ndarray]  # along the last axis


class Bounds(NamedTuple):
    """Coefficient with 95 % interval, or mean, lowest, highest ceiling; in [-1, 1]."""

    value: float
    low: float
    high: float


class RankAgreement(NamedTuple):
    """Agreement of a benchmark with one printed data set or a whole table."""

    num_methods: int
    num_losses: int  # methods of one loss are drawn together
    spearman: Bounds  # coefficients with their intervals, like the next
    kendall: Bounds
    spearman_ceiling: Bounds | None  # between printed data sets, like the next; None without another one
    kendall_ceiling: Bounds | None
    p: float | None  # of Spearman's distance from the rule's threshold, after Holm; None without a positive ceiling

    @property
    def threshold(self) -> float | None:
        """Half of the mean ceiling of Spearman's coefficient; `None` without a positive one."""
        ceiling = self.spearman_ceiling
        return None if ceiling is None or ceiling.value <= 0 else SHARE_OF_CEILING * ceiling.value

    @property
    def verdict(self) -> str:
        """`STAND_IN`, `NO_STAND_IN` or `OPEN` by the rule; `NO_CEILING` without a positive ceiling."""
        if self.p is None or self.threshold is None:
            return NO_CEILING
        if self.p >= LEVEL:
            return OPEN
        return STAND_IN if self.spearman.value > self.threshold else NO_STAND_IN


def rank_agreements(trainings: Mapping[str, np.ndarray], printed: Mapping[str, Figures]) -> dict[str, RankAgreement]:
    """Compare with every printed data set of enough methods, and with `ALL` of them.

    Data sets of fewer than `FEWEST_LOSSES` losses are left out. Test figures of a method are `[folds, repeats]`.
    """
    printed = {dataset: figures for dataset, figures in printed.items() if len(families(figures)) >= FEWEST_LOSSES}
    folds = {values.shape[0] for values in trainings.values()}
    if len(folds) > 1:
        raise InvalidInput(
            f"Methods were trained on {' and '.join(map(str, sorted(folds)))} folds: expected one number of folds for "
            "all. Record runs of another protocol into a study of their own."
        )
    found = {}
    for dataset, figures in printed.items():
        others = [(figures, of) for name, of in printed.items() if name != dataset]
        found[dataset] = _agreement(trainings, [figures], others)
    shared = [method for method in trainings if all(method in figures for figures in printed.values())]
    if len(printed) > 1 and len(families(shared)) >= FEWEST_LOSSES:
        columns = [{method: figures[method] for method in shared} for figures in printed.values()]
        found[ALL] = _agreement(trainings, columns, list(itertools.combinations(columns, 2)))
    p_values = {name: of.p for name, of in found.items() if of.p is not None}
    adjusted = dict(zip(p_values, holm(list(p_values.values()))))
    return {name: of._replace(p=adjusted.get(name)) for name, of in found.items()}


def families(methods: Iterable[str]) -> list[list[int]]:
    """Return the places of the methods of each loss; methods are `LOSS[+...]`."""
    places: dict[str, list[int]] = {}
    for place, method in enumerate(methods):
        places.setdefault(method.partition("+")[0], []).append(place)
    return list(places.values())


def resampled_means(trainings: Sequence[np.ndarray], num_resamples: int, generator: np.random.Generator) -> np.ndarray:
    """Return means of drawn runs `[resamples, methods]` from each method's `[folds, repeats]`."""
    num_folds = trainings[0].shape[0]
    folds = generator.integers(num_folds, size=(num_resamples, max(num_folds - 1, 1)))
    columns = []
    for values in trainings:
        num_repeats = values.shape[1]
        if num_repeats == 1:
            drawn = values[folds, 0]
        else:
            repeats = generator.integers(num_repeats, size=(num_resamples, num_folds, num_repeats - 1))
            drawn = np.take_along_axis(values[None], repeats, axis=2)
        columns.append(drawn.reshape(num_resamples, -1).mean(axis=1))
    return np.stack(columns, axis=1)


def _agreement(trainings, columns: Sequence[Figures], pairs: Sequence[tuple[Figures, Figures]]) -> RankAgreement:
    """Bootstrap the mean coefficient over printed columns of the same methods."""
    methods = list(columns[0])
    values = [trainings[method] for method in methods]
    figures = np.array([[column[method] for method in methods] for column in columns])
    means = np.array([of.mean() for of in values])
    generator = np.random.default_rng(0)
    drawn_means, drawn = resampled_means(values, _NUM_RESAMPLES, generator), 0
    draws, losses = [], families(methods)
    for places in draws_by_size(losses, _NUM_RESAMPLES, generator):
        rows = slice(drawn, drawn := drawn + len(places))
        draws.append((np.take_along_axis(drawn_means[rows], places, axis=1), figures[:, places]))

    def resampled(coefficient: Coefficient) -> tuple[float, np.ndarray]:
        estimate = float(np.mean([coefficient(means, column) for column in figures]))
        found = [np.mean([coefficient(ours, theirs) for theirs in of_print], axis=0) for ours, of_print in draws]
        return estimate, np.concatenate(found)

    of_spearman, of_kendall = resampled(spearman_rows), resampled(kendall_rows)
    bounds, sizes = (_bounds(*of_spearman), _bounds(*of_kendall)), (len(methods), len(losses))
    found = RankAgreement(*sizes, *bounds, _ceiling(pairs, spearman_rows), _ceiling(pairs, kendall_rows), None)
    return found if found.threshold is None else found._replace(p=_p_value(of_spearman[1], found.threshold))


def _bounds(estimate: float, resampled: np.ndarray) -> Bounds:
    return Bounds(estimate, *map(float, np.nanpercentile(resampled, [2.5, 97.5])))


def _p_value(resampled: np.ndarray, threshold: float) -> float:
    """Return twice the smaller share of draws beside the threshold."""
    found = resampled[np.isfinite(resampled)]
    smaller = min((found <= threshold).sum(), (found >= threshold).sum())
    return min(1.0, 2 * (1 + int(smaller)) / (1 + len(found)))


def _ceiling(pairs: Sequence[tuple[Figures, Figures]], coefficient: Coefficient) -> Bounds | None:
    """Return mean, lowest and highest coefficient of column pairs over shared methods."""
    found = []
    for first, second in pairs:
        shared = [method for method in first if method in second]
        if len(families(shared)) >= FEWEST_LOSSES:
            ranked = (np.array([figures[method] for method in shared]) for figures in (first, second))
            found.append(float(coefficient(*ranked)))
    return Bounds(float(np.mean(found)), min(found), max(found)) if found else None
