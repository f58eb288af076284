"""Figures of held-back training images, for the teacher of PADS."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from common.diagnostics import class_distances, evaluate_clustering
from common.retrieval import evaluate_retrieval


def held_back_figures(
    embeddings: np.ndarray, labels: np.ndarray, recall_at: Sequence[int] = (1, 2, 4, 8), seed: int = 0
) -> dict[str, float]:
    """Measure R@k, NMI of k-means, and mean intra- and inter-class cosine distances.

    Reference: Milbich's dissertation, section 5.4 (the metrics of the state).

    Args:
        embeddings: `[items, dim]`.
        labels: integers `[items]`, at least two of each class.
        recall_at: the k of R@k.
        seed: of k-means.

    Returns:
        `R@k` for each k, `NMI`, `pi_intra` and `pi_inter` (distances by the convention "code").

    Raises:
        InvalidInput: embeddings that are not finite, or labels of one class only.
    """
    retrieved = evaluate_retrieval(embeddings, labels, recall_at=recall_at).as_dict()
    distances = class_distances(embeddings, labels, "code")
    return {
        **{f"R@{k}": retrieved[f"R@{k}"] for k in recall_at},
        "NMI": evaluate_clustering(embeddings, labels, seed=seed).normalized_mutual_information,
        "pi_intra": distances.intra,
        "pi_inter": distances.inter,
    }
