"""The thesis' hyper-parameters, and the switches between its text and code.

Reference: thesis sections 3.3.2.1 and 5.3.4.1; errata and undecided points are named in each field's help.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from common.backbones import PRESET_WEIGHTS, is_preset
from common.errors import InvalidInput, check_choice
from experiments.settings.ccp_recipe import PRINTED_CCP, ccp_parameters
from experiments.settings.config import ExperimentConfig, all_settings
from experiments.settings.conventional_recipe import conventional_setting, published_code_conventional
from experiments.settings.cut_settings import cut_settings
from experiments.settings.feature_checks import check_method
from experiments.settings.feature_recipe import set_features_and_pads, settings_with_effect
from experiments.settings.layers import GIVEN, OPEN, Layers
from experiments.settings.method_names import parse_loss, uses_gsp, without_features
from experiments.settings.methods.loss_table import LOSSES, PROXY_LOSSES
from experiments.settings.milbich_recipe import benchmark_loss, proxy_pace, switch_probability
from experiments.settings.parts import parts_of
from experiments.settings.provided import recipe_of
from experiments.settings.published_code_recipe import published_code_switches
from experiments.settings.revisiting_recipe import RECIPE, revisiting_setting
from experiments.settings.run_settings import RUN_SECTIONS
from experiments.settings.thesis_losses import SOP_LOSSES, THESIS_LOSSES
from experiments.settings.tuned_recipe import recipe_layer
from experiments.settings.update_settings import backbone_settings, update_settings

RECIPES = ("thesis", "published_code", RECIPE)
METHODS = ("plain", "ccp")
BUDGETS = ("smoke", "demo", "full")
PHOTOGRAPHS = ("cub200", "cars196", "sop", "inshop", "folder", "manifest")
PRINTED = ("cub200", "cars196", "sop", "inshop")  # whose hyper-parameters the thesis prints
LARGE_DATASETS = ("sop", "inshop")

# Settings of data sets of 32 x 32 photographs. Thesis section 5.3.2 for Cifar Collage (16 classes of 4 images
# in a batch); fewer classes where a fold, or the data set, has no 16 to train on.
_CIFAR_IMAGES = {"image_size": 32, "crop": "shift_flip"}
_CIFAR_COLLAGES = {"image_size": 64, "crop": "none", "plateau_patience": 5, "weight_decay": 0.0}
_TWO_CLASSES = {"classes_per_batch": 2, "samples_per_class": 32}
CIFAR = {
    "cifar10": {**_CIFAR_IMAGES, "classes_per_batch": 4, "samples_per_class": 16},
    "cifar10_seen": {**_CIFAR_IMAGES, "classes_per_batch": 10, "samples_per_class": 6},
    "cifar10_unseen": {**_CIFAR_IMAGES, **_TWO_CLASSES, "num_folds": 2},
    "cifar100": _CIFAR_IMAGES,
    "cifar100_unseen": _CIFAR_IMAGES,
    "cifar_collage": _CIFAR_COLLAGES,
    "cifar_collage_distilled": {**_CIFAR_COLLAGES, "image_size": 32},
    "cifar_collage_published_code": {**_CIFAR_COLLAGES, "classes_per_batch": 12},
    "cifar_collage_published_code_distilled": {**_CIFAR_COLLAGES, "classes_per_batch": 12, "image_size": 32},
    "cifar10_collage": {**_CIFAR_COLLAGES, **_TWO_CLASSES},
    "cifar10_collage_distilled": {**_CIFAR_COLLAGES, **_TWO_CLASSES, "image_size": 32},
}
# Collages of a pass over the training set in batches of these classes: the thesis counts their patience in epochs.
_COLLAGE_EPOCHS = {"cifar_collage": 300, "cifar_collage_published_code": 600, "cifar10_collage": 188}
_SHORT_WEIGHT_DECAY = 1e-4  # of short budgets if the recipe has none; their figures here were measured with it
_CIFAR_COLLAGE_GSP = {"transport_ratio": 0.2, "smoothing": 10.0, "zero_shot_weight": 0.5}

DATASET_LOSSES = {**THESIS_LOSSES, **dict.fromkeys(CIFAR, SOP_LOSSES)}
CHARACTERS = ("glyphs", "glyph_scripts")  # one in an image of 32 x 32
# Glyph collages are ours; these values come from `collage_study` (the thesis' for Cifar Collage are .2 and 10).
COLLAGE_GSP = {"smoothing": 20.0, "transport_ratio": 0.1, "gsp_memory_features": "local_features"}
# Networks for glyphs start from scratch. Of 2, 4, 8 and 25 batches, the smallest memory validates best (C1, fold 0,
# MAP@R after 1,000 steps: .746, .681, .489, .367). With 25, a start after 200 steps beats 0 and 400 (.231, .298).
XBM_MEMORY_BATCHES = {"cub200": 25, "cars196": 25, "inshop": 400, "sop": 1400, "glyphs": 2}
_RECALL_AT = {"sop": (1, 10, 100, 1000), "inshop": (1, 10, 20, 30)}


def resolve(
    dataset: str,
    loss: str,
    pooling: str,
    recipe: str,
    budget: str,
    overrides: dict,
    method: str = "plain",
    protocol: str | None = None,
) -> ExperimentConfig:
    """Return the complete configuration: recipe, then budget, then flags.

    Args:
        dataset, loss, pooling: names as in `experiments.settings.build`.
        recipe: one of `RECIPES`, or a file from `experiments.tune`.
        budget: `full` (the recipe as it is), `demo` (minutes on a CPU) or `smoke` (seconds; checks that all runs).
        overrides: values by field name; a field that this loss and pooling do not use is an error.
        method: one of `METHODS`.
        protocol: None for the fair protocol, or one of `experiments.settings.config.CONVENTIONAL_PROTOCOLS`.

    Raises:
        InvalidInput: unknown names, or an override that would have no effect.
    """
    layers = layers_of(dataset, loss, pooling, recipe, budget, overrides, method, protocol)
    return ExperimentConfig.of(layers.values, layers.sources)


def layers_of(
    dataset: str,
    loss: str,
    pooling: str,
    recipe: str,
    budget: str,
    overrides: dict,
    method: str = "plain",
    protocol: str | None = None,
) -> Layers:
    """Return the layers of `resolve`; arguments and errors as there."""
    recipe, tuned_by, tuned = check_recipe(recipe, loss, method, pooling)
    given, overrides = overrides, {**tuned, **overrides}
    check_choice("--budget", budget, BUDGETS)
    name, base_loss = parse_loss(loss), parse_loss(loss).base
    check_choice("--method", method, METHODS)
    chapter = overrides.get("chapter", 3 if method == "ccp" else 5)
    check_choice("--chapter", chapter, (3, 5))
    layers = Layers()
    chosen = {"dataset": dataset, "loss": loss, "pooling": pooling, "method": method}
    layers.set("the method", {**chosen, "recipe": recipe, "budget": budget, "chapter": chapter})
    values, dataset = layers.values, recipe_of(dataset)
    size = ("large" if dataset in LARGE_DATASETS else "small") if dataset in PHOTOGRAPHS else None
    after = "" if dataset in PRINTED else "ours, after "
    section = f"{after}thesis {'3.3.2.1' if chapter == 3 else '5.3.4.1'}"
    training = section if size else "ours, after thesis 5.3.1 and 5.3.2"
    layers.set(training, _model_and_training(dataset, base_loss, chapter))
    parameters = _loss_parameters(dataset, base_loss, chapter, overrides.get("normalization", values["normalization"]))
    is_benchmark = benchmark_loss(dataset, base_loss, values["normalization"]) is not None
    layers.set(_source_of_loss(is_benchmark, base_loss, section, after), parameters)
    backbone = overrides.get("backbone", values["backbone"])
    if protocol is not None:
        setting = conventional_setting(dataset, protocol, base_loss in PROXY_LOSSES, size, backbone)
        layers.set(f"{after}thesis, conventional protocol", setting)
    if name.switches:
        layers.set('"Revisiting" benchmark, rho', {"p_switch": switch_probability(dataset, base_loss)})
    if name.memory:
        _set_memory(layers, dataset, after)
    if method == "ccp":
        _set_ccp(layers, dataset, overrides, after)
    if uses_gsp(pooling):
        layers.set(f"{after}thesis 5.3.4.1, GSP", _gsp_parameters(dataset, base_loss))
    if pooling.endswith("_64x128"):  # one feature of 128 channels for each of 64 prototypes
        layers.set("the pooling", {"embedding_dim": 64 * 128})
    if recipe == "published_code":
        layers.set("published code", published_code_switches(values, base_loss, backbone))
        if protocol is not None:
            layers.set("published code, conventional protocol", published_code_conventional(values, size, backbone))
    if recipe == RECIPE:
        layers.set('"Revisiting" benchmark', revisiting_setting(dataset, base_loss, size))
    layers.set(f"--budget={budget}", _budget_limits(budget, values))
    set_features_and_pads(layers, name, dataset, overrides)
    _set_consequences(layers, overrides, backbone, budget)
    _refuse_unused(values, overrides)
    late_start = _selection(values | overrides)
    for source, settings in ((tuned_by, tuned), (GIVEN, given)):
        layers.set(source, settings)
    layers.set_missing("what has to wait", late_start)
    return layers


def recall_at(dataset: str) -> tuple[int, ...]:
    """Return the k of R@k in a data set's tables."""
    return _RECALL_AT.get(recipe_of(dataset), (1, 2, 4, 8))


