"""Coverage of alternative rules for the 95 % interval of the reports.

Command: python -m benchmarks.interval_rules [--studies=20000] [--seed=1]

The studies are those of `benchmarks.interval_coverage`, all at once in arrays. A rule has a quantile for the classes'
part and a way to join it with that of training:

* Student, Hall's cubic transformation (no side below Student's), the reports' shift, or bootstrap-t over classes (199
  resamples, a tenth of the studies);
* Cochran and Cox, Satterthwaite, or their mean.

Last line: one JSON object, the lowest and the highest coverage (%) of each rule over the 48 cells.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from absl import app, flags
from scipy.stats import t

from benchmarks import measure
from benchmarks.interval_coverage import CLASS_COUNTS, DESIGNS, DIFFERENCE, SINGLE, Population, class_effects
from experiments.reports.intervals import shifted_quantiles

RESAMPLES, BOOTSTRAP_SHARE = 199, 10
LEVEL = 0.975
_CHUNK = 1000
_FLAGS = flags.FLAGS


class Studies(NamedTuple):
    """Statistics of simulated studies, `[studies]` each except the last two.

    Attributes:
        estimate: of a true value of 0.
        of_classes, of_training: variances.
        class_freedom: degrees of freedom of the first.
        skewness: of the estimate over choices of classes.
        training_freedom: one number.
        deviations, shares: of each class `[studies, classes]`.
    """

    estimate: np.ndarray
    of_classes: np.ndarray
    of_training: np.ndarray
    class_freedom: np.ndarray
    skewness: np.ndarray
    training_freedom: float
    deviations: np.ndarray
    shares: np.ndarray


def simulated(
    generator: np.random.Generator,
    population: Population,
    num_classes: int,
    design: tuple[int, int],
    *,
    skewed: bool,
    studies: int,
) -> Studies:
    """Simulate studies and compute their statistics.

    The statistics are those of `reports.class_clustered_interval` for one study.
    """
    folds, repeats = design
    counts = generator.integers(2, 9, (studies, num_classes))
    effects = class_effects(generator, studies * num_classes, skewed=skewed).reshape(studies, 1, num_classes)
    shape = (studies, folds * repeats, num_classes)
    scores = population.test_class * effects + population.model * generator.normal(size=(*shape[:2], 1))
    scores = scores + population.model_and_class * generator.normal(size=shape)
    scores = (scores + population.query * generator.normal(size=shape) / np.sqrt(counts)[:, None]) * counts[:, None]
    total = counts.sum(axis=1, keepdims=True)
    shares, averaged = counts / total, scores.mean(axis=1)
    estimate = averaged.sum(axis=1) / total[:, 0]
    deviations = averaged / total - estimate[:, None] * shares
    effective = (shares**2).sum(axis=1) ** 2 / (shares**4).sum(axis=1)
    skewness = (deviations**3).sum(axis=1) / (deviations**2).sum(axis=1) ** 1.5
    observed = scores / total[:, None]  # of a single fold the repeats, else the folds' means
    if folds > 1:
        observed = observed.reshape(studies, folds, repeats, num_classes).mean(axis=2)
    count = observed.shape[1]
    totals = observed.sum(axis=-1)
    of_both = observed - totals[..., None] * shares[:, None]
    of_both = (of_both - of_both.mean(axis=1, keepdims=True)) ** 2 / (1 - shares[:, None])
    shared = of_both.sum(axis=(1, 2)) / count / (count - 1)
    return Studies(
        estimate,
        np.maximum((deviations**2 / (1 - shares)).sum(axis=1) - shared, 0),
        totals.var(axis=1, ddof=1) / count,
        effective - 1,
        skewness * np.sqrt(effective * (effective - 1)) / (effective - 2),
        float(count - 1),
        deviations,
        shares,
    )


def student(studies: Studies) -> np.ndarray:
    """Return Student's quantile below and above `[2, studies]`."""
    return np.stack(2 * [t.ppf(LEVEL, studies.class_freedom)])


def shifted(studies: Studies) -> np.ndarray:
    """Return the quantiles of `reports.intervals.skewed_quantiles` `[2, studies]`."""
    quantile = student(studies)[0]
    tail, other = shifted_quantiles(quantile, studies.skewness, studies.class_freedom + 1)
    return np.where(studies.skewness >= 0, [other, tail], [tail, other])


def hall(studies: Studies) -> np.ndarray:
    """Return the quantiles of Hall's cubic transformation.

    Skewness is enlarged by 1 + 8 / classes; no side is below Student's.
    """
    quantile = student(studies)[0]
    enlarged = studies.skewness * (1 + 8 / (studies.class_freedom + 1))
    ends = [side * 3 / enlarged * (np.cbrt(1 + enlarged * (side * quantile - enlarged / 6)) - 1) for side in (1, -1)]
    return np.maximum(quantile, ends)


