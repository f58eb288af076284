"""Simulated studies that test the statistics of the reports.

The code that judges real studies judges them.

Command: python -m benchmarks.interval_coverage [--studies=1000] [--coverage_studies=10000] [--seed=0] [--only=claims]

Questions, the tables of README and of docs/statistics.md:

- How often does a 95 % interval cover the truth, by number of test classes, design and skewness, and for families?
- How often does a single paired difference of equal methods exclude the truth?
- How many tables of twelve equal methods have a star?
- How often is a figure called reproduced, or inconclusive, by its distance from the published one?
- How often does a claim hold, or fail, over 3, 5 and 8 data sets?

Skewed class effects are gamma variates with a skewness of 2.8. Coverage and stars have more studies than verdicts,
because their error has to be small beside the two points that they may be off by. Last line: one JSON object.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from absl import app, flags

from benchmarks import measure
from experiments import reports

CLASS_COUNTS = (8, 16, 30, 100)
DESIGNS = ((4, 1), (4, 3), (1, 3))  # (folds, repeats)
SKEWNESS = 2.8
NOISES = (0.1, 0.3, 0.5, 1.0, 2.0, 4.0)  # points: sd of one training
MARGIN = 0.5  # points
SPREADS = (1.0, 4.0, 16.0)  # of the noisiest method's runs, as a multiple of the quietest's
SET_COUNTS = (3, 5, 8)
SMALLEST_GAIN = 0.038  # the thesis' smallest for CCP with C2, of the baseline's MAP@R
GAINS = {"none": 0.0, "half": SMALLEST_GAIN / 2, "full": SMALLEST_GAIN}
NORMAL_SETS = {"normal, sd 2 %": 0.02, "normal, sd 4 %": 0.04, "normal, sd 10 %": 0.1}  # with the error of a study
OTHER_SETS = ("skewness 1, sd 4 %", "skewness -1, sd 4 %", "one in five loses 30 %")
CLAIM_WORDS = ("holds", "fails", "undecided")
GAPS = {"0": 0.0, "margin": MARGIN, "twice": 2 * MARGIN}  # true difference from the published figure, in points
_FLAGS = flags.FLAGS


class Population(NamedTuple):
    """Standard deviations of a score's parts, as fractions.

    Attributes:
        test_class: of the classes' difficulty, or of two methods' difference on a class.
        model: of runs.
        model_and_class: of a training's effect on a class.
        query: of a single query under a single model.
    """

    test_class: float
    model: float
    model_and_class: float
    query: float


SINGLE = Population(0.2, 0.02, 0.03, 0.14)
DIFFERENCE = Population(0.05, 0.028, 0.042, 0.14)
SCORES = {"figure, normal": (SINGLE, False), "figure, skewed": (SINGLE, True)}
SCORES |= {"difference, normal": (DIFFERENCE, False), "difference, skewed": (DIFFERENCE, True)}


class Effects(NamedTuple):
    """Standard deviations of a paired difference's parts, in points, and how settings are chosen.

    Attributes:
        test_class: of the difference on a class.
        fold, fold_and_class: of folds.
        run, run_and_class: of runs.
        setting: by how much the better of two trials is truly better, of each method.
        correlation: of a run's noise on validation and on test classes.
        training_class: of a block of training classes; each fold leaves one block out.
    """

    test_class: float = 0.7
    fold: float = 0.0
    fold_and_class: float = 0.0
    run: float = 0.17
    run_and_class: float = 0.2
    setting: float = 0.0
    correlation: float = 0.0
    training_class: float = 0.0


CASES = {
    "no fold effect": Effects(),
    "small fold effect": Effects(0.68, fold=0.04, fold_and_class=0.1),
    "fold effect as of a run": Effects(0.13, 0.11, 0.1, 0.11),
    "fold effect twice a run's": Effects(0.2, 0.2, 0.2, 0.1),
    "chosen among equal trials": Effects(0.13, 0.11, 0.1, 0.11, correlation=0.5),
    "chosen, better by .05": Effects(0.13, 0.11, 0.1, 0.11, setting=0.05, correlation=0.5),
    "chosen, better by .2": Effects(0.13, 0.11, 0.1, 0.11, setting=0.2, correlation=0.5),
    "new training classes": Effects(0.13, 0.0, 0.1, 0.11, training_class=0.2),
}
FAMILIES = {
    "59 of 10": np.full(59, 10),
    "93 of 1 to 31": 1 + (30 * 0.95 ** np.arange(93)).round().astype(int),  # such as the subgroups of emoji
}
CORRELATION = 0.35  # of the classes of a family, as on emoji and glyphs
PAIRED_DESIGNS = (*DESIGNS, (1, 1))
PAIRED_CLASSES = 98


def class_effects(generator: np.random.Generator, count: int, *, skewed: bool) -> np.ndarray:
    """Draw effects of classes with mean 0 and variance 1 `[classes]`."""
    if not skewed:
        return generator.normal(size=count)
    shape = (2 / SKEWNESS) ** 2
    return (generator.gamma(shape, size=count) - shape) / np.sqrt(shape)


def simulated_scores(
    generator: np.random.Generator,
    population: Population,
    num_classes: int,
    num_models: int,
    *,
    skewed: bool,
    counts: np.ndarray | None = None,
) -> reports.ClassScores:
    """Draw scores of true mean 0 of some models on classes.

    A class has 2 to 8 queries, or the given `counts`.
    """
    if counts is None:
        counts = generator.integers(2, 9, num_classes)
    effects = population.test_class * class_effects(generator, num_classes, skewed=skewed)
    of_models = population.model * generator.normal(size=(num_models, 1))
    of_both = population.model_and_class * generator.normal(size=(num_models, num_classes))
    of_queries = population.query * generator.normal(size=(num_models, num_classes)) / np.sqrt(counts)
    return reports.ClassScores((effects + of_models + of_both + of_queries) * counts, counts)


def coverage(
    generator: np.random.Generator,
    population: Population,
    num_classes: int,
    design: tuple[int, int],
    *,
    skewed: bool,
    studies: int,
) -> float:
    """Return the share of 95 % intervals that cover the truth, 0."""
    members, covered = reports.single_model_members(*design), 0
    for _ in range(studies):
        scores = simulated_scores(generator, population, num_classes, len(members), skewed=skewed)
        found = reports.class_clustered_interval(scores, members=members)
        covered += found.low <= 0 <= found.high
    return covered / studies


def family_coverage(
    generator: np.random.Generator, sizes: np.ndarray, folds_share: float, studies: int
) -> tuple[float, float]:
    """Return coverage of 95 % intervals by class and by family.

    Args:
        generator: of the studies.
        sizes: classes of each family `[families]`.
        folds_share: standard error from four folds, as a multiple of that from the choice of families and classes.
        studies: how many.
    """
    families, members = np.repeat(np.arange(len(sizes)), sizes), reports.single_model_members(4, 1)
    count = len(families)
    error = SINGLE.test_class * np.sqrt(CORRELATION * (sizes**2).sum() + (1 - CORRELATION) * count) / count
    population = SINGLE._replace(test_class=SINGLE.test_class * np.sqrt(1 - CORRELATION), model=2 * folds_share * error)
    covered = np.zeros(2)
    for _ in range(studies):
        own = simulated_scores(generator, population, count, len(members), skewed=False)
        shared = SINGLE.test_class * np.sqrt(CORRELATION) * generator.normal(size=len(sizes))[families]
        scores = reports.ClassScores(own.sums + shared * own.counts, own.counts)
        both = (reports.class_clustered_interval(of, members=members) for of in (scores, scores.by_family(families)))
        covered += [found.low <= 0 <= found.high for found in both]
    by_class, by_family = covered / studies
    return by_class, by_family


def chosen_runs(
    generator: np.random.Generator, effects: Effects, design: tuple[int, int], studies: int
) -> tuple[np.ndarray, np.ndarray]:
    """Draw runs of a method that validation chooses from two trials.

    Returns:
        The chosen setting's true effect `[studies]`; the noise of its runs on test classes `[studies, folds, repeats]`.
    """
    noise = generator.normal(size=(2, studies, 2, *design))  # of test, validation
    mixed = effects.correlation * noise[0] + np.sqrt(1 - effects.correlation**2) * noise[1]
    true = np.array([0.0, effects.setting])
    # The first repeat of each fold is that of the trials.
    validation = true + effects.run / np.sqrt(2) * mixed[..., 0].mean(axis=-1)
    chosen = validation.argmax(axis=1)
    return true[chosen], effects.run / np.sqrt(2) * noise[0][np.arange(studies), chosen]


def paired_false_alarms(
    generator: np.random.Generator, effects: Effects, design: tuple[int, int], studies: int
) -> float:
    """Return the share of 95 % intervals without the truth, for two equal methods.

    The truth is 0 for new folds. One split is judged for this split, one run for this run.
    """
    folds, repeats = design
    members, missed = reports.single_model_members(*design), 0
    (first, ours), (second, theirs) = (chosen_runs(generator, effects, design, studies) for _ in range(2))
    settings, runs = first - second, ours - theirs
    shape = (studies, *design)
    left_out = effects.training_class * generator.normal(size=(studies, max(folds, 4)))
    of_folds = effects.fold * generator.normal(size=(studies, folds))
    of_folds += (left_out.sum(axis=1, keepdims=True) - left_out[:, :folds]) / (left_out.shape[1] - 1)
    of_models = settings[:, None, None] + of_folds[..., None] + runs
    for study in range(studies):
        counts = generator.integers(70, 91, PAIRED_CLASSES)
        scores = effects.test_class * generator.normal(size=PAIRED_CLASSES)
        scores = scores + effects.fold_and_class * generator.normal(size=(folds, 1, PAIRED_CLASSES))
        scores = scores + effects.run_and_class * generator.normal(size=(*shape[1:], PAIRED_CLASSES))
        scores = (scores + of_models[study][..., None]).reshape(-1, PAIRED_CLASSES)
        found = reports.class_clustered_interval(reports.ClassScores(scores * counts / 100, counts), members=members)
        truth = 0.0
        if folds == 1:
            truth = (settings[study] + of_folds[study, 0] + (runs[study].mean() if repeats == 1 else 0.0)) / 100
        missed += not found.low <= truth <= found.high
    return missed / studies


def null_table(
    generator: np.random.Generator, largest: float = 1.0, num_rows: int = 12, num_classes: int = 60
) -> list[reports.TableRow]:
    """Simulate a table of equally good methods and their shared baseline.

    `num_rows` methods in four folds of one run. Spreads of runs grow evenly, in logarithms, to `largest` times the
    baseline's.
    """
    counts, members = generator.integers(2, 9, num_classes), reports.single_model_members(4, 1)
    population = SINGLE._replace(test_class=0.0)  # how hard a class is cancels
    methods = [
        simulated_scores(generator, noisy, num_classes, 4, skewed=False, counts=counts)
        for noisy in (population._replace(model=population.model * of) for of in np.geomspace(1, largest, num_rows + 1))
    ]
    rows = []
    for index, scores in enumerate(methods[1:]):
        found = reports.paired_difference(scores, methods[0], members=members)
        cell = reports.TableCell(found.estimate, bounds=found, is_difference=True, baseline="the baseline")
        rows.append(reports.TableRow(f"method {index}", {("minus baseline", "MAP@R"): cell}))
    return rows


def false_alarms(generator: np.random.Generator, largest: float, studies: int) -> tuple[float, np.ndarray]:
    """Return the share of null tables with a star, and rows' false alarms.

    The rows' are those of single intervals `[rows]`.
    """
    tables = [reports.compared(null_table(generator, largest)) for _ in range(studies)]
    cells = [[cell for row in rows for cell in row.cells.values()] for rows in tables]
    starred = np.array([[cell.is_significant for cell in of_table] for of_table in cells])
    missed = np.array([[cell.bounds.excludes_zero for cell in of_table] for of_table in cells])
    return float(starred.any(axis=1).mean()), missed.mean(axis=0)


def words(generator: np.random.Generator, noise: float, repeats: int, gap: float, studies: int) -> dict[str, float]:
    """Return how often each verdict is given to a four-fold mean.

    It differs truly by `gap` from the published figure.

    Args:
        generator: of the noise.
        noise: sd of one run, in points, of ours and of the published figure, which has three repeats.
        repeats: ours in each fold.
        gap: the true difference, in points.
        studies: how many.
    """
    printed = reports.published_value("5.1", "sop", "C1", 128, "MAP@R")
    counts = dict.fromkeys(("reproduced", "above", "below", "inconclusive"), 0)
    for _ in range(studies):
        spread = noise * np.sqrt(generator.chisquare(8) / 8) * np.sqrt(2 / 3) / 2  # the ± of 81 collections
        shift = generator.normal(0, noise / np.sqrt(12))
        target = reports.Target(printed, MARGIN, error=reports.error_of_collections(spread))
        own = printed.value + gap + shift + generator.normal(0, noise, (4 * repeats, 1))
        scores = reports.ClassScores(np.repeat(own / 100, 2, axis=1), np.ones(2))  # the classes do not differ
        bounds = reports.class_clustered_interval(scores, members=reports.single_model_members(4, repeats))
        counts[reports.judge(bounds.estimate, bounds, target).word] += 1
    return {word: count / studies for word, count in counts.items()}


def set_differences(generator: np.random.Generator, case: str, shape: tuple[int, int]) -> np.ndarray:
    """Draw relative differences of data sets, of mean 0 `[studies, sets]`."""
    if case in NORMAL_SETS:
        return NORMAL_SETS[case] * generator.normal(size=shape)
    if case == OTHER_SETS[2]:
        return 0.02 * generator.normal(size=shape) - 0.3 * (generator.random(shape) < 0.2) + 0.06
    skewed = 0.04 * (generator.gamma(4.0, size=shape) - 4.0) / 2
    return skewed if case == OTHER_SETS[0] else -skewed


def claim_words(
    generator: np.random.Generator, case: str, num_sets: int, gain: float, studies: int, fewest_sets: int
) -> dict[str, float]:
    """Return how often a claim of true mean `gain` holds, fails or is undecided."""
    counts = dict.fromkeys(CLAIM_WORDS, 0)
    for differences in gain + set_differences(generator, case, (studies, num_sets)):
        counts[reports.claim_verdict(reports.summary_over_sets(differences), SMALLEST_GAIN, fewest_sets)] += 1
    return {word: count / studies for word, count in counts.items()}


def shown(title: str, header: Sequence[str], shares: dict[tuple, Sequence[float]]) -> np.ndarray:
    """Print shares in percent, a line for each key; return them `[lines, columns]`."""
    print(f"\n{title}")
    measure.print_table(header, [[*key, *(f"{100 * share:.1f}" for share in line)] for key, line in shares.items()])
    return np.array(list(shares.values()))


def print_coverage(generator: np.random.Generator, studies: int) -> np.ndarray:
    """Print the coverages by scores, classes and design; return them."""
    shares = {
        (name, count): [coverage(generator, of, count, design, skewed=skewed, studies=studies) for design in DESIGNS]
        for (name, (of, skewed)), count in itertools.product(SCORES.items(), CLASS_COUNTS)
    }
    error = 100 * np.sqrt(0.95 * 0.05 / studies)
    title = f"Coverage of 95 % intervals (%), {studies} studies per figure: a standard error of {error:.2f}"
    return shown(title, ("", "classes", *(f"{folds} x {repeats}" for folds, repeats in DESIGNS)), shares)


def print_paired(generator: np.random.Generator, studies: int) -> np.ndarray:
    """Print false alarms by effects and design; return them."""
    shares = {
        (name,): [paired_false_alarms(generator, effects, design, studies) for design in PAIRED_DESIGNS]
        for name, effects in CASES.items()
    }
    title = f"False alarms of single paired differences (%), {studies} studies; nominal: 5"
    return shown(title, ("", *(f"{folds} x {repeats}" for folds, repeats in PAIRED_DESIGNS)), shares)


def print_families(generator: np.random.Generator, studies: int) -> np.ndarray:
    """Print coverages of intervals by class and by family; return them."""
    shares = {
        (name, f"{share:g}"): family_coverage(generator, sizes, share, studies)
        for (name, sizes), share in itertools.product(FAMILIES.items(), (0.0, 1.0))
    }
    title = f"Coverage of 95 % intervals (%), families with a correlation of {CORRELATION:g}, 4 x 1, {studies} studies"
    return shown(title, ("families", "folds", "by class", "by family"), shares)


def print_stars(generator: np.random.Generator, studies: int) -> np.ndarray:
    """Print tables with a star, and rows' false alarms, by spread; return them."""
    alarms = {largest: false_alarms(generator, largest, studies) for largest in SPREADS}
    shares = {(f"{of:g}",): (starred, single.mean(), single[-1]) for of, (starred, single) in alarms.items()}
    title = f"Tables of 12 equal methods (%), 4 x 1, {studies} tables each, by spread of the noisiest method's runs"
    return shown(title, ("spread", "with a star", "single intervals: mean of rows", "noisiest row"), shares)


