"""Hyper-parameters of the losses, miners and regulariser in Milbich's dissertation.

Reference: Milbich, Visual Similarity and Representation Learning, chapter 2 ("Revisiting Training Strategies and
Generalization Performance in Deep Metric Learning", ICML 2020). Its text prints few of the values; they are the
defaults of its published code. If it runs a loss on unnormalised embeddings and ours are unit vectors, `loss_scale` is
16, the scale of its ArcFace (ours). Generated data sets are shaped like SOP and take its values.
"""

from __future__ import annotations

_LIKE_CUB = ("cub200", "folder", "manifest")
_FINE_GRAINED = (*_LIKE_CUB, "cars196")
_PROXY_PACES = {"normsoftmax": 1.0, "arcface": 50.0, "margin": 50.0}  # of learning rates of 1e-5 and 5e-4


def benchmark_loss(dataset: str, loss: str, normalization: str) -> dict | None:
    """Return a loss's hyper-parameters by field name, None for thesis losses.

    Args:
        dataset: name.
        loss: name without a miner or a memory.
        normalization: of the embeddings, as in `ExperimentConfig`.
    """
    free = normalization == "none"
    products = {"loss_scale": 1.0 if free else 16.0, "norm_penalty": 0.005 if free else 0.0}
    settings: dict[str, dict] = {
        "margin": {"margin": 0.2, "boundary": 1.2, "boundary_per_class": True},
        "npair": products,
        "lifted": {"margin": 1.0, "norm_penalty": products["norm_penalty"]},
        "lifted_generalized": {"margin": 1.0, "norm_penalty": products["norm_penalty"]},
        "quadruplet": {"margin": 0.2, "second_margin": 0.2},
        "angular": {"angle": 45.0, "angular_weight": 2.0, **products},
        "histogram": {"histogram_nodes": 65 if dataset in _FINE_GRAINED else 11},
        "snr": {"positive_margin": 0.0, "negative_margin": 1.0, "mean_penalty": 0.005},  # pytorch-metric-learning's
        "snr_triplet": {"margin": 0.2, "mean_penalty": 0.005},
        "normsoftmax": {"temperature": 0.05},
        "arcface": {"margin": 0.5, "loss_scale": 16.0},
        "circle": {"margin": 0.4, "loss_scale": 80.0},  # not in the dissertation: the paper's, for birds and cars
    }
    return settings.get(loss)


def switch_probability(dataset: str, loss: str) -> float:
    """Return p_switch of rho-regularisation: mostly .4 (CUB), .35 (Cars), .15 (SOP)."""
    if dataset == "cars196":
        return 0.35
    if dataset in _LIKE_CUB:
        return {"margin": 0.35, "snr_triplet": 0.3}.get(loss, 0.4)
    return 0.15


def proxy_pace(dataset: str, loss: str) -> float | None:
    """Return the relative learning rate of class vectors or boundaries, or None."""
    return 200.0 if (loss, dataset) == ("normsoftmax", "sop") else _PROXY_PACES.get(loss)
