"""Conditions of the recipes: from tables to the values of one layer."""

from __future__ import annotations

from typing import Any

from common.errors import InvalidInput, check_choice
from experiments.settings import dissertation_values as dissertation
from experiments.settings import published_code_values as published
from experiments.settings import thesis_values as thesis
from experiments.settings.datasets import traits_of
from experiments.settings.method_names import ANCHORED_LOSSES, LOSSES, PAIR_LOSSES, PROXY_LOSSES, parse_loss
from experiments.settings.run_settings import CONVENTIONAL_PROTOCOLS


def model_and_training(dataset: str, base_loss: str, chapter: int) -> dict[str, Any]:
    """Return the network and the training of a data set's runs."""
    pace = dissertation.PROXY_PACES.get(base_loss, 100.0 if base_loss in PROXY_LOSSES else 1.0)
    values = {
        "normalization": "unit" if chapter == 5 else "clip",
        **thesis.EVERY_RUN,
        "proxy_multiplier": dissertation.SOP_SOFTMAX_PACE if (base_loss, dataset) == ("normsoftmax", "sop") else pace,
    }
    of_data = _photograph_training if traits_of(dataset).photographs else _embedded_training
    values |= of_data(dataset, base_loss, chapter)
    return {**values, "normalization": "unit"} if base_loss == "hyperbolic" else values  # see `checks`


def _photograph_training(dataset: str, base_loss: str, chapter: int) -> dict[str, Any]:
    large, by_proxy = traits_of(dataset).large, base_loss in PROXY_LOSSES
    steps = thesis.PHOTOGRAPH_EVALUATION[chapter, large]
    slow = base_loss == "panchor" and dataset == "sop" and chapter == 5
    return {
        **thesis.PHOTOGRAPH_NETWORK,
        "classes_per_batch": 32 if by_proxy else 8,
        "samples_per_class": 1 if by_proxy else 4,
        "learning_rate": 5e-6 if slow else 1e-5,
        "frozen_batch_norm": True,
        "warm_up_epochs": 1 if by_proxy else 0,
        "steps_per_evaluation": steps,
        "max_steps": 10_000 * steps,
        "patience": 60 if chapter == 3 else (10 if large else 15),
    }


def _embedded_training(dataset: str, base_loss: str, chapter: int) -> dict[str, Any]:
    """Return the training of untrained networks; chapter 3 evaluates often, as printed.

    Reference: thesis sections 5.3.1 (tokens) and 5.3.2 (Cifar Collage): batch, learning rate, schedule and patience,
    "default Adam" (no weight decay is printed); only validation ends a run. The samples in an epoch of tokens are not
    printed, so their patience counts evaluations. The rest is ours. Chapter 3 has the batch of its section 3.3.2.1,
    8 classes of 4 samples, because CCP replaces a larger batch (figure 3.8). Its norm clip (3.2.4) is used on glyphs,
    where it has been tried.
    """
    tokens, characters = dataset == "synthetic_tokens", dataset in thesis.CHARACTERS
    steps = thesis.COLLAGE_EPOCHS.get(dataset.removesuffix("_distilled"), 200) if chapter == 5 else 50
    return {
        "backbone": "token_embedding" if tokens else ("resnet20" if dataset in thesis.CIFAR else "resnet10"),
        "weights": "none",
        "embedding_dim": 2 if tokens else 128,
        "normalization": "none" if tokens else ("clip" if chapter == 3 and characters else "unit"),
        "image_size": 32 if characters else (50 if tokens else 48),
        "crop": "shift" if characters else "none",
        "classes_per_batch": 8 if chapter == 3 else 16,
        "samples_per_class": 4,
        "learning_rate": 1e-4 if tokens else 1e-3,
        "proxy_multiplier": 10.0 if base_loss in PROXY_LOSSES and not tokens else 1.0,
        "frozen_batch_norm": False,
        "weight_decay": 0.0 if tokens else 1e-4,
        "steps_per_evaluation": steps,
        "max_steps": 10_000 * steps,
        "patience": 30 if tokens or chapter == 3 else 10,
        **(thesis.EMOJI if traits_of(dataset).kind == "drawings" else thesis.CIFAR.get(dataset, {})),
    }


