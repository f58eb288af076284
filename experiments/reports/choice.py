"""Choice of a study's model by the validation classes of all folds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np

from common.retrieval.metrics import TABLE_METRICS
from common.training.methods import INTERPOLATED
from common.training.selection import choose
from experiments.reports.tables import TableRow, cell
from experiments.rows.rows import CLOSED_FORM, UNTRAINED, VALIDATED_BEFORE, Row, repeats_of_all_folds
from experiments.rows.run_folders import finished
from experiments.settings.run_settings import HEAD_STARTS, IDENTITY_START
from experiments.settings.splits import FEWEST_VALIDATION_CLASSES

_METRIC = "MAP@R"


class Candidate(NamedTuple):
    """A model that a study could keep."""

    words: str  # for people
    head_start: str | None  # the closed form that the head keeps; None: that of the study
    share: float  # of the way from the start to the selected weights

    @property
    def is_untrained(self) -> bool:
        """True if it is the pooled features of the untrained network."""
        return self.words == UNTRAINED


class StudyChoice(NamedTuple):
    """The chosen candidate of a whole study, and why."""

    candidate: Candidate
    validation: float  # its mean MAP@R on validation classes
    test: Mapping[str, float]  # its metrics on test classes, means over runs
    sentence: str

    def row(self, method: str, size: str) -> TableRow:
        """Return its line of a table with columns of that size."""
        return TableRow(f"{method}, chosen", {(size, metric): cell(value) for metric, value in self.test.items()})


def choice_of(rows: Iterable[Row], num_folds: int) -> StudyChoice | None:
    """Choose by the validation MAP@R of each fold; see `common.training.choose`.

    Returns:
        None for an incomplete study, or one whose runs were not measured on the way (`--interpolation`).
    """
    runs = {place: row for place, row in finished(rows).items() if INTERPOLATED in row["extras"]}
    repeats = repeats_of_all_folds(runs, num_folds)
    if not repeats:
        return None
    by_fold = [[runs[fold, repeat] for repeat in range(repeats)] for fold in range(num_folds)]
    validated, tested = _figures(by_fold, is_validated=True), _figures(by_fold, is_validated=False)
    candidates = [each for each in validated if each in tested]
    num_classes = sum(of_fold[0].result.get("validation_classes", 0) for of_fold in by_fold)
    start, trained = candidates[0], candidates[-1]
    if num_classes < FEWEST_VALIDATION_CLASSES:
        chosen, why = start, f"{num_classes} validation classes are too few to choose by ({FEWEST_VALIDATION_CLASSES})."
        validation = _means(validated[chosen])[_METRIC]
        return StudyChoice(chosen, validation, _means(tested[chosen]), f"Chosen: {chosen.words}. {why}")
    scores = {each.words: [of[_METRIC] for of in validated[each]] for each in candidates}
    choice = choose(scores)
    chosen = next(each for each in candidates if each.words == choice.name)
    percent = {words: f"{100 * mean:.1f}" for words, mean in choice.means.items()}
    why = f"MAP@R {percent[choice.name]} there"
    if choice.best != choice.name:
        why += f"; {choice.best} has {percent[choice.best]}, ahead by no more than chance ({100 * choice.margin:.1f})"
    others = dict.fromkeys(each.words for each in (start, trained) if each.words not in (choice.name, choice.best))
    why += "".join(f"; {words} {percent[words]}" for words in others)
    sentence = f"Chosen on {num_classes} validation classes in {num_folds} folds: {choice.name} ({why})."
    return StudyChoice(chosen, choice.means[choice.name], _means(tested[chosen]), sentence)


def _figures(by_fold: list[list[Row]], is_validated: bool) -> dict[Candidate, list[Mapping[str, float]]]:
    """Return the metrics of each fold for candidates of all folds, the simplest first."""
    found: dict[Candidate, list[Mapping[str, float]]] = {}
    for of_fold in by_fold:
        for candidate, figures in _of_fold(of_fold, is_validated).items():
            found.setdefault(candidate, []).append(figures)
    return {candidate: figures for candidate, figures in found.items() if len(figures) == len(by_fold)}


def _of_fold(runs: list[Row], is_validated: bool) -> dict[Candidate, Mapping[str, float]]:
    first, part = runs[0], "validation" if is_validated else "test"
    before = first["extras"].get(VALIDATED_BEFORE if is_validated else CLOSED_FORM, {})
    found = {Candidate(f"{UNTRAINED} + {name}", name, 0.0): before[name] for name in HEAD_STARTS if name in before}
    starts_untrained = first["configuration"].get("head_start") == IDENTITY_START
    for share in sorted(first["extras"][INTERPOLATED], key=float):
        words = f"trained, {100 * float(share):.0f} % of the way"
        if not float(share):
            words = UNTRAINED if starts_untrained else "the start of training"
        figures = _means([row["extras"][INTERPOLATED][share][part] for row in runs])
        found[Candidate(words, None, float(share))] = figures
    found[Candidate("trained", None, 1.0)] = _means([row[part] for row in runs])
    order = sorted(found, key=lambda each: (each.share, each.head_start is not None))
    return {each: found[each] for each in order}


def _means(figures: list[Mapping[str, float]]) -> dict[str, float]:
    names = [name for name in TABLE_METRICS if all(name in of for of in figures)]
    return {name: float(np.mean([of[name] for of in figures])) for name in names}
