"""Milbich's dissertation: losses, samplers, several features, and what its chapters print.

Source: Milbich, Visual Similarity and Representation Learning. Chapter 2 ("Revisiting Training Strategies and
    Generalization Performance in Deep Metric Learning", ICML 2020): losses, miners, regulariser and benchmark; the text
    prints few of the values ("around originally proposed values"), so they are the defaults of its published code.
    Chapter 3 ("Sharing Matters", with MIC's groups), chapter 4 (DiVA, table 4.1), chapter 5 (PADS).
Expected: table 2.2, multi-similarity on CUB200: R@1 62.80 +- .70, NMI 68.55 +- .38.
Cost: about three GPU hours per run on CUB200 (estimated), ten runs per row with both stopping rules.
Command: python -m experiments.revisiting_eval --dataset=cub200 --loss=ms,pnca --data_dir=data

Generated data sets are shaped like SOP and take its values. Custom photographs take those of CUB. Networks other than
BN-Inception take the values of ResNet-50. Keys of tables by network: `ibn`, `r50`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from experiments.recipes.draft import OPEN, Draft
from experiments.settings.method_names import DANCE, GROUPS, HEADS, INTRA, PADS, SHARED, LossName
from experiments.settings.run_settings import REVISITING
from milbich_dml.features import BY_SLICE, IN_TURN, JOINT, STANDARDIZED
from milbich_dml.pads import is_interval

PROXY_PACES = {"normsoftmax": 1.0, "arcface": 50.0, "margin": 50.0}  # of learning rates of 1e-5 and 5e-4

STEPS_PER_EPOCH = {"cub200": 52, "cars196": 71, "sop": 531, "inshop": 231}  # training images / 112; 52 elsewhere
_CHAPTER_3_SIZE, _CHAPTER_4_SIZES = 256, (510, 512)  # of embeddings, baselines included; the others have 128
CHAPTER_3_IMAGES = {"margin": 4, "triplet": 4, "npair": 2, "pnca": 1}  # of a class in a batch

# DiVA: (decorrelation, weight of a task, epoch of the drop) by network and data set; table 4.1, and the run scripts.
_DIVA: dict[str, dict[str, tuple[float, float, int]]] = {
    "ibn": {"cub200": (300.0, 0.1, 70), "cars196": (100.0, 0.1, 160), "sop": (50.0, 0.1, 100)},
    "r50": {"cub200": (1500.0, 0.3, 60), "cars196": (100.0, 0.1, 70), "sop": (300.0, 0.2, 70)},
}
_DIVA_CODE = {  # where it differs
    "ibn": {"cars196": (100.0, 0.15), "sop": (150.0, 0.1)},
    "r50": {"cars196": (100.0, 0.15), "sop": (150.0, 0.2)},
}
# Decorrelation of shared features alone: chapter 3 searches 500 to 2000 for each data set and prints no choice.
_SHARED_ALONE, _SHARED_ALONE_CODE = 1000.0, 1500.0
_MIC = {"cub200": (30, 2500.0), "cars196": (200, 500.0), "sop": (50, 250.0), "inshop": (150, 250.0)}  # groups, and that


def loss_values(draft: Draft) -> dict[str, Any] | None:
    """Return the hyper-parameters of a loss of chapter 2, else None.

    If the published code runs one on unnormalised embeddings and ours are unit vectors, `loss_scale` is 16, the scale
    of its ArcFace (ours).
    """
    fine_grained = draft.traits.photographs and not draft.traits.large
    free = draft.chosen("normalization") == "none"
    penalty = {"norm_penalty": 0.005 if free else 0.0}
    scaled = {"loss_scale": 1.0 if free else 16.0, **penalty}
    losses: dict[str, dict[str, Any]] = {
        "margin": {"margin": 0.2, "boundary": 1.2, "boundary_per_class": True},
        "npair": scaled,
        "lifted": {"margin": 1.0, **penalty},
        "lifted_generalized": {"margin": 1.0, **penalty},
        "quadruplet": {"margin": 0.2, "second_margin": 0.2},
        "angular": {"angle": 45.0, "angular_weight": 2.0, **scaled},
        "histogram": {"histogram_nodes": 65 if fine_grained else 11},
        "snr": {"positive_margin": 0.0, "negative_margin": 1.0, "mean_penalty": 0.005},  # pytorch-metric-learning's
        "snr_triplet": {"margin": 0.2, "mean_penalty": 0.005},
        "normsoftmax": {"temperature": 0.05},
        "arcface": {"margin": 0.5, "loss_scale": 16.0},
        "circle": {"margin": 0.4, "loss_scale": 80.0},  # not in the dissertation: the paper's, for birds and cars
    }
    return losses.get(draft.loss.base)


def switch_probability(draft: Draft) -> float:
    """Return p_switch of rho-regularisation: mostly .4 (CUB), .35 (Cars), .15 (SOP)."""
    like = _like(draft.dataset)
    of_cub = {"margin": 0.35, "snr_triplet": 0.3} if like == "cub200" else {}
    return of_cub.get(draft.loss.base, {"cars196": 0.35, "cub200": 0.4, "sop": 0.15}[like])


def _like(dataset: str) -> str:
    """Return which of CUB, Cars and SOP has a data set's values."""
    return {"folder": "cub200", "manifest": "cub200", "cub200": "cub200", "cars196": "cars196"}.get(dataset, "sop")