def loss_parameters(dataset: str, base_loss: str, chapter: int, normalization: str) -> dict[str, Any]:
    """Return a loss's hyper-parameters by field name; empty for the loss's defaults."""
    parameters: dict[str, Any] = dissertation.LOSSES.get(base_loss, {})
    if base_loss in dissertation.LOSSES:
        free = dissertation.FREE if normalization == "none" else dissertation.NORMALIZED
        parameters = parameters | {name: free[name] for name in dissertation.BY_NORMALIZATION.get(base_loss, ())}
        if base_loss == "histogram" and dataset in dissertation.FINE_GRAINED:
            parameters["histogram_nodes"] = dissertation.FINE_GRAINED_NODES
    elif base_loss == "pnca":
        parameters = {"temperature": thesis.TEMPERATURE[chapter]}
    else:
        parameters = thesis.LOSSES_EVERYWHERE.get(base_loss) or thesis.LOSSES_OF[dataset].get(base_loss, {})
    takes_initializer = "proxy_initializer" in LOSSES[base_loss].names()
    return {"proxy_initializer": "he_normal", **parameters} if takes_initializer else parameters


def switch_probability(dataset: str, base_loss: str) -> float:
    """Return p_switch of rho-regularisation: mostly .4 (CUB), .35 (Cars), .15 (SOP)."""
    like = "cub200" if dataset in dissertation.LIKE_CUB else ("cars196" if dataset == "cars196" else "sop")
    return dissertation.SWITCHES.get(like, {}).get(base_loss, dissertation.SWITCH[like])


def ccp_parameters(dataset: str, loss: str, begins_at_random: bool, is_photographs: bool) -> dict[str, Any]:
    """Return the values of CCP's fields by name.

    Reference: thesis section 3.3.2.1; lambda 2e-4, eight proxies of twelve samples (CUB, Cars) or four of seven.

    Samples are the anchors, as in the published code; the text leaves this open. A proxy of a class outside the batch
    has no positive there, so as an anchor it has no triplet.

    The thesis' networks come pre-trained and learn at 1e-5: their proxies hardly move. If the network, or
    the only trained head, begins at random, the first problem waits until the in-batch loss has converged. A problem
    that ends below the previous one is undone. At the 1e-3 of networks from scratch, proxies learn at a tenth of that.
    Without these measures, CCP stays far below its plain loss (docs/results/ccp.md).
    """
    if loss not in PAIR_LOSSES:
        raise InvalidInput(
            f"Invalid --loss with --method=ccp: received {loss!r}, expected a pair loss: {', '.join(PAIR_LOSSES)}."
        )
    small = dataset in thesis.CCP_SMALL
    values = {
        "proxies_per_class": 8 if small else 4,
        "pool_size": 12 if small else 7,
        **thesis.CCP,
        "ccp_start": 1000 if begins_at_random else 0,
        **(thesis.CCP_FROM_RANDOM if begins_at_random else {}),
    }
    if not is_photographs:
        values |= thesis.EMOJI_CCP if traits_of(dataset).kind == "drawings" else {"proxy_multiplier": 0.1}
    return values | ({"ccp_anchors": "embeddings"} if loss in ANCHORED_LOSSES else {})


def gsp_parameters(dataset: str, base_loss: str) -> dict[str, Any]:
    """Return the values of GSP's fields by name; arguments as of `model_and_training`."""
    values: dict[str, Any] = dict(thesis.GSP)
    if traits_of(dataset).large:
        values["num_prototypes"] = 128
    if base_loss in PROXY_LOSSES:
        values["smoothing"] = 0.5
    return values | (thesis.CIFAR_COLLAGE_GSP if dataset in thesis.CIFAR and "collage" in dataset else {})


def conventional_setting(
    dataset: str, protocol: str, by_proxy: bool, size: str | None, backbone: str
) -> dict[str, Any]:
    """Return the conventional protocol's changes, also for stopping on held-out classes.

    The thesis: plateau of 4 evaluations; learning rate 1e-5 on CUB, 1e-4 on the others; weight decay 4e-4 and a batch
    of 112 with ResNet-50; 512-D; an evaluation every 25 or 250 steps; patience 15 or 10. The sampling
    of proxy losses is left open; the published code takes one image per class.

    Reference: thesis sections 3.3.2.1 and 5.3.4.1 (tables 3.2 and 5.2).
    """
    check_choice("protocol", protocol, CONVENTIONAL_PROTOCOLS)
    held_out = protocol == "held_out"
    values: dict[str, Any] = {"protocol": protocol, "plateau_patience": 4}
    if held_out:
        values["held_out_fraction"] = thesis.HELD_OUT_FRACTION
    if dataset != "synthetic_tokens":
        values["embedding_dim"] = 512
    if size is None:
        return values
    is_resnet, steps = backbone == "resnet50", {"small": 25, "large": 250}[size]
    classes = 28 if is_resnet else 32
    values |= {
        "classes_per_batch": classes,
        "samples_per_class": 4,
        "learning_rate": 1e-5 if dataset in thesis.SLOW_DATASETS else 1e-4,
        "weight_decay": 4e-4 if is_resnet else 1e-4,
        "steps_per_evaluation": steps,
        "max_steps": 10_000 * steps,
        "patience": {"small": 15, "large": 10}[size],
    }
    if by_proxy:
        most = thesis.MOST_CLASSES.get(dataset, 4 * classes)
        most = int(most * (1 - thesis.HELD_OUT_FRACTION)) if held_out else most
        values |= {"classes_per_batch": min(4 * classes, most), "samples_per_class": 1}
    return values