def print_words(generator: np.random.Generator, studies: int) -> np.ndarray:
    """Print the shares of verdicts `[repeats and noises, verdict and gap]`; return them."""
    shares = {}
    for repeats, noise in itertools.product((1, 3), NOISES):
        found = [words(generator, noise, repeats, gap, studies) for gap in GAPS.values()]
        shares[repeats, noise] = [of_gap[word] for word in ("reproduced", "inconclusive") for of_gap in found]
    title = f"Verdicts (%) with a margin of {MARGIN:g} points, by sd of a training (points) and true difference"
    header = ("repeats", "noise", *(f"reproduced: {gap}" for gap in GAPS), *(f"inconclusive: {gap}" for gap in GAPS))
    return shown(title, header, shares)


def print_claims(generator: np.random.Generator, studies: int) -> dict[str, float]:
    """Print verdicts on claims; return the errors of the rule.

    The table leaves out the smallest number of sets, to show why it is needed.
    """
    shares = {}
    for case, count in itertools.product((*NORMAL_SETS, *OTHER_SETS), SET_COUNTS):
        found = [claim_words(generator, case, count, gain, studies, 2) for gain in GAINS.values()]
        shares[case, count] = [share for of_gain in found for share in of_gain.values()]
    title = f"Verdicts on claims (%), {studies} studies each, smallest gain of the thesis {100 * SMALLEST_GAIN:g} %"
    header = ("data sets", "sets", *(f"gain {gain}: {word}" for gain in GAINS for word in CLAIM_WORDS))
    by_line = shown(title, header, shares)
    wrong = {"holds_without_gain": by_line[:, 0], "fails_at_half_or_more": by_line[:, [4, 7]].max(axis=1)}
    normal = len(NORMAL_SETS) * len(SET_COUNTS)
    figures = {f"claim_{name}_max": of[:normal].max() for name, of in wrong.items()}
    return figures | {f"claim_{name}_other_sets_max": of[normal:].max() for name, of in wrong.items()}


