"""Recipe of the authors' code: what it does otherwise than the thesis.

Source: docs/thesis.md lists every switch with both values, and the recipe's departures with reasons.
Expected: the tables of the thesis, whose figures this code made.
Cost: as with `--recipe=thesis`.
Command: python -m experiments.fair_eval --recipe=published_code --dataset=sop --data_dir=data --loss=pnca --pooling=gsp
"""

from __future__ import annotations

from typing import Any

from experiments.recipes.draft import Draft
from experiments.recipes.thesis import thesis
from experiments.settings.method_names import uses_gsp

CONVENTIONAL_LOSSES: dict[str, dict[str, Any]] = {
    "c2": {"positive_margin": 0.0, "negative_margin": 1.0},
    "triplet": {"margin": 0.2},
    "ms": {"ms_alpha": 2.0, "ms_beta": 40.0, "ms_base": 0.5},
}


def published_code(draft: Draft) -> None:
    """Set the thesis' values, then the switches of the published code."""
    thesis(draft)
    values, source = draft.values, "published code"
    steps = values["steps_per_evaluation"] if values["warm_up_epochs"] else None
    draft.set(source, beta_2=0.999, clip_norm=10.0, clip_value=10.0, sampler="m_per_class")
    if draft.protocol is None:
        draft.set(source, fold_order="backward")
    if values["crop"] == "thesis":
        draft.set(source, crop="published_code", evaluation_antialias=False)
    if draft.chosen("backbone") == "bn_inception":
        draft.set(source, input_mean="imagenet")
    if steps:
        draft.set(source, warm_up_epochs=0, warm_up_steps=steps)
    if draft.loss.memory:
        draft.set(source, xbm_fills_first=True, xbm_holds_batch=True)
    if uses_gsp(draft.pooling):
        draft.set(source, solver="fixed_point", num_iterations=100, label_initializer="he_normal_over_proxies")
        draft.set(source, zero_shot_scale=9.5, zero_shot_reduction="mean", zero_shot_halves="even_odd")
        draft.set(source, **({"gsp_memory_delay": steps} if steps else {}))
    if draft.method == "ccp":
        draft.set(source, ccp_in_batch_weight=0.1, ccp_first_lambda=0.0, ccp_continue_from="last")
        draft.set(source, ccp_first_centers="origin", ccp_reads_late=True)
    if draft.by_proxy:
        draft.set(source, proxy_initializer="he_normal_over_proxies")
    if draft.loss.base == "pnca":
        draft.set(source, temperature=0.11)
    if draft.protocol is not None and draft.traits.photographs:
        _conventional(draft, "published code, conventional protocol")


def _conventional(draft: Draft, source: str) -> None:
    """Set conventional values that the text lacks or contradicts."""
    large, is_resnet = draft.traits.large, draft.chosen("backbone") == "resnet50"
    draft.set(source, plateau_patience=3 if large else 4, learning_rate=1e-4 if large else 1e-5)
    if large and draft.chapter == 3 and not is_resnet:
        draft.set(source, patience=15)
    if draft.values["warm_up_steps"]:
        draft.set(source, warm_up_trains_all=True)  # its conventional configurations: freeze_during_warmup false
    if draft.loss.memory and not large:
        start = 100 if is_resnet and draft.chapter == 5 else 1000
        draft.set(source, xbm_batches=25 if is_resnet else 50, xbm_start=start)
    draft.set(source, **CONVENTIONAL_LOSSES.get(draft.loss.base, {}))
