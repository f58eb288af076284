"""Independent solutions of the transport problem, in NumPy and float64."""

import numpy as np


def log_sum_exp(values):
    largest = values.max(axis=-1)
    return largest + np.log(np.exp(values - largest[..., None]).sum(axis=-1))


def stable_sigmoid(values):
    tail = np.exp(-np.abs(values))
    return np.where(values > 0, 1 / (1 + tail), tail / (1 + tail))


def bisected_transport(costs, transport_ratio, smoothing):
    """Weights, attributes and plan by 200 bisections of the mass equation.

    The mass is compared with n mu from the nearer end of each sigmoid, so that the root is as sharp as float64 allows.

    Args:
        costs: `[problems, positions, prototypes]`.
        transport_ratio, smoothing: scalars or `[problems]`.
    """
    costs = np.asarray(costs, np.float64)
    smoothing = np.broadcast_to(smoothing, costs.shape[:1]).astype(np.float64)[:, None, None]
    ratio = np.broadcast_to(transport_ratio, costs.shape[:1]).astype(np.float64)
    logits = log_sum_exp(-smoothing * costs)  # [problems, positions]
    num_positions = costs.shape[1]
    target = np.log(ratio) - np.log1p(-ratio)
    low, high = target - logits.max(axis=1), target - logits.min(axis=1)
    for _ in range(200):
        middle = (low + high) / 2
        moved = logits + middle[:, None]
        tails = stable_sigmoid(-np.abs(moved))
        excess = (moved > 0).sum(axis=1) - num_positions * ratio + np.where(moved > 0, -tails, tails).sum(axis=1)
        low, high = np.where(excess < 0, middle, low), np.where(excess < 0, high, middle)
    share = stable_sigmoid(logits + ((low + high) / 2)[:, None])
    weights = share / share.sum(axis=1, keepdims=True)
    assignment = np.exp(-smoothing * costs - logits[..., None])
    plan = ratio[:, None, None] * weights[..., None] * assignment
    return weights, np.einsum("bj,bji->bi", weights, assignment), plan


def distances(features, prototypes):
    """Distances of clipped vectors, `[problems, positions, channels]`, `[problems, prototypes, channels]`."""

    def clip(vectors):
        return vectors / np.maximum(1.0, np.linalg.norm(vectors, axis=-1, keepdims=True))

    features, prototypes = clip(features), clip(prototypes)
    squared = (features**2).sum(-1)[..., None] + (prototypes**2).sum(-1)[:, None]
    return np.sqrt(np.maximum(squared - 2 * features @ np.swapaxes(prototypes, 1, 2), 0.0))


FAMILIES = ("gaussian", "ball", "clusters", "equal to a prototype", "identical", "huge", "two groups")


def random_costs(family, num_problems, num_positions, num_prototypes, rng):
    """Costs of random and adversarial problems, float32 `[problems, positions, prototypes]`."""
    dim = int(rng.choice([2, 3, 16, 128]))
    prototypes = rng.normal(size=(num_problems, num_prototypes, dim))
    features = rng.normal(size=(num_problems, num_positions, dim))
    selected = np.arange(num_positions) < rng.integers(0, num_positions, size=(num_problems, 1))
    nearest = rng.integers(0, num_prototypes, size=(num_problems, num_positions))
    nearest = np.take_along_axis(prototypes, nearest[..., None], axis=1)
    if family == "ball":
        features *= rng.random((num_problems, num_positions, 1)) / np.linalg.norm(features, axis=-1, keepdims=True)
        prototypes *= rng.random((num_problems, num_prototypes, 1)) / np.linalg.norm(prototypes, axis=-1, keepdims=True)
    elif family == "clusters":
        features = np.where(selected[..., None], nearest + 1e-3 * features, features)
    elif family == "equal to a prototype":
        features = np.where(selected[..., None], nearest, features)
    elif family == "identical":
        features = np.broadcast_to(features[:, :1], features.shape)
    elif family == "huge":
        features = features * 10.0 ** rng.uniform(-3, 30, size=(num_problems, num_positions, 1))
    elif family == "two groups":
        features = np.where(selected[..., None], features[:, :1], prototypes[:, :1])
    return distances(features, prototypes).astype(np.float32)
