"""Diagnostics of embeddings: geometry of classes, clusters, compact groups, spectra, refined metric matrices."""

from typing import TYPE_CHECKING

from common.lazy_names import import_when_used

if TYPE_CHECKING:
    from common.diagnostics.class_geometry import (
        ClassDistances,
        alignment,
        class_covering_radii,
        class_distances,
        uniformity,
    )
    from common.diagnostics.clustering import ClusteringResult, evaluate_clustering
    from common.diagnostics.diagnostics import Diagnostics, collapse_warning, diagnose, generalization_gap
    from common.diagnostics.posterior_refinement import (
        bilinear_embeddings,
        matrix_properties,
        metric_matrix,
        principal_axes,
        random_axes,
        refine,
    )
    from common.diagnostics.spectral_decay import spectral_decay

__all__ = [
    "ClassDistances",
    "ClusteringResult",
    "Diagnostics",
    "alignment",
    "bilinear_embeddings",
    "class_covering_radii",
    "class_distances",
    "collapse_warning",
    "diagnose",
    "evaluate_clustering",
    "generalization_gap",
    "matrix_properties",
    "metric_matrix",
    "principal_axes",
    "random_axes",
    "refine",
    "spectral_decay",
    "uniformity",
]
import_when_used(__name__)
