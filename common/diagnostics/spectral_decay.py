"""Spectral decay: how evenly embeddings use their directions."""

from __future__ import annotations

import numpy as np

from common.errors import check_choice, check_non_negative, check_positive, invalid
from common.retrieval.exact_scale import brought_to_one

DIRECTIONS = ("uniform_to_spectrum", "spectrum_to_uniform")
FLOOR = 1e-12
_ROUNDING = 16  # units of rounding that an embedding may be off by, after a network in its precision


def spectrum(embeddings: np.ndarray, *, skip_top: int = 0, centre: bool = False) -> np.ndarray:
    """Compute normalised singular values of the embeddings, largest first: `[dim - skip_top]`.

    Their sum is one. Fewer embeddings than dimensions leave directions that count as zero. So do values that the
    rounding of the dtype may have made, below `16 eps ||S|| / sqrt(dim)`. Embeddings that are all zero give zeros.

    Args:
        embeddings: `[items, dim]`.
        skip_top: how many of the largest are dropped before the rest is scaled to sum one.
        centre: subtract the mean first; neither the dissertation nor its code does.

    Raises:
        InvalidInput: embeddings that are not finite, or `skip_top` that leaves nothing.
    """
    embeddings = np.asarray(embeddings)
    matrix, _ = brought_to_one("embeddings", embeddings)
    dim = embeddings.shape[1]
    check_non_negative("skip_top", skip_top)
    if skip_top >= dim:
        raise invalid("skip_top", received=skip_top, expected=f"less than {dim}, the embedding's dimensions")
    epsilon = np.finfo(embeddings.dtype).eps
    if centre:
        matrix -= matrix.mean(axis=0)
    triangle = np.linalg.qr(matrix, mode="r")  # not the Gram matrix, which cannot tell 1e-8 from nothing
    values = np.zeros(dim)
    found = np.linalg.svd(triangle, compute_uv=False)
    values[: len(found)] = found
    values[values < _ROUNDING * epsilon * np.linalg.norm(values) / np.sqrt(dim)] = 0.0
    values = values[skip_top:]
    total = values.sum()
    return values / total if total > 0 else values


def spectral_decay(
    embeddings: np.ndarray,
    *,
    skip_top: int = 0,
    centre: bool = False,
    direction: str = "uniform_to_spectrum",
    floor: float = FLOOR,
) -> float:
    """Compute rho, the divergence of the spectrum from the uniform one.

    0 for isotropic embeddings, large for compressed ones.

        rho = KL(U || S) = sum_d 1/D log((1/D) / S_d) = -log D - 1/D sum_d log S_d

    S holds the singular values (not squared, not centred) of all embeddings together, with sum one. rho diverges if a
    direction is empty, so S is at least `floor`: with D dimensions, half of them used evenly, rho is
    `-log D - (log(2/D) + log floor) / 2`.

    The dissertation's definition is `skip_top=0`. The published code has variants: `rho@k` drops the k - 1 largest
    values, which for embeddings on the sphere means their mean (its figure 2.4 seems to use `@2`, that is
    `skip_top=1`); `@-1` is `spectrum_to_uniform`, KL(S || U), which needs no floor.

    Reference: Milbich, dissertation, equation 2.18.

    Args:
        embeddings: `[items, dim]`.
        skip_top, centre: see `spectrum`.
        direction: one of `DIRECTIONS`.
        floor: the least share of a direction, > 0.
    """
    check_choice("direction", direction, DIRECTIONS)
    check_positive("floor", floor)
    shares = spectrum(embeddings, skip_top=skip_top, centre=centre)
    dim = len(shares)
    if direction == "spectrum_to_uniform":
        used = shares[shares > 0]
        return float((used * np.log(used * dim)).sum())
    return float(-np.log(dim) - np.log(np.maximum(shares, floor)).mean())