def published_code_switches(values: dict[str, Any], base_loss: str, backbone: str) -> dict[str, Any]:
    """Return the switches of the fair protocol and those of both protocols."""
    steps = values["steps_per_evaluation"] if values["warm_up_epochs"] else None
    parts: list[tuple[Any, dict[str, Any]]] = [
        (True, published.EVERY_RUN),
        ("protocol" not in values, published.FAIR),
        (values["crop"] == "thesis", published.PHOTOGRAPHS),
        (backbone == "bn_inception", published.BN_INCEPTION),
        (steps, {"warm_up_epochs": 0, "warm_up_steps": steps}),
        (values.get("xbm_batches"), published.MEMORY),
        ("num_prototypes" in values, published.GSP),
        ("num_prototypes" in values and steps, {"gsp_memory_delay": steps}),
        (values["method"] == "ccp", published.CCP),
        (base_loss in PROXY_LOSSES, published.PROXY_LOSSES),
        (base_loss == "pnca", published.PNCA),
    ]
    return {name: value for applies, switches in parts if applies for name, value in switches.items()}


def published_code_conventional(values: dict[str, Any], size: str | None, backbone: str) -> dict[str, Any]:
    """Return the published code's conventional values that the text lacks or contradicts."""
    if size is None:
        return {}
    large, chapter, is_resnet = size == "large", values["chapter"], backbone == "resnet50"
    switches: dict[str, Any] = {"plateau_patience": 3 if large else 4, "learning_rate": 1e-4 if large else 1e-5}
    if large and chapter == 3 and not is_resnet:
        switches["patience"] = 15
    if values["warm_up_steps"]:
        switches["warm_up_trains_all"] = True  # its conventional configurations: freeze_during_warmup false
    if "xbm_batches" in values and not large:
        switches["xbm_batches"] = 25 if is_resnet else 50
        switches["xbm_start"] = 100 if is_resnet and chapter == 5 else 1000
    return switches | published.CONVENTIONAL_LOSSES.get(parse_loss(values["loss"]).base, {})


def revisiting_setting(dataset: str, base_loss: str, size: str | None) -> dict[str, Any]:
    """Return the changes of the "Revisiting" benchmark.

    Args:
        size: `small` or `large` for data sets of photographs, None for embedded ones, which keep their network, its
            learning rate and the length of training; glyphs take half a batch.
    """
    values: dict[str, Any] = {**dissertation.BENCHMARK, **dissertation.BENCHMARK_LOSSES.get(base_loss, {})}
    if dataset == "synthetic_tokens":
        values |= dissertation.BENCHMARK_TOKENS
    if size is None:
        return values | (dissertation.BENCHMARK_GLYPHS if traits_of(dataset).kind in ("characters", "collages") else {})
    steps, epochs = dissertation.STEPS_PER_EPOCH.get(dataset, 52), dissertation.EPOCHS.get(dataset, 150)
    return {
        **values,
        **dissertation.BENCHMARK_PHOTOGRAPHS,
        "steps_per_evaluation": steps,
        "max_steps": epochs * steps,
        "patience": epochs + 1,
    }


def chapter_setting(chapter: int, base_loss: str, dataset: str, values: dict[str, Any]) -> dict[str, Any]:
    """Return what a later chapter prints instead of the benchmark's `values`."""
    changes: dict[str, Any] = {}
    if chapter == 3:
        batch = values["classes_per_batch"] * values["samples_per_class"]
        images = dissertation.CHAPTER_3_IMAGES.get(base_loss, 4)
        most = thesis.MOST_CLASSES.get(dataset, batch)
        most = int(most * (1 - thesis.HELD_OUT_FRACTION)) if values.get("protocol") == "held_out" else most
        classes = max(2, min(batch // images, most))
        changes |= {"samples_per_class": images, "classes_per_batch": classes}
    if not traits_of(dataset).photographs:
        return changes
    changes |= dissertation.CHAPTERS.get(chapter, {})
    if chapter == 4:
        epochs = dissertation.CHAPTER_4_EPOCHS.get(dataset, 200)
        changes |= {"max_steps": epochs * values["steps_per_evaluation"], "patience": epochs + 1}
    return changes