def bootstrap_t(studies: Studies, generator: np.random.Generator) -> np.ndarray:
    """Return quantiles of the studentised mean over resampled classes."""
    num_classes = studies.shares.shape[1]
    found = np.empty((2, len(studies.estimate)))
    for index, (deviations, shares) in enumerate(zip(studies.deviations, studies.shares, strict=True)):
        chosen = generator.multinomial(num_classes, np.full(num_classes, 1 / num_classes), RESAMPLES)
        size = chosen @ shares
        mean = chosen @ deviations / size
        spread = chosen @ deviations**2 - 2 * mean * (chosen @ (deviations * shares)) + mean**2 * (chosen @ shares**2)
        with np.errstate(divide="ignore", invalid="ignore"):
            studentised = mean * size / np.sqrt(np.maximum(spread, 0) * num_classes / (num_classes - 1))
        low, high = np.nanquantile(studentised, [1 - LEVEL, LEVEL])
        found[:, index] = high, -low
    return found


def half_widths(studies: Studies, quantiles: np.ndarray, cochran: float) -> np.ndarray:
    """Return the reach of intervals below and above `[2, studies]`.

    `cochran`: the weight of that rule, 0 to 1.
    """
    total = studies.of_classes + studies.of_training
    plain, of_training = student(studies)[0], t.ppf(LEVEL, studies.training_freedom)
    squares = studies.of_classes**2 / studies.class_freedom + studies.of_training**2 / studies.training_freedom
    satterthwaite = t.ppf(LEVEL, total**2 / squares)
    joined = (studies.of_classes * plain + studies.of_training * of_training) / total
    shift = studies.of_classes / total * (quantiles - plain)
    return np.sqrt(total) * (cochran * joined + (1 - cochran) * satterthwaite + shift)


def covered(studies: Studies, widths: np.ndarray) -> np.ndarray:
    """Return whether each interval covers the truth."""
    return (studies.estimate - widths[0] <= 0) & (studies.estimate + widths[1] >= 0)


def coverages(generator: np.random.Generator, studies: Studies, resampled: int) -> dict[str, np.ndarray]:
    """Return whether each study is covered, by rule.

    Bootstrap-t has only the first `resampled` studies.
    """
    few = Studies(*(part[:resampled] if isinstance(part, np.ndarray) else part for part in studies))
    return {
        "Student, Cochran and Cox": covered(studies, half_widths(studies, student(studies), 1.0)),
        "Student, Satterthwaite": covered(studies, half_widths(studies, student(studies), 0.0)),
        "Hall, Cochran and Cox": covered(studies, half_widths(studies, hall(studies), 1.0)),
        "Hall, mean of both": covered(studies, half_widths(studies, hall(studies), 0.5)),
        "bootstrap-t, mean of both": covered(few, half_widths(few, bootstrap_t(few, generator), 0.5)),
        "shift, Cochran and Cox": covered(studies, half_widths(studies, shifted(studies), 1.0)),
        "shift, Satterthwaite": covered(studies, half_widths(studies, shifted(studies), 0.0)),
        "shift, mean of both": covered(studies, half_widths(studies, shifted(studies), 0.5)),
    }


def of_cell(generator: np.random.Generator, cell: tuple, studies: int) -> Mapping[str, float]:
    """Return each rule's coverage (%) in one cell.

    A cell is (population, skewed, classes, design).
    """
    population, skewed, num_classes, design = cell
    found: dict[str, list] = {}
    for start in range(0, studies, _CHUNK):
        size = min(_CHUNK, studies - start)
        batch = simulated(generator, population, num_classes, design, skewed=skewed, studies=size)
        for rule, hits in coverages(generator, batch, -(-size // BOOTSTRAP_SHARE)).items():
            found.setdefault(rule, []).append(hits)
    return {rule: 100 * float(np.concatenate(hits).mean()) for rule, hits in found.items()}


def main(_) -> None:
    """Simulate all cells; print each rule's lowest and highest coverage."""
    generator = np.random.default_rng(_FLAGS.seed)
    cells = list(itertools.product((SINGLE, DIFFERENCE), (False, True), CLASS_COUNTS, DESIGNS))
    found = [of_cell(generator, cell, _FLAGS.studies) for cell in cells]
    rows, figures = [], {}
    for rule in found[0]:
        shares = [of[rule] for of in found]
        outside = sum(not 93 <= share <= 97 for share in shares)
        rows.append([rule, f"{min(shares):.1f}", f"{max(shares):.1f}", f"{outside} of {len(shares)}"])
        figures[rule] = [round(min(shares), 2), round(max(shares), 2)]
    measure.print_table(["rule", "lowest, %", "highest, %", "cells outside 93 to 97"], rows)
    measure.print_figures(figures)


if __name__ == "__main__":
    flags.DEFINE_integer("studies", 20_000, "Simulated studies per cell.", lower_bound=1)
    flags.DEFINE_integer("seed", 1, "Of the simulations.")
    app.run(main)
