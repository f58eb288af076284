"""The range of every number in a configuration: checked before anything is made, and shown by `--help`."""

from __future__ import annotations

import math
from typing import NamedTuple

from common.errors import invalid


class NumberRange(NamedTuple):
    """An interval of finite numbers.

    Attributes:
        low, high: its ends; infinity where there is none.
        low_included, high_included: whether an end is itself in it; infinity never is.
    """

    low: float = -math.inf
    high: float = math.inf
    low_included: bool = False
    high_included: bool = False

    def __contains__(self, value) -> bool:
        above = value > self.low or (self.low_included and value == self.low)
        below = value < self.high or (self.high_included and value == self.high)
        return abs(value) < math.inf and above and below

    def __str__(self) -> str:
        opening, closing = "[" if self.low_included else "(", "]" if self.high_included else ")"
        return f"{opening}{self.low:g}, {self.high:g}{closing}"


FINITE = NumberRange()
POSITIVE = NumberRange(low=0)
NOT_NEGATIVE = NumberRange(low=0, low_included=True)
SHARE = NumberRange(0, 1, low_included=True, high_included=True)

# By field of `ExperimentConfig`. What depends on another field (a margin in radians, a pool that holds the proxies) is
# checked by the part that takes it.
RANGES: dict[str, NumberRange] = {
    **dict.fromkeys(("embedding_dim", "image_size", "classes_per_batch", "samples_per_class"), POSITIVE),
    **dict.fromkeys(("learning_rate", "proxy_multiplier", "steps_per_evaluation", "max_steps", "patience"), POSITIVE),
    "beta_2": NumberRange(0, 1, low_included=True),
    **dict.fromkeys(("weight_decay", "clip_norm", "clip_value", "seed"), NOT_NEGATIVE),
    **dict.fromkeys(("warm_up_epochs", "warm_up_steps", "plateau_patience"), NOT_NEGATIVE),
    "num_folds": NumberRange(low=2, low_included=True),
    **dict.fromkeys(("margin", "ms_base", "panchor_margin", "softtriple_margin"), FINITE),
    **dict.fromkeys(("positive_margin", "negative_margin", "second_margin", "boundary"), NOT_NEGATIVE),
    **dict.fromkeys(("ms_alpha", "ms_beta", "loss_scale", "temperature", "panchor_scale"), POSITIVE),
    **dict.fromkeys(("norm_penalty", "mean_penalty", "angular_weight"), NOT_NEGATIVE),
    "angle": NumberRange(0, 60, high_included=True),
    "histogram_nodes": NumberRange(low=2, low_included=True),
    "p_switch": SHARE,
    **dict.fromkeys(("centers_per_class", "softtriple_scale", "softtriple_gamma"), POSITIVE),
    "softtriple_tau": NOT_NEGATIVE,
    "memory_batches": POSITIVE,
    **dict.fromkeys(("memory_start", "selection_start"), NOT_NEGATIVE),
    **dict.fromkeys(("proxies_per_class", "pool_size", "projection_patience", "ccp_max_problems"), POSITIVE),
    **dict.fromkeys(("ccp_lambda", "ccp_first_lambda", "ccp_in_batch_weight", "ccp_start"), NOT_NEGATIVE),
    **dict.fromkeys(("ccp_start_patience", "ccp_max_failures"), NOT_NEGATIVE),
    **dict.fromkeys(("num_prototypes", "smoothing", "num_iterations", "memory_size"), POSITIVE),
    "transport_ratio": NumberRange(0, 1, high_included=True),
    "memory_delay": NOT_NEGATIVE,
    "zero_shot_weight": SHARE,
    **dict.fromkeys(("zero_shot_ridge", "zero_shot_scale"), POSITIVE),
    "views": POSITIVE,
    "held_out_fraction": NumberRange(0, 1),
}


def check_number(name: str, value: float) -> None:
    """Raises `InvalidInput` unless `value` is in the range of the configuration's field `name`; None is not checked."""
    if value is not None and value not in RANGES[name]:
        raise invalid(f"--{name}", received=value, expected=f"a number in {RANGES[name]}")