def check_recipe(recipe: str, loss: str, method: str, pooling: str) -> tuple[str, str, dict[str, Any]]:
    """Return `recipe_layer`'s result; refuse an unknown recipe."""
    named, source, settings = recipe_layer(recipe, loss, method, pooling)
    check_choice("--recipe", named, RECIPES)
    return named, source, settings


def _source_of_loss(is_benchmark: bool, base_loss: str, section: str, after: str) -> str:
    """Return the source of a loss's settings; `section` is the chapter's."""
    if is_benchmark:
        return '"Revisiting" benchmark, losses'
    return f"{section if base_loss in ('pnca', 'panchor') else f'{after}thesis 3.3.2.1'}, losses"


def _set_consequences(layers: Layers, overrides: dict, backbone: str, budget: str) -> None:
    """Add the fields implied by the backbone, the schedule and the cut."""
    values = layers.values
    layers.set("--backbone", backbone_settings(backbone, values["dataset"] in PHOTOGRAPHS, budget))
    layers.set("--learning_rate_schedule", update_settings(overrides, budget))
    layers.set("--trained_from", cut_settings(overrides, values["crop"]))


def _set_memory(layers: Layers, dataset: str, after: str) -> None:
    """Add the cross-batch memory's layers; `after` prefixes a source of other data."""
    memory = {"xbm_batches": XBM_MEMORY_BATCHES.get(dataset, 25), "xbm_start": 1000}
    layers.set(f"{after}thesis 3.3.2.1, memory", memory)
    layers.set(OPEN, {"xbm_fills_first": False, "xbm_holds_batch": False})


