"""Diagnostics of embeddings: geometry of classes, clusters, compact groups, spectra, refined metric matrices."""

from typing import TYPE_CHECKING

from common.lazy_names import import_when_used

if TYPE_CHECKING:
    from common.diagnostics.class_geometry import (
        ClassDistances as ClassDistances,
        alignment as alignment,
        class_covering_radii as class_covering_radii,
        class_distances as class_distances,
        uniformity as uniformity,
    )
    from common.diagnostics.clustering import (
        ClusteringResult as ClusteringResult,
        evaluate_clustering as evaluate_clustering,
    )
    from common.diagnostics.diagnostics import (
        Diagnostics as Diagnostics,
        collapse_warning as collapse_warning,
        diagnose as diagnose,
        generalization_gap as generalization_gap,
    )
    from common.diagnostics.posterior_refinement import (
        bilinear_embeddings as bilinear_embeddings,
        matrix_properties as matrix_properties,
        metric_matrix as metric_matrix,
        principal_axes as principal_axes,
        random_axes as random_axes,
        refine as refine,
    )
    from common.diagnostics.spectral_decay import spectral_decay as spectral_decay

import_when_used(__name__)