def chapter_of(name: LossName, size: int) -> int:
    """Return the chapter with a loss's row at an embedding size; 2: the benchmark."""
    if name.miner == PADS:
        return 5
    if {HEADS, INTRA, DANCE} & {*name.features} or (name.base == "margin" and size in _CHAPTER_4_SIZES):
        return 4
    return 3 if name.features or (size == _CHAPTER_3_SIZE and name.base in CHAPTER_3_IMAGES) else 2


def features(draft: Draft) -> None:
    """Set the tasks of several features, their weights and their decorrelation."""
    name, dataset, of_code = draft.loss, draft.dataset, draft.recipe == "published_code"
    if not name.features:
        return
    network = "ibn" if draft.chosen("backbone") == "bn_inception" else "r50"
    like, chapter_3 = _like(dataset), "shared features, chapter 3"
    of_network, of_code_alone = _DIVA[network], _DIVA_CODE[network] if of_code else {}
    decorrelation, weight = of_code_alone.get(like, of_network[like][:2])
    printed = "" if dataset in ("cub200", "cars196", "sop") else "ours, after "
    source = f"{printed}{'published code of DiVA' if of_code else 'DiVA, table 4.1'}"
    chapter, single = chapter_of(name, draft.chosen("embedding_dim")), bool(draft.chosen("single_encoder"))
    of_chapter_4 = chapter == 4 and draft.recipe == REVISITING and not single
    if name.may_take_turns:
        in_turn = len(name.features) == 1 and draft.method != "ccp" and not of_chapter_4
        schedule = "shared features, algorithm 1" if in_turn else "DiVA, equation 4.11"
        draft.set(schedule, feature_schedule=IN_TURN if in_turn else JOINT)
    if SHARED in name.features:
        draft.set(chapter_3, shared_triplets="inter_class")
        if draft.chosen("shared_triplets") == "inter_class":
            draft.set(chapter_3, shared_negatives="distance")
            draft.set("published code of shared features", shared_positives="uniform")
    num_groups, of_mic = _MIC.get(dataset, _MIC[like])
    if GROUPS in name.features:
        # Nominally three epochs: the code compares its counter before raising it.
        draft.set("published code of MIC", num_groups=num_groups, group_epochs=4)
        grouped = ("published code of MIC", BY_SLICE) if of_code else (chapter_3, STANDARDIZED)
        draft.set(grouped[0], group_by=grouped[1])
        if draft.budget == "smoke":
            draft.set("--budget=smoke", num_groups=4, group_epochs=1)
    if name.features == (SHARED,) and not of_chapter_4:
        alone = 0.0 if single else (_SHARED_ALONE_CODE if of_code else _SHARED_ALONE)
        draft.set("--single_encoder" if single else OPEN, decorrelation=alone)
    elif name.features == (GROUPS,):
        draft.set("published code of MIC" if of_code else OPEN, decorrelation=of_mic if of_code else _SHARED_ALONE)
    else:
        draft.set(source, decorrelation=decorrelation)
    draft.set(OPEN, decorrelation_reduction="mean")
    if not (name.may_take_turns and draft.chosen("feature_schedule") == IN_TURN):
        alike = HEADS in name.features  # one task, of one weight
        draft.set(OPEN if alike else source, feature_weight=1.0 if alike else weight)
    if DANCE in name.features:
        draft.set("DiVA, table 4.1", dance_temperature=0.01)
        batches = 70 if dataset == "sop" else 30
        draft.set("published code of DiVA", dance_queue_batches=batches, dance_weights="anchor")
    _batch_and_steps(draft, of_network)