def _set_ccp(layers: Layers, dataset: str, overrides: dict, after: str) -> None:
    """Add the layers of CCP; arguments as of `_set_memory`."""
    values = layers.values
    check_method(parse_loss(values["loss"]), "ccp")
    pair_loss, is_photographs = without_features(values["loss"]), dataset in PHOTOGRAPHS
    ccp = ccp_parameters(dataset, pair_loss, _begins_at_random(values, overrides), is_photographs)
    layers.set(OPEN, ccp)
    layers.set(f"{after}thesis 3.3.2.1, CCP", {name: ccp[name] for name in PRINTED_CCP})


def _begins_at_random(values: dict, overrides: dict) -> bool:
    """Return whether the trained part of the network has no initial weights."""
    weights = PRESET_WEIGHTS if is_preset(overrides.get("backbone", values["backbone"])) else values["weights"]
    from_scratch = "none" in (weights, overrides.get("weights"))
    return from_scratch or bool(overrides.get("frozen_backbone") or overrides.get("trained_from"))


def _selection(values: dict) -> dict:
    """Delay selection until memory or proxies, which begin at random, are active.

    Until then, the plain loss may be ahead, but its weights are no result of the method. For photographs, the memory's
    delay is printed in the thesis, and earlier selection is allowed as there.
    """
    waits = ("xbm_start", "ccp_start") if values["weights"] == "none" else ("ccp_start",)
    start = max(values.get(name) or 0 for name in waits)
    return {"selection_start": start} if 0 < start < values["max_steps"] else {}


def _model_and_training(dataset: str, base_loss: str, chapter: int) -> dict:
    values = {
        "normalization": "unit" if chapter == 5 else "clip",
        "embedding_dim": 128,
        "beta_2": 0.99,
        "weight_decay": 1e-4,
        "clip_norm": 0.0,
        "clip_value": 0.0,
        "plateau_patience": 0,
        "warm_up_epochs": 0,
        "warm_up_steps": 0,
        "proxy_multiplier": proxy_pace(dataset, base_loss) or (100.0 if base_loss in PROXY_LOSSES else 1.0),
    }
    return values | (_photograph_training if dataset in PHOTOGRAPHS else _embedded_training)(
        dataset, base_loss, chapter
    )


