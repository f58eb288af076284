"""Rho-regularisation: now and then the positive is pushed away instead of the negative."""

from __future__ import annotations

import tensorflow as tf

from common.errors import check_fraction
from common.miners.triplets import Triplets, uniform_of


def rho_regularized(
    triplets: Triplets,
    rho_probability: float,
    seed: tf.Tensor,
    batch_size: int | tf.Tensor,
    first_self: int | tf.Tensor = 0,
) -> Triplets:
    """Replace (a, p, n) by (a, a, p) with probability `rho_probability`.

    Reference: Milbich's dissertation, section 2.4.1, which leaves the replacement of the positive open; its code takes
    the anchor itself.

    Args:
        triplets: from a miner.
        rho_probability: p, in [0, 1].
        seed: two integers, `[2]`; an anchor's draw does not depend on the other anchors.
        batch_size: above all anchors.
        first_self: index of the batch's first embedding in the references; 0 where the references are the batch.
    """
    check_fraction("rho_probability", rho_probability, zero_allowed=True)
    chosen = tf.gather(uniform_of(seed, 2, [batch_size]) < rho_probability, triplets.anchors)
    selves = triplets.anchors + tf.cast(first_self, triplets.anchors.dtype)
    return Triplets(
        triplets.anchors,
        tf.where(chosen, selves, triplets.positives),
        tf.where(chosen, triplets.positives, triplets.negatives),
    )
