"""Attention maps over the image, and the weight that falls on a known target."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from common.errors import invalid

_OPACITY = 0.6


def upsample_map(attention: np.ndarray, height: int, width: int) -> np.ndarray:
    """Enlarge maps over positions bilinearly to the size of the image.

    Position (r, c) of an H x W map covers the image around ((r + 1/2) height/H, (c + 1/2) width/W).

    Args:
        attention: `[..., rows, columns]`.
        height, width: of the image in pixels.

    Returns:
        `[..., height, width]`, within the range of the map.
    """
    attention = np.asarray(attention, np.float64)
    rows = _interpolation(attention.shape[-2], height)  # [height, rows]
    columns = _interpolation(attention.shape[-1], width)  # [width, columns]
    return rows @ attention @ columns.T


def attention_overlay(image: np.ndarray, attention: np.ndarray, lowest: float, highest: float) -> np.ndarray:
    """Blend an image `[height, width, 3]`, 0..1, with colours of attention `[rows, columns]`.

    The colour scale reaches from `lowest` to `highest`.
    """
    from matplotlib import colormaps

    enlarged = upsample_map(attention, *image.shape[:2])
    scaled = np.clip((enlarged - lowest) / max(highest - lowest, 1e-12), 0, 1)
    return (1 - _OPACITY) * image + _OPACITY * colormaps["viridis"](scaled)[..., :3]


def as_rgb(image: np.ndarray) -> np.ndarray:
    """Convert an image in 0..255, grey or RGB, to RGB in 0..1."""
    image = np.clip(np.asarray(image, np.float64) / 255, 0, 1)
    return np.repeat(image, 3, axis=-1) if image.shape[-1] == 1 else image


def weighted_feature_norm(weights: np.ndarray, features: np.ndarray) -> np.ndarray:
    """Return each position's share of summed feature lengths, `w_j ||f_j|| / sum_l w_l ||f_l||`.

    A weight shows where a pooling looks; this shows what reaches the embedding. A feature that the network has set to
    zero adds nothing, whatever its weight.

    Args:
        weights: pooling weights, `[examples, positions]`, at least 0.
        features: the weighted features, `[examples, positions, channels]`.

    Returns:
        `[examples, positions]`; sums to one (uniform if all are zero).
    """
    contributions = np.asarray(weights, np.float64) * np.linalg.norm(np.asarray(features, np.float64), axis=-1)
    total = contributions.sum(axis=-1, keepdims=True)
    uniform = np.full_like(contributions, 1 / contributions.shape[-1])
    return np.divide(contributions, total, out=uniform, where=total > 0)


def target_share(
    weights: np.ndarray, targets: np.ndarray, map_shape: tuple[int, int], tiles_per_side: int = 2
) -> np.ndarray:
    """Return the weight on the target's tile; `1 / tiles_per_side^2` by chance.

    A position on the border of tiles counts for each of them by its area.

    Args:
        weights: `[examples, positions]`, at least 0, each row with sum one.
        targets: the tile of each example, row by row from 0, `[examples]`.
        map_shape: rows and columns of the feature map, row by row in `weights`.
        tiles_per_side: tiles in a row, and in a column, of the collage.

    Returns:
        `[examples]`, from 0 to 1.

    Raises:
        InvalidInput: the map has another number of positions, or there is no such tile.
    """
    weights, targets = np.asarray(weights, np.float64), np.asarray(targets)
    height, width = map_shape
    if weights.ndim != 2 or weights.shape != (len(targets), height * width):
        expected = f"[{len(targets)}, {height} x {width}]: a row for each target"
        raise invalid("weights", received=f"shape {list(weights.shape)}", expected=expected)
    num_tiles = tiles_per_side**2
    if len(targets) and not 0 <= targets.min() <= targets.max() < num_tiles:
        expected = f"tiles from 0 to {num_tiles - 1}"
        raise invalid("targets", received=f"{targets.min()} to {targets.max()}", expected=expected)
    maps = weights.reshape(-1, height, width)
    rows, columns = _overlap(height, tiles_per_side), _overlap(width, tiles_per_side)
    shares = np.einsum("tr,erc,sc->ets", rows, maps, columns).reshape(-1, num_tiles)
    return shares[np.arange(len(targets)), targets]


def box_coverage(boxes: np.ndarray, image_shape: Sequence[int], map_shape: Sequence[int]) -> np.ndarray:
    """Return the part of each position's area inside a box.

    Position (r, c) of an H x W map has the area of the r-th of H rows and the c-th of W columns of the image.

    Args:
        boxes: `[examples, 4]` left, top, right, bottom in pixels; right and bottom excluded.
        image_shape: height and width in pixels.
        map_shape: rows and columns of the feature map.

    Returns:
        `[examples, positions]`, from 0 to 1, positions row by row.
    """
    boxes = np.asarray(boxes, np.float64)

    def inside(first: np.ndarray, end: np.ndarray, pixels: int, count: int) -> np.ndarray:
        edges = np.arange(count + 1) * pixels / count
        common = np.minimum(edges[1:], end[:, None]) - np.maximum(edges[:-1], first[:, None])
        return np.maximum(common, 0) * count / pixels

    rows = inside(boxes[:, 1], boxes[:, 3], image_shape[0], map_shape[0])
    columns = inside(boxes[:, 0], boxes[:, 2], image_shape[1], map_shape[1])
    return np.einsum("er,ec->erc", rows, columns).reshape(len(boxes), -1)


def coverage_auc(scores: np.ndarray, coverage: np.ndarray) -> np.ndarray:
    """Return how well scores separate covered positions from the others.

    The area under the ROC curve over an image's positions: the chance that a covered position has a higher score than
    one that is not, ties counting half. A position covered by a part c counts as covered with weight c, and as not
    covered with weight 1 - c.

    Args:
        scores: `[examples, positions]`.
        coverage: from 0 to 1, `[examples, positions]`.

    Returns:
        `[examples]`, from 0 to 1; not a number if all or none of an image is covered.
    """
    scores, coverage = np.asarray(scores, np.float64), np.asarray(coverage, np.float64)
    areas = np.full(len(scores), np.nan)
    for index, (score, covered) in enumerate(zip(scores, coverage)):
        pairs = np.outer(covered, 1 - covered)
        np.fill_diagonal(pairs, 0.0)
        higher = (np.sign(score[:, None] - score[None]) + 1) / 2
        if pairs.sum() > 0:
            areas[index] = (pairs * higher).sum() / pairs.sum()
    return areas


def _overlap(num_positions: int, num_tiles: int) -> np.ndarray:
    """Return each position's part in each tile, `[tiles, positions]`; columns sum to one."""
    edges = np.arange(num_positions + 1) * num_tiles / num_positions  # in units of tiles
    tiles = np.arange(num_tiles)[:, None]
    inside = np.minimum(edges[None, 1:], tiles + 1) - np.maximum(edges[None, :-1], tiles)
    return np.maximum(inside, 0) * num_positions / num_tiles


def _interpolation(num_positions: int, num_pixels: int) -> np.ndarray:
    """Return linear interpolation weights between positions' centers, `[pixels, positions]`; rows sum to one."""
    places = (np.arange(num_pixels) + 0.5) * num_positions / num_pixels - 0.5
    places = np.clip(places, 0, num_positions - 1)
    return np.maximum(0, 1 - np.abs(places[:, None] - np.arange(num_positions)))
