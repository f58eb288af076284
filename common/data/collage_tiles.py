"""Collages of 2 x 2 tiles: putting them together and taking them apart."""

from __future__ import annotations

import numpy as np

TILES_PER_SIDE = 2
NUM_TILES = TILES_PER_SIDE**2


def join_collages(targets: np.ndarray, others: np.ndarray, positions: np.ndarray) -> np.ndarray:
    """Make collages with a target on one tile.

    Args:
        targets: `[examples, tile, tile, channels]`.
        others: `[examples, 3, tile, tile, channels]`, for the other tiles row by row.
        positions: `[examples]`, which tile shows the target: 0, 1 in the upper row, 2, 3 in the lower.

    Returns:
        `[examples, side, side, channels]`, where a side has two tiles.
    """
    tiles = np.empty((len(targets), NUM_TILES, *targets.shape[1:]), targets.dtype)
    is_target = np.arange(NUM_TILES) == positions[:, None]
    tiles[is_target] = targets
    tiles[~is_target] = others.reshape(-1, *targets.shape[1:])
    return join_tiles(tiles)


def tile_of(images: np.ndarray, positions: np.ndarray) -> np.ndarray:
    """Return the tiles at `positions` of collages `[examples, side, side, channels]`."""
    return split_tiles(images)[np.arange(len(images)), positions]


def join_tiles(tiles: np.ndarray) -> np.ndarray:
    """Join `[examples, tiles, tile, tile, channels]` to `[examples, side, side, channels]`, row by row."""
    examples, _, tile, _, channels = tiles.shape
    grid = tiles.reshape(examples, TILES_PER_SIDE, TILES_PER_SIDE, tile, tile, channels)
    return grid.swapaxes(2, 3).reshape(examples, TILES_PER_SIDE * tile, TILES_PER_SIDE * tile, channels)


def split_tiles(images: np.ndarray) -> np.ndarray:
    """Split collages `[examples, side, side, channels]` into tiles; undo `join_tiles`."""
    examples, side, _, channels = images.shape
    tile = side // TILES_PER_SIDE
    grid = images.reshape(examples, TILES_PER_SIDE, tile, TILES_PER_SIDE, tile, channels)
    return grid.swapaxes(2, 3).reshape(examples, NUM_TILES, tile, tile, channels)
