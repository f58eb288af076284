"""Choice among models by validation classes: the simplest that none beats clearly."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, TypeVar

import numpy as np
from scipy.special import stdtrit

from common.errors import check_fraction, invalid

Model = TypeVar("Model", bound=Callable[[np.ndarray], np.ndarray])


class Choice(NamedTuple):
    """What `choose` found.

    Attributes:
        name: of the chosen candidate.
        best: of the candidate with the highest mean; another one if the choice is simpler and not clearly worse.
        means: of the scores, by candidate.
        margin: what the best is ahead of the chosen one by chance at most, at the confidence that was asked for.
    """

    name: str
    best: str
    means: dict[str, float]
    margin: float


def choose(scores: Mapping[str, Sequence[float] | np.ndarray], confidence: float = 0.9) -> Choice:
    """Choose the simplest candidate that the best one does not beat clearly.

    The best has the highest mean. It beats another one if the mean of their paired differences exceeds Student's
    quantile times its standard error. So few blocks, or noisy ones, choose a simple candidate. One block alone tells
    nothing about noise: then the first candidate is chosen.

    Args:
        scores: by candidate, the simplest first; higher is better. All have the same blocks: scores of independent
            validation classes, or means of a fold's classes.
        confidence: of one-sided intervals, in (0, 1).

    Raises:
        InvalidInput: no candidates, other blocks, or scores that are not finite.

    Examples:
        >>> from common.training.selection import choose
        >>> choose({"untrained": [0.50, 0.40, 0.60], "trained": [0.56, 0.45, 0.67]}).name
        'trained'
        >>> choose({"untrained": [0.50, 0.40, 0.60], "trained": [0.70, 0.35, 0.55]}).name
        'untrained'
    """
    check_fraction("confidence", confidence)
    arrays = {name: np.asarray(values, np.float64) for name, values in scores.items()}
    shapes = {values.shape for values in arrays.values()}
    if len(shapes) != 1 or len(shape := next(iter(shapes))) != 1 or not shape[0]:
        expected = "one or more numbers of each candidate, equally many"
        raise invalid("scores", received=f"shapes {sorted(shapes)}", expected=expected)
    if not all(np.isfinite(values).all() for values in arrays.values()):
        raise invalid("scores", received="NaN or infinite values", expected="finite numbers")
    means = {name: float(values.mean()) for name, values in arrays.items()}
    best = max(means, key=lambda name: means[name])
    for name, values in arrays.items():
        ahead = arrays[best] - values
        margin = np.inf
        if len(ahead) > 1:
            margin = stdtrit(len(ahead) - 1, confidence) * ahead.std(ddof=1) / np.sqrt(len(ahead))
        if name == best or ahead.mean() <= margin:
            break
    return Choice(name, best, means, 0.0 if name == best else float(margin))


def choose_model(
    candidates: Mapping[str, Model], images: np.ndarray, labels: np.ndarray, confidence: float = 0.9
) -> tuple[Model, Choice]:
    """Choose among models by the MAP@R of each validation class; return the model, too.

    Args:
        candidates: from `images` to embeddings `[images, dim]`, by name, the simplest first: the untrained network,
            its closed forms, what was trained.
        images: of classes that none of them was trained on; as the candidates take them.
        labels: integers `[images]`.
        confidence: see `choose`.

    Raises:
        InvalidInput: see `choose` and `common.retrieval.evaluate_retrieval`.
    """
    from common.retrieval import class_table, evaluate_retrieval

    scores = {}
    for name, embed in candidates.items():
        result = evaluate_retrieval(np.asarray(embed(images)), labels)
        scores[name] = class_table(result, labels).map_at_r
    choice = choose(scores, confidence)
    return candidates[choice.name], choice
