"""Switches of `--recipe=published_code`: departures of the authors' code from the thesis.

docs/published_code.md lists every switch with both values, and the recipe's departures from that code, with reasons.
"""

from __future__ import annotations

from typing import Any

from experiments.settings.methods.loss_table import PROXY_LOSSES

_CCP_SWITCHES = {
    "ccp_in_batch_weight": 0.1,
    "ccp_first_lambda": 0.0,
    "ccp_continue_from": "last",
    "ccp_first_centers": "origin",
    "ccp_reads_late": True,
}


def published_code_switches(values: dict, base_loss: str, backbone: str) -> dict:
    """Return the switches of the fair protocol and those of both protocols.

    Args:
        values: the thesis' values by field name, of one data set, loss, pooling and method.
        base_loss: the loss without miner and memory.
        backbone: name.
    """
    switches: dict[str, Any] = {"beta_2": 0.999, "clip_norm": 10.0, "clip_value": 10.0, "sampler": "m_per_class"}
    if "protocol" not in values:
        switches["fold_order"] = "backward"
    if values["crop"] == "thesis":
        switches |= {"crop": "published_code", "evaluation_antialias": False}
    if backbone == "bn_inception":
        switches["input_mean"] = "imagenet"
    if values["warm_up_epochs"]:
        switches |= {"warm_up_epochs": 0, "warm_up_steps": values["steps_per_evaluation"]}
    if values.get("xbm_batches"):
        switches |= {"xbm_fills_first": True, "xbm_holds_batch": True}
    if "num_prototypes" in values:
        switches |= _gsp_switches(switches.get("warm_up_steps"))
    if values["method"] == "ccp":
        switches |= _CCP_SWITCHES
    if base_loss in PROXY_LOSSES:
        switches["proxy_initializer"] = "he_normal_over_proxies"
    if base_loss == "pnca":
        switches["temperature"] = 0.11
    return switches


def _gsp_switches(warm_up_steps: int | None) -> dict:
    switches = {"solver": "fixed_point", "num_iterations": 100, "label_initializer": "he_normal_over_proxies"}
    switches |= {"zero_shot_scale": 9.5, "zero_shot_reduction": "mean", "zero_shot_halves": "even_odd"}
    return switches | ({"gsp_memory_delay": warm_up_steps} if warm_up_steps else {})