def main(_) -> None:
    """Run all simulations, or those of claims, and print their tables."""
    generator, studies, many = np.random.default_rng(_FLAGS.seed), _FLAGS.studies, _FLAGS.coverage_studies
    figures = {}
    if _FLAGS.only is None:
        covered, paired = print_coverage(generator, many), print_paired(generator, many)
        by_family = print_families(np.random.default_rng(_FLAGS.seed), many)
        starred = print_stars(generator, many)
        figures = {
            "false_alarm_tables_12_rows_max": starred[:, 0].max(),
            "false_alarms_of_noisiest_row_max": starred[:, 2].max(),
            "coverage_min": covered.min(),
            "coverage_max": covered.max(),
            "coverage_by_family_min": by_family[:, 1].min(),
            "paired_false_alarms_max": paired.max(),
            "reproduced_at_twice_margin_max": print_words(generator, studies)[:, 2].max(),
        }
    # Draws of its own, so that the figures do not depend on --only.
    measure.print_figures(figures | print_claims(np.random.default_rng(_FLAGS.seed), many))


if __name__ == "__main__":
    flags.DEFINE_integer("studies", 1000, "Simulated studies per figure of verdicts.", lower_bound=1)
    flags.DEFINE_integer(
        "coverage_studies", 10_000, "Simulated studies per figure of coverage, tables and claims.", lower_bound=1
    )
    flags.DEFINE_integer("seed", 0, "Of the simulations.")
    flags.DEFINE_enum("only", None, ["claims"], "The one simulation to run (default: all).")
    app.run(main)
