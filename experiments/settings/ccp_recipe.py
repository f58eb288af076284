"""The recipe of CCP: pools, proxies, and the limits of problems."""

from __future__ import annotations

from common.errors import InvalidInput
from experiments.settings.methods.loss_table import ANCHORED_LOSSES, PAIR_LOSSES

PRINTED_CCP = ("proxies_per_class", "pool_size", "ccp_lambda", "projection_patience")  # the others are open in the text


def ccp_parameters(dataset: str, loss: str, begins_at_random: bool, is_photographs: bool) -> dict:
    """Return the values of CCP's fields by name.

    Reference: thesis section 3.3.2.1; lambda 2e-4, eight proxies of twelve samples (CUB, Cars) or four of seven.

    Samples are the anchors, as in the published code; the text leaves this open. A proxy of a class outside the batch
    has no positive there, so as an anchor it has no triplet.

    The thesis' networks come pre-trained and learn at 1e-5: their proxies hardly move. If the network, or
    the only trained head, begins at random, the first problem waits until the in-batch loss has converged. A problem
    that ends below the previous one is undone. At the 1e-3 of networks from scratch, proxies learn at a tenth of that.
    Without these measures, CCP stays far below its plain loss (docs/results/ccp.md).

    Args:
        dataset: any value of `--dataset`.
        loss: the pair loss.
        begins_at_random: whether the trained part of the network has no initial weights.
        is_photographs: whether the data set follows the recipe of the thesis' photographs.

    Raises:
        InvalidInput: `loss` is no pair loss.
    """
    if loss not in PAIR_LOSSES:
        raise InvalidInput(
            f"Invalid --loss with --method=ccp: received {loss!r}, expected a pair loss: {', '.join(PAIR_LOSSES)}."
        )
    small = dataset in ("cub200", "cars196", "folder", "manifest")
    values = {
        "proxies_per_class": 8 if small else 4,
        "pool_size": 12 if small else 7,
        "ccp_lambda": 2e-4,
        "ccp_first_lambda": 2e-4,
        "projection_patience": 3,
        "ccp_in_batch_weight": 0.0,
        "ccp_continue_from": "best",
        "ccp_first_centers": "sample",
        "ccp_reads_late": False,
        "ccp_start": 1000 if begins_at_random else 0,
    }
    if begins_at_random:
        values |= {"ccp_start_patience": 3, "ccp_goes_back": True, "ccp_max_failures": 2}
    if not is_photographs:
        values["proxy_multiplier"] = 0.1
    return values | ({"ccp_anchors": "embeddings"} if loss in ANCHORED_LOSSES else {})
