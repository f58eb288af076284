"""Choice of a study's model by the validation classes of all folds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np

from common.backbones.network_names import CHANNELS
from common.retrieval.metrics import TABLE_METRICS
from common.training.methods import INTERPOLATED
from common.training.selection import choose
from experiments.reports.tables import TableRow, cell
from experiments.rows.rows import CLOSED_FORM, UNTRAINED, VALIDATED_BEFORE, Row, repeats_of_all_folds
from experiments.rows.run_folders import finished
from experiments.settings.run_settings import AVERAGE_POOLING, HEAD_STARTS, IDENTITY_START
from experiments.settings.splits import FEWEST_VALIDATION_CLASSES


class Candidate(NamedTuple):
    """A model that a study could keep."""

    words: str  # for people
    head_start: str | None  # of a model without training; None: as in the study
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
    """Choose by the validation MAP@R of each fold; see `common.training.selection.choose`.

    Returns:
        None for an incomplete study, one that began at random, or one whose runs validated neither their start nor the
        weights on the way (`--interpolation`).
    """
    runs = {place: row for place, row in finished(rows).items() if _is_measured(row)}
    repeats = repeats_of_all_folds(runs, num_folds)
    if not repeats:
        return None
    by_fold = [[runs[fold, repeat] for repeat in range(repeats)] for fold in range(num_folds)]
    validated, tested = _figures(by_fold, is_validated=True), _figures(by_fold, is_validated=False)
    candidates = [each for each in validated if each in tested]
    scores = {each: [of["MAP@R"] for of in validated[each]] for each in candidates}
    simplest, trained = candidates[0], candidates[-1]
    num_classes = sum(_validation_classes(of_fold[0]) or 0 for of_fold in by_fold)
    doubt = None
    if num_classes < FEWEST_VALIDATION_CLASSES:
        needed = f"{FEWEST_VALIDATION_CLASSES} are needed"
        doubt = f"{num_classes} validation classes are too few to compare models ({needed})"
    elif len({*scores[simplest]}) == 1:
        doubt = "all folds validate on the same classes, so that the noise of a choice is unknown"
    if doubt:
        sentence = f"The simplest model ({simplest.words}) was chosen, because {doubt}."
        return StudyChoice(simplest, float(np.mean(scores[simplest])), _means(tested[simplest]), sentence)
    choice = choose({str(place): scores[each] for place, each in enumerate(candidates)})
    chosen, best = candidates[int(choice.name)], candidates[int(choice.best)]
    percent = {each: f"{100 * np.mean(scores[each]):.1f}" for each in candidates}
    why = f"MAP@R {percent[chosen]} there"
    if best is not chosen:
        why += f"; {best.words} has {percent[best]}, ahead by no more than chance ({100 * choice.margin:.1f})"
    why += "".join(f"; {each.words} {percent[each]}" for each in (simplest, trained) if each not in (chosen, best))
    sentence = f"Chosen on {num_classes} validation classes in {num_folds} folds: {chosen.words} ({why})."
    return StudyChoice(chosen, float(np.mean(scores[chosen])), _means(tested[chosen]), sentence)


def _is_measured(row: Row) -> bool:
    """Return whether a run can be chosen from."""
    way = row["extras"].get(INTERPOLATED)
    begins_known = row["configuration"].get("head_start") in (IDENTITY_START, *HEAD_STARTS)
    return (
        bool(way) and begins_known and ("0" in way or _has_closed_forms(row)) and _validation_classes(row) is not None
    )


def _validation_classes(row: Row) -> int | None:
    return row["extras"].get("validation_classes", row.result.get("validation_classes"))  # earlier rows have the latter


def _has_closed_forms(row: Row) -> bool:
    """Return whether closed forms of average features are measured before training."""
    configuration = row["configuration"]
    is_average = (configuration.get("pooling"), configuration.get("normalization")) == (AVERAGE_POOLING, "unit")
    return is_average and bool(row["extras"].get(VALIDATED_BEFORE))


def _figures(by_fold: list[list[Row]], is_validated: bool) -> dict[Candidate, list[Mapping[str, float]]]:
    """Return the metrics of each fold for candidates of all folds, the simplest first."""
    found: dict[Candidate, list[Mapping[str, float]]] = {}
    for of_fold in by_fold:
        for candidate, figures in _of_fold(of_fold, is_validated).items():
            found.setdefault(candidate, []).append(figures)
    return {candidate: figures for candidate, figures in found.items() if len(figures) == len(by_fold)}


def _of_fold(runs: list[Row], is_validated: bool) -> dict[Candidate, Mapping[str, float]]:
    first, part = runs[0], "validation" if is_validated else "test"
    configuration, starts = first["configuration"], dict[str, Mapping[str, float]]()
    start = configuration["head_start"]
    if _has_closed_forms(first):
        before = first["extras"][VALIDATED_BEFORE]
        if start == IDENTITY_START or CHANNELS.get(configuration.get("backbone")) == configuration["embedding_dim"]:
            starts[IDENTITY_START] = before[UNTRAINED] if is_validated else first[UNTRAINED]
        starts |= before if is_validated else first["extras"].get(CLOSED_FORM, {})
    measured = first["extras"][INTERPOLATED]
    way = {float(share): _means([row["extras"][INTERPOLATED][share][part] for row in runs]) for share in measured}
    if 0.0 in way:
        starts[start] = way.pop(0.0)
    found = {
        Candidate(UNTRAINED if name == IDENTITY_START else f"{UNTRAINED} + {name}", name, 0.0): starts[name]
        for name in (IDENTITY_START, *HEAD_STARTS)
        if name in starts
    }
    found |= {Candidate(f"trained, {100 * share:g} % of the way", None, share): way[share] for share in sorted(way)}
    return {**found, Candidate("trained", None, 1.0): _means([row[part] for row in runs])}


def _means(figures: list[Mapping[str, float]]) -> dict[str, float]:
    names = [name for name in TABLE_METRICS if all(name in of for of in figures)]
    return {name: float(np.mean([of[name] for of in figures])) for name in names}
