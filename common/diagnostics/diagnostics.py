"""Diagnostics of embeddings besides retrieval: one record, and a warning of collapse."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from common.diagnostics.class_geometry import alignment, class_covering_radii, class_distances, uniformity
from common.diagnostics.clustering import evaluate_clustering
from common.diagnostics.spectral_decay import spectral_decay
from common.errors import InvalidInput
from common.retrieval.evaluator import evaluate_retrieval
from common.retrieval.exact_scale import brought_to_one
from common.retrieval.labels import class_codes
from common.retrieval.metrics import TABLE_METRICS
from common.retrieval.search.distinct_rows import find_distinct_rows

_COLLAPSED_SPREAD = 1e-3  # spread over length below which embeddings are a point
_RANK_ONE_VARIANCE = 0.999  # share of the variance along one direction from which they are a line
_MAX_COVERED_ITEMS = 128  # items of a class that its covering radius looks at
_MOSTLY_DISTINCT = 0.5  # share of distinct embeddings below which most are copies


@dataclass(frozen=True)
class Diagnostics:
    """Figures of one set of embeddings, and a warning if they have collapsed.

    The names are `diagnostic_names.NAMES`.

    Attributes:
        figures: name -> value; NMI only if requested.
        warning: a sentence if the embeddings have collapsed, else None.
    """

    figures: dict[str, float]
    warning: str | None

    def as_dict(self) -> dict:
        """Return JSON values: the figures to eight digits, and any warning."""
        figures = {name: float(f"{value:.8g}") for name, value in self.figures.items()}
        return {**figures, **({"warning": self.warning} if self.warning else {})}


def diagnose(embeddings: np.ndarray, labels: np.ndarray, *, clustering: bool = False, seed: int = 0) -> Diagnostics:
    """Compute all diagnostics of embeddings and their classes.

    rho and the covering radius use the embeddings as they are, all others their unit vectors.

    Reference: Milbich, dissertation, section 2.4; Wang and Isola, 2020; thesis figure 3.3.

    Args:
        embeddings: `[items, dim]`, finite.
        labels: integers of any size `[items]`; if no class has two items, figures that compare such items are omitted.
        clustering: also NMI, by k-means, one cluster per class: the only slow one.
        seed: of k-means, and of the sample of items for uniformity if there are many.

    Raises:
        InvalidInput: embeddings that are not finite, less than two of them, or labels that do not fit.
    """
    embeddings = np.asarray(embeddings)
    figures = {"rho": spectral_decay(embeddings)}
    if embeddings.shape[1] > 1:
        figures["rho@2"] = spectral_decay(embeddings, skip_top=1)
    sizes = np.bincount(class_codes("labels", labels, len(embeddings)))
    if len(sizes) > 1 and sizes.max() > 1:
        for suffix, convention in (("", "code"), ("_print", "print")):
            distances = class_distances(embeddings, labels, convention)
            names = (f"pi_intra{suffix}", f"pi_inter{suffix}", f"pi_ratio{suffix}")
            figures |= dict(zip(names, (*distances, distances.ratio)))
    figures["covering_radius"] = float(class_covering_radii(embeddings, labels, max_items=_MAX_COVERED_ITEMS).mean())
    if sizes.max() > 1:
        figures["alignment"] = alignment(embeddings, labels)
    figures["uniformity"] = uniformity(embeddings, seed=seed)
    if clustering:
        figures["NMI"] = evaluate_clustering(embeddings, labels, seed=seed).normalized_mutual_information
    finite = {name: value for name, value in figures.items() if np.isfinite(value)}
    return Diagnostics(finite, collapse_warning(embeddings))


def collapse_warning(embeddings: np.ndarray) -> str | None:
    """Describe collapsed embeddings in a sentence, or return None.

    Embeddings are collapsed in three cases: they lie within a thousandth of their length of one point, more than half
    of them are exact copies of others, or 99.9 % of their variance lies along one of several directions.

    Args:
        embeddings: `[items, dim]`, finite.
    """
    points, exponent = brought_to_one("embeddings", np.asarray(embeddings))
    centred = points - points.mean(axis=0)
    length, spread = np.sqrt((points**2).sum(axis=1).mean()), np.sqrt((centred**2).sum(axis=1).mean())
    if spread <= _COLLAPSED_SPREAD * length:
        with np.errstate(over="ignore"):  # a length may exceed the largest coordinate that there is
            spread, length = np.ldexp([spread, length], exponent)
        return f"The embeddings have collapsed to a point: they lie within {spread:.2g} of it, at length {length:.2g}."
    distinct = len(find_distinct_rows(points).first) / len(points)
    if distinct < _MOSTLY_DISTINCT:
        return f"Only {100 * distinct:.0f} % of the embeddings are distinct: the others are copies."
    if points.shape[1] > 1:
        variances = np.linalg.eigvalsh(centred.T @ centred)
        share = variances[-1] / variances.sum()
        if share >= _RANK_ONE_VARIANCE:
            return (
                f"The embeddings have collapsed to a line: one direction holds {100 * share:.2f} % of their variance."
            )
    return None


def generalization_gap(
    test_embeddings: np.ndarray,
    test_labels: np.ndarray,
    training_embeddings: np.ndarray,
    training_labels: np.ndarray,
) -> dict[str, float]:
    """Return test minus training figures of one model.

    Each set is searched in itself. The gap is negative if unseen classes are harder.

    Reference: Milbich, dissertation, table 3.6 (of R@1, which is P@1).

    Args:
        test_embeddings, test_labels: `[items, dim]` and `[items]` of unseen classes.
        training_embeddings, training_labels: `[training items, dim]` and `[training items]`.

    Returns:
        The difference of each of `TABLE_METRICS`, as fractions.
    """
    test, training = np.asarray(test_embeddings), np.asarray(training_embeddings)
    if test.ndim != 2 or training.shape[1:] != test.shape[1:]:
        raise InvalidInput(
            f"Invalid embeddings: received {list(test.shape)} and {list(training.shape)}, expected [items, dim] of one "
            "model for both."
        )
    of_test = evaluate_retrieval(test, test_labels).as_dict()
    of_training = evaluate_retrieval(training, training_labels).as_dict()
    return {metric: of_test[metric] - of_training[metric] for metric in TABLE_METRICS}
