"""Switches of `--recipe=published_code`: departures of the authors' code from the thesis, as tables.

Source: docs/published_code.md lists every switch with both values, and the recipe's departures with reasons.
Expected: the tables of the thesis, whose figures this code made.
Cost: as with `--recipe=thesis`.
Command: python -m experiments.fair_eval --recipe=published_code --dataset=sop --data_dir=data --loss=pnca --pooling=gsp
"""

from __future__ import annotations

EVERY_RUN = {"beta_2": 0.999, "clip_norm": 10.0, "clip_value": 10.0, "sampler": "m_per_class"}
FAIR = {"fold_order": "backward"}
PHOTOGRAPHS = {"crop": "published_code", "evaluation_antialias": False}
BN_INCEPTION = {"input_mean": "imagenet"}
MEMORY = {"xbm_fills_first": True, "xbm_holds_batch": True}
GSP = {
    "solver": "fixed_point",
    "num_iterations": 100,
    "label_initializer": "he_normal_over_proxies",
    "zero_shot_scale": 9.5,
    "zero_shot_reduction": "mean",
    "zero_shot_halves": "even_odd",
}
CCP = {
    "ccp_in_batch_weight": 0.1,
    "ccp_first_lambda": 0.0,
    "ccp_continue_from": "last",
    "ccp_first_centers": "origin",
    "ccp_reads_late": True,
}
PROXY_LOSSES = {"proxy_initializer": "he_normal_over_proxies"}
PNCA = {"temperature": 0.11}
CONVENTIONAL_LOSSES = {
    "c2": {"positive_margin": 0.0, "negative_margin": 1.0},
    "triplet": {"margin": 0.2},
    "ms": {"ms_alpha": 2.0, "ms_beta": 40.0, "ms_base": 0.5},
}
