"""Agreement of k-means clusters of the embeddings with the classes."""

from __future__ import annotations

import warnings
from typing import NamedTuple

import numpy as np

from common.errors import InvalidInput, invalid
from common.retrieval.exact_scale import brought_to_one
from common.retrieval.labels import class_codes

LARGEST_SEED = 2**32 - 1  # of scikit-learn


class ClusteringResult(NamedTuple):
    """Agreement of clusters and classes."""

    adjusted_mutual_information: float  # AMI: 1 for equal partitions, 0 on average for random ones
    normalized_mutual_information: float  # NMI in [0, 1]: grows with the number of clusters even for random ones
    num_clusters: int

    def as_dict(self) -> dict[str, float]:
        """Return the figures by their names in tables."""
        return {"AMI": self.adjusted_mutual_information, "NMI": self.normalized_mutual_information}


def evaluate_clustering(embeddings: np.ndarray, labels: np.ndarray, *, seed: int = 0) -> ClusteringResult:
    """Compute AMI and NMI of k-means, one cluster per class.

    NMI has the arithmetic mean in its denominator. Uses Lloyd's algorithm of scikit-learn from one k-means++ start.
    Clusters that stay empty because embeddings coincide count as they are: an embedding that has collapsed to a point
    scores 0. The scale of the embeddings does not matter.

    Args:
        embeddings: `[items, dim]`, float16, float32 or float64, finite.
        labels: integers of any size `[items]`.
        seed: of the start, from 0 to `LARGEST_SEED`.

    Raises:
        InvalidInput: embeddings with NaN or infinity, labels that are no integers or of another length, all items of
            one class, or a seed out of range.

    Examples:
        >>> evaluate_clustering(np.float32([[0], [1], [8], [9]]), np.array([3, 3, 5, 5])).adjusted_mutual_information
        1.0
    """
    from sklearn.cluster import KMeans  # seconds of a start, which most commands do without
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.metrics import adjusted_mutual_info_score, normalized_mutual_info_score

    if not 0 <= seed <= LARGEST_SEED:
        raise invalid("seed", received=seed, expected=f"a number from 0 to {LARGEST_SEED}")
    embeddings = np.asarray(embeddings)
    points, _ = brought_to_one("embeddings", embeddings)
    codes = class_codes("labels", labels, len(embeddings))
    num_classes = int(codes.max()) + 1
    if num_classes < 2:
        raise InvalidInput("Invalid labels: received a single class, expected at least two to compare clusters with.")
    points = points.astype(np.promote_types(embeddings.dtype, np.float32))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # fewer distinct points than clusters
        clusters = KMeans(num_classes, n_init=1, random_state=seed).fit_predict(points)
    return ClusteringResult(
        float(adjusted_mutual_info_score(codes, clusters)),
        float(normalized_mutual_info_score(codes, clusters)),
        num_classes,
    )