def _photograph_training(dataset: str, base_loss: str, chapter: int) -> dict:
    large, by_proxy = dataset in LARGE_DATASETS, base_loss in PROXY_LOSSES
    steps = {(3, False): 25, (3, True): 250, (5, False): 100, (5, True): 1000}[chapter, large]
    patience = 60 if chapter == 3 else (10 if large else 15)
    slow = base_loss == "panchor" and dataset == "sop" and chapter == 5
    return {
        "backbone": "bn_inception",
        "weights": "imagenet",
        "image_size": 227,
        "crop": "thesis",
        "classes_per_batch": 32 if by_proxy else 8,
        "samples_per_class": 1 if by_proxy else 4,
        "learning_rate": 5e-6 if slow else 1e-5,
        "frozen_batch_norm": True,
        "warm_up_epochs": 1 if by_proxy else 0,
        "steps_per_evaluation": steps,
        "max_steps": 10_000 * steps,
        "patience": patience,
    }


def _embedded_training(dataset: str, base_loss: str, chapter: int) -> dict:
    """Return the training of untrained networks; chapter 3 evaluates often, as printed.

    Reference: thesis sections 5.3.1 (tokens) and 5.3.2 (Cifar Collage): batch, learning rate, schedule and patience,
    "default Adam" (no weight decay is printed); only validation ends a run. The samples in an epoch of tokens are not
    printed, so their patience counts evaluations. The rest is ours. Chapter 3 has the batch of its section 3.3.2.1,
    8 classes of 4 samples, because CCP replaces a larger batch (figure 3.8). Its norm clip (3.2.4) is used on glyphs,
    where it has been tried.
    """
    tokens = dataset == "synthetic_tokens"
    steps = _COLLAGE_EPOCHS.get(dataset.removesuffix("_distilled"), 200) if chapter == 5 else 50
    return {
        "backbone": "token_embedding" if tokens else ("resnet20" if dataset in CIFAR else "resnet10"),
        "weights": "none",
        "embedding_dim": 2 if tokens else 128,
        "normalization": "none" if tokens else ("clip" if chapter == 3 and dataset in CHARACTERS else "unit"),
        "image_size": 32 if dataset in CHARACTERS else (50 if tokens else 48),
        "crop": "shift" if dataset in CHARACTERS else "none",
        "classes_per_batch": 8 if chapter == 3 else 16,
        "samples_per_class": 4,
        "learning_rate": 1e-4 if tokens else 1e-3,
        "proxy_multiplier": 10.0 if base_loss in PROXY_LOSSES and not tokens else 1.0,
        "frozen_batch_norm": False,
        "weight_decay": 0.0 if tokens else 1e-4,
        "steps_per_evaluation": steps,
        "max_steps": 10_000 * steps,
        "patience": 30 if tokens or chapter == 3 else 10,
        **CIFAR.get(dataset, {}),
    }


def _loss_parameters(dataset: str, base_loss: str, chapter: int, normalization: str) -> dict:
    common = {
        "c1": {"margin": 0.5},
        "pnca": {"temperature": 0.11 if chapter == 5 else 0.1},
        "panchor": {"panchor_margin": 0.1, "panchor_scale": 32.0},
    }
    parameters = benchmark_loss(dataset, base_loss, normalization) or common.get(base_loss)
    parameters = parameters or DATASET_LOSSES[dataset].get(base_loss, {})  # empty: the loss's defaults
    takes_initializer = "proxy_initializer" in LOSSES[base_loss].names()
    return {"proxy_initializer": "he_normal", **parameters} if takes_initializer else parameters


def _gsp_parameters(dataset: str, base_loss: str) -> dict:
    return {
        "num_prototypes": 128 if dataset in LARGE_DATASETS else 64,
        "transport_ratio": 0.3,
        "smoothing": 0.5 if base_loss in PROXY_LOSSES else 5.0,
        "solver": "exact",
        "gsp_memory_size": 1024,
        "zero_shot_weight": 0.1,
        "zero_shot_ridge": 0.05,
        "zero_shot_scale": 1.0,
        "zero_shot_reduction": "sum_of_means",
        "zero_shot_halves": "classes",
        **(_CIFAR_COLLAGE_GSP if dataset in CIFAR and "collage" in dataset else {}),
    }