def _batch_and_steps(draft: Draft, diva: Mapping[str, tuple[float, float, int]]) -> None:
    """Adjust the batch and the budget's number of steps to the features.

    Intra-class triplets need three images per class; they get four, and the batch keeps its size. Two alternating
    tasks take two steps for each step of one loss. DiVA's learning rate drops once, if nothing else changes it.
    """
    values, name = draft.values, draft.loss
    if INTRA in name.features and values["samples_per_class"] < 3:
        batch = values["classes_per_batch"] * values["samples_per_class"]
        draft.set("the features", samples_per_class=4, classes_per_batch=max(2, batch // 4))
    if name.may_take_turns and draft.chosen("feature_schedule") == IN_TURN:
        draft.set("tasks that take turns", **{each: 2 * values[each] for each in ("max_steps", "steps_per_evaluation")})
    is_constant = not (draft.given.get("plateau_patience") or "learning_rate_schedule" in draft.given)
    is_diva = {SHARED, INTRA, DANCE} == {*name.features} and draft.recipe == REVISITING
    if is_diva and draft.dataset in diva and is_constant:
        step = diva[draft.dataset][2] * STEPS_PER_EPOCH[draft.dataset]
        if step < draft.chosen("max_steps"):
            draft.set("DiVA, table 4.1", rate_drop_step=step, rate_drop_factor=0.3)


def pads(draft: Draft) -> None:
    """Set the policy that adapts the sampling of negatives, miner `pads`."""
    if draft.loss.miner != PADS:
        return
    short, of_code = draft.budget != "full", "published code of PADS"
    chapter_5, by = "PADS, chapter 5", "classes" if draft.traits.large else "images"
    draft.set(chapter_5, pads_bins=30, pads_low=0.1, pads_high=1.4, pads_start="0.3,0.7", pads_steps=30)
    draft.set(chapter_5, pads_images=0.15, pads_by=by, pads_reward="recall+nmi", pads_estimator="ppo_a2c")
    draft.set(chapter_5, pads_draws="bins")
    draft.set(of_code, pads_learning_rate=0.01)
    if is_interval(draft.chosen("pads_start")):
        # At a factor of 1.25, a weight of 1e-15 needs 155 decisions to reach 1.
        draft.set(OPEN if short else of_code, pads_outside=1e-2 if short else 1e-15)
    if draft.recipe == "published_code":
        draft.set(of_code, pads_images=0.15 if draft.dataset == "cub200" else 0.1, pads_draws="candidates")
        if draft.dataset == "cub200":
            draft.set(of_code, pads_reward="recall")
        if draft.dataset == "sop":
            draft.set(of_code, pads_steps=60)
    if draft.budget == "smoke":
        draft.set("--budget=smoke", pads_steps=2)
