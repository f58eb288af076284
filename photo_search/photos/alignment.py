"""Agreement of two pictures, one laid upon the other by an affine map."""

from __future__ import annotations

import numpy as np

SIDE = 32  # pixels of a small grey picture
_AT_ONCE = 256  # pairs
_ORIENTATIONS = 2  # of eight that are tried, those that agree best without a map
_COARSE_STEPS, _FINE_STEPS = 8, 6
_LARGEST_STEP = 0.15  # of half a side
_DAMPING = 0.02
_OUTLIERS = 0.15  # share of pixels that may differ, as a caption or black corners do
_SMALL_DIFFERENCE = 0.3  # standard deviations that are no outlier
_SMALLEST_OVERLAP = 0.45  # share of a picture
_AREAS = (0.35, 2.8)  # of a copy, in those of its original, within the frame
_TINY = 1e-6


def agreement(pictures: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Return the correlation of pictures with others `[pairs]` that are laid upon them.

    Copies reach a higher one than lookalikes. The affine map begins with the two quarter turns or mirrorings that agree
    best, and is refined by Gauss-Newton steps on 16, then 32 pixels. The pixels that differ most are left out of each
    step and of the result, which is -1 where the pictures hardly overlap or one is much smaller than the other.

    Reference: Lucas and Kanade, "An Iterative Image Registration Technique", 1981.

    Args:
        pictures: grey values `[pairs, 32, 32]`.
        others: the same.
    """
    parts = range(0, len(pictures), _AT_ONCE)
    found = [_agreement(pictures[start : start + _AT_ONCE], others[start : start + _AT_ONCE]) for start in parts]
    return np.concatenate([np.empty(0), *found])


def _agreement(pictures: np.ndarray, others: np.ndarray) -> np.ndarray:
    count = len(pictures)
    fine, other_fine = (_blurred(each.astype(np.float32)) for each in (pictures, others))
    coarse, other_coarse = (_blurred(_halved(each)) for each in (fine, other_fine))
    tiny, other_tiny = (_halved(_blurred(each)) for each in (coarse, other_coarse))
    turned = _normalized(_orientations(other_tiny).reshape(count, 8, -1), np.ones(1, np.float32))
    order = np.argsort(-(turned * _normalized(tiny.reshape(count, 1, -1), np.ones(1, np.float32))).mean(-1), axis=1)
    best = np.full(count, -1.0)
    for place in order[:, :_ORIENTATIONS].T:
        rows = np.arange(count)
        maps = np.tile(np.eye(2, 3, dtype=np.float32), (count, 1, 1))
        maps, *_ = _aligned(coarse, _orientations(other_coarse)[rows, place], maps, _COARSE_STEPS)
        maps, score, overlap = _aligned(fine, _orientations(other_fine)[rows, place], maps, _FINE_STEPS)
        area = np.abs(np.linalg.det(maps[:, :, :2]))
        is_map = (overlap >= _SMALLEST_OVERLAP) & (area > _AREAS[0]) & (area < _AREAS[1])
        best = np.maximum(best, np.where(is_map, score, -1))
    return best


def _aligned(
    pictures: np.ndarray, others: np.ndarray, maps: np.ndarray, steps: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Refine maps `[pairs, 2, 3]` of places in [-1, 1].

    They are returned with the correlation and the overlap `[pairs]`.
    """
    count, side, _ = pictures.shape
    centers = (np.arange(side, dtype=np.float32) + 0.5) / side * 2 - 1
    places = np.stack([*(each.ravel() for each in np.meshgrid(centers, centers)), np.ones(side * side, np.float32)])
    slopes = np.gradient(others, axis=(2, 1))
    values = pictures.reshape(count, -1)
    for step in range(steps + 1):
        mapped = maps @ places
        weights = (np.abs(mapped) <= 1).all(axis=1).astype(np.float32)
        overlap = weights.mean(axis=1)
        pixels = (mapped + 1) / 2 * side - 0.5
        found = _sampled(others, pixels)
        error = _normalized(values, weights) - _normalized(found, weights)
        limit = np.quantile(np.where(weights > 0, np.abs(error), 0), 1 - _OUTLIERS, axis=1, keepdims=True)
        weights *= np.abs(error) <= np.maximum(limit, _SMALL_DIFFERENCE)
        left, right = _normalized(values, weights), _normalized(found, weights)
        if step == steps:
            break
        scale = side / 2 / _deviation(found, weights)
        across, down = (_sampled(each, pixels) * scale for each in slopes)
        jacobian = np.concatenate([across[:, np.newaxis] * places, down[:, np.newaxis] * places], axis=1)
        weighted = jacobian * weights[:, np.newaxis]
        hessian = weighted @ jacobian.transpose(0, 2, 1)
        damping = _DAMPING * np.trace(hessian, axis1=1, axis2=2) / 6 + 1e-3
        hessian += damping[:, np.newaxis, np.newaxis] * np.eye(6, dtype=np.float32)
        change = np.linalg.solve(hessian, weighted @ (left - right)[..., np.newaxis])[..., 0]
        maps = maps + np.clip(change, -_LARGEST_STEP, _LARGEST_STEP).reshape(count, 2, 3)
    return maps, (weights * left * right).sum(axis=1) / (weights.sum(axis=1) + _TINY), overlap


def _sampled(pictures: np.ndarray, pixels: np.ndarray) -> np.ndarray:
    """Sample pictures `[pairs, side, side]` bilinearly at pixels `[pairs, 2 (x, y), places]`."""
    count, side, _ = pictures.shape
    corner = np.clip(np.floor(pixels).astype(np.int64), 0, side - 2)
    right, below = np.clip(pixels - corner, 0, 1).transpose(1, 0, 2)
    flat, first = pictures.reshape(count, -1), corner[:, 1] * side + corner[:, 0]
    corners = (np.take_along_axis(flat, first + offset, axis=1) for offset in (0, 1, side, side + 1))
    upper_left, upper_right, lower_left, lower_right = corners
    upper, lower = (upper_left + (upper_right - upper_left) * right, lower_left + (lower_right - lower_left) * right)
    return upper + (lower - upper) * below


def _normalized(values: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Subtract the weighted mean of the last axis, and divide by the deviation."""
    total = np.broadcast_to(weights, values.shape).sum(axis=-1, keepdims=True) + _TINY
    return (values - (weights * values).sum(axis=-1, keepdims=True) / total) / _deviation(values, weights)


def _deviation(values: np.ndarray, weights: np.ndarray) -> np.ndarray:
    total = np.broadcast_to(weights, values.shape).sum(axis=-1, keepdims=True) + _TINY
    centred = values - (weights * values).sum(axis=-1, keepdims=True) / total
    return np.sqrt((weights * centred**2).sum(axis=-1, keepdims=True) / total + _TINY)


def _orientations(pictures: np.ndarray) -> np.ndarray:
    """Return four quarter turns and their mirrorings `[pairs, 8, side, side]`."""
    turned = [np.rot90(pictures, turn, (1, 2)) for turn in range(4)]
    return np.stack([*turned, *(np.flip(each, -1) for each in turned)], axis=1)


def _halved(pictures: np.ndarray) -> np.ndarray:
    count, side, _ = pictures.shape
    return pictures.reshape(count, side // 2, 2, side // 2, 2).mean(axis=(2, 4))


def _blurred(pictures: np.ndarray) -> np.ndarray:
    """Convolve with the binomial (1, 2, 1) / 4 in both directions."""
    padded = np.pad(pictures, ((0, 0), (1, 1), (1, 1)), mode="edge")
    rows = (padded[:, :-2] + 2 * padded[:, 1:-1] + padded[:, 2:]) / 4
    return (rows[:, :, :-2] + 2 * rows[:, :, 1:-1] + rows[:, :, 2:]) / 4