def _budget_limits(budget: str, values: dict) -> dict:
    if budget == "full":
        return {}
    frequent = values["chapter"] == 3 and values["weights"] == "none"
    if budget == "smoke":
        changes: dict[str, Any] = {"steps_per_evaluation": 4, "max_steps": 8, "patience": 5}
    else:
        changes = {
            "steps_per_evaluation": 50 if frequent else 200,
            "max_steps": 1000,
            "patience": 20 if frequent else 5,
        }
    waits = {"xbm_start": 4, "ccp_start": 4} if budget == "smoke" else {"xbm_start": 200, "ccp_start": 400}
    changes |= {name: steps for name, steps in waits.items() if values.get(name)}
    if values.get("ccp_start_patience"):
        changes["ccp_start_patience"] = 0  # so few steps never converge; training logs this when a problem begins
    if "protocol" in values:
        changes["steps_per_evaluation"] = min(changes["steps_per_evaluation"], 100)
        if values["plateau_patience"]:
            changes["plateau_patience"] = max(2, changes["patience"] // 5)
    if values["warm_up_steps"]:
        changes["warm_up_steps"] = min(values["warm_up_steps"], changes["steps_per_evaluation"])
    if values.get("gsp_memory_delay"):
        changes["gsp_memory_delay"] = changes["warm_up_steps"]
    if recipe_of(values["dataset"]) in PHOTOGRAPHS and budget == "smoke":
        changes |= {"image_size": 64, **({"warm_up_epochs": 0, "warm_up_steps": 2} if values["warm_up_epochs"] else {})}
    if not values["weight_decay"]:
        changes["weight_decay"] = _SHORT_WEIGHT_DECAY
    if uses_gsp(values["pooling"]) and budget == "smoke":
        changes["gsp_memory_size"] = max(2 * values["num_prototypes"], 128)
    return changes


def departures(
    config: ExperimentConfig, given: Iterable[str] = ("chapter", "backbone", "normalization")
) -> dict[str, object]:
    """Return the recipe's values of the fields that a configuration changes.

    Args:
        config: resolved, with some fields set by hand.
        given: fields taken from the configuration, because others follow from them.
    """
    fixed = {name: getattr(config, name) for name in given}
    method_of = (config.dataset, config.loss, config.pooling, config.recipe, config.budget)
    recipe = resolve(*method_of, fixed, config.method, config.protocol)
    names = [each.name for each in all_settings()]
    return {name: getattr(recipe, name) for name in names if getattr(config, name) != getattr(recipe, name)}


def unused_overrides(values: dict, overrides: dict) -> list[str]:
    """Return the overrides without effect on a method.

    Args:
        values: the recipe's values for its data set, loss and pooling, by field name.
        overrides: values by field name.
    """
    backbone = overrides.get("backbone", values["backbone"])
    parts = parts_of(values["loss"], values["method"], values["pooling"], backbone, values["dataset"])
    used = {name for kind in (*RUN_SECTIONS, *parts) for name in kind.names()}
    used -= {"held_out_fraction"} - values.keys()
    if "protocol" in values:  # no folds there
        used -= {"num_folds", "fold_order"}
    return sorted(overrides.keys() - used | overrides.keys() & _without_effect({**values, **overrides}))


def _without_effect(values: dict) -> set[str]:
    """Return those settings of every run that these values make irrelevant."""
    has_effect = {
        "train_fraction": values["dataset"] == "folder",
        "evaluation_antialias": values["crop"] in ("thesis", "published_code"),
        "input_mean": values["backbone"] == "bn_inception",
        "warm_up_trains_all": bool(values["warm_up_epochs"] or values["warm_up_steps"]),
        "cached_features": values.get("trained_from") is not None,
        **settings_with_effect(values),
    }
    return {name for name, has in has_effect.items() if not has}


def _refuse_unused(values: dict, overrides: dict) -> None:
    unused = unused_overrides(values, overrides)
    if unused:
        flags = ", ".join(f"--{name}" for name in unused)
        method = f"--loss={values['loss']} --pooling={values['pooling']}"
        raise InvalidInput(f"{flags} would have no effect with {method}. Remove it.")
