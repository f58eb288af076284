"""Names of the diagnostics in tables and pictures; needs no TensorFlow."""

from __future__ import annotations

NAMES = {
    "rho": "spectral decay, of all singular values (dissertation)",
    "rho@2": "spectral decay without the largest singular value (published code)",
    "pi_intra": "mean cosine distance inside of classes (published code)",
    "pi_inter": "mean cosine distance of normalised class means (published code)",
    "pi_ratio": "pi_intra / pi_inter (published code)",
    "pi_intra_print": "mean Euclidean distance inside of classes (dissertation)",
    "pi_inter_print": "mean Euclidean distance of class means (dissertation)",
    "pi_ratio_print": "pi_intra / pi_inter (dissertation)",
    "covering_radius": "greedy k-center radius of a class, mean over k and classes",
    "alignment": "mean squared distance inside of classes",
    "uniformity": "log mean of exp(-2 d^2) over all pairs",
    "NMI": "normalised mutual information of k-means and classes",
}
