"""Recipes, budgets and flags become a configuration, layer by layer.

The values are tables: `thesis_values`, `dissertation_values` and `published_code_values`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from common.backbones import PRESET_WEIGHTS, is_preset
from common.backbones.initial_weights import may_be_transformer
from common.errors import InvalidInput, check_choice, invalid
from experiments.settings import dissertation_values as dissertation
from experiments.settings import recipe_layers
from experiments.settings import thesis_values as thesis
from experiments.settings.checks import check_method
from experiments.settings.config import ExperimentConfig
from experiments.settings.datasets import DATASETS, OF_CUSTOM_DATA, traits_of
from experiments.settings.feature_recipe import dissertation_chapter, set_features_and_pads, settings_with_effect
from experiments.settings.layers import GIVEN, OPEN, Layers
from experiments.settings.method_names import PROXY_LOSSES, LossName, parse_loss, uses_gsp, without_features
from experiments.settings.own_data import OWN_VALUES
from experiments.settings.parts import all_settings, parts_of
from experiments.settings.run_settings import (
    BUDGETS,
    COSINE,
    CROPS_OF_FILES,
    METHODS,
    OWN_PHOTOS,
    REVISITING,
    RUN_SECTIONS,
    SUPERCLASSES,
)
from experiments.settings.tuned_recipe import recipe_layer

_SHORT_WEIGHT_DECAY = 1e-4  # of short budgets if the recipe has none; their figures here were measured with it
_IMAGE_SIZE = 224  # of photographs for transformers; a multiple of patches of 14 and of 16 pixels
_SMOKE_IMAGE_SIZE = 112
NUM_VIEWS = 4  # of a training image; each takes as much room as the evaluation's view


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
        recipe: one of `run_settings.RECIPES`, or a file from `experiments.tune`.
        budget: `full` (the recipe as it is), `demo` (minutes on a CPU) or `smoke` (seconds; checks that all runs).

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
    recipe, tuned_by, tuned = recipe_layer(recipe, loss, method, pooling)
    given, overrides = overrides, {**tuned, **overrides}
    check_choice("--budget", budget, BUDGETS)
    name, base_loss = parse_loss(loss), parse_loss(loss).base
    check_choice("--method", method, METHODS)
    chapter = overrides.get("chapter", 3 if method == "ccp" else 5)
    check_choice("--chapter", chapter, (3, 5))
    layers = Layers(overrides)
    chosen = {"dataset": dataset, "loss": loss, "pooling": pooling, "method": method}
    layers.set("the method", {**chosen, "recipe": recipe, "budget": budget, "chapter": chapter})
    traits = traits_of(dataset)
    values, dataset = layers.values, traits.follows
    if recipe == OWN_PHOTOS:
        dataset = _photographs_like(dataset)
    size = ("large" if traits_of(dataset).large else "small") if traits_of(dataset).photographs else None
    after = "" if dataset in thesis.PRINTED else "ours, after "
    section = f"{after}thesis {'3.3.2.1' if chapter == 3 else '5.3.4.1'}"
    embedded = "as on emoji" if recipe == OWN_PHOTOS else "ours, after thesis 5.3.1 and 5.3.2"
    layers.set(section if size else embedded, recipe_layers.model_and_training(dataset, base_loss, chapter))
    parameters = recipe_layers.loss_parameters(dataset, base_loss, chapter, layers.chosen("normalization"))
    layers.set(_source_of_loss(base_loss, section, after), parameters)
    backbone = layers.chosen("backbone")
    if protocol is not None:
        setting = recipe_layers.conventional_setting(dataset, protocol, base_loss in PROXY_LOSSES, size, backbone)
        layers.set(f"{after}thesis, conventional protocol", setting)
    if recipe == OWN_PHOTOS:
        layers.set(f"--recipe={OWN_PHOTOS}", OWN_VALUES)
    _set_parts(layers, name, dataset, after)
    if recipe == "published_code":
        layers.set("published code", recipe_layers.published_code_switches(values, base_loss, backbone))
        if protocol is not None:
            layers.set(
                "published code, conventional protocol",
                recipe_layers.published_code_conventional(values, size, backbone),
            )
    if recipe == REVISITING:
        layers.set('"Revisiting" benchmark', recipe_layers.revisiting_setting(dataset, base_loss, size))
        of_dissertation = dissertation_chapter(name, layers.chosen("embedding_dim"))
        changes = recipe_layers.chapter_setting(of_dissertation, base_loss, dataset, values)
        layers.set(f"Milbich's dissertation, chapter {of_dissertation}", changes)
    layers.set(f"--budget={budget}", _budget_limits(budget, values))
    set_features_and_pads(layers, name, dataset)
    _set_consequences(layers, backbone, budget)
    _refuse_unused(values, overrides)
    late_start = _selection(values | overrides)
    layers.set(tuned_by, tuned)
    layers.set(GIVEN, given)
    layers.set_missing("what has to wait", late_start)
    return layers


def _photographs_like(dataset: str) -> str:
    """Return the data set whose other values `--recipe=own_photos` takes."""
    if not traits_of(dataset).photographs:
        photographs = [name for name, known in DATASETS.items() if known.photographs and known.follows == name]
        received, expected = f"{OWN_PHOTOS} with {dataset}", f"photographs: {', '.join(photographs)}"
        raise invalid("--recipe", received=received, expected=expected)
    return "emoji"


def _set_parts(layers: Layers, name: LossName, dataset: str, after: str) -> None:
    """Add the layers of miner, memory, CCP and pooling.

    `after` prefixes a source of other data.
    """
    if name.switches:
        layers.set('"Revisiting" benchmark, rho', {"p_switch": recipe_layers.switch_probability(dataset, name.base)})
    if name.memory:
        memory = {
            "xbm_batches": thesis.MEMORY_BATCHES.get(dataset, 25),
            "xbm_start": thesis.MEMORY_START.get(dataset, 1000),
        }
        layers.set(f"{after}thesis 3.3.2.1, memory", memory)
        layers.set(OPEN, {"xbm_fills_first": False, "xbm_holds_batch": False})
    if layers.values["method"] == "ccp":
        check_method(name, "ccp")
        ccp = recipe_layers.ccp_parameters(
            dataset, without_features(layers.values["loss"]), _begins_at_random(layers), traits_of(dataset).photographs
        )
        layers.set(OPEN, ccp)
        layers.set(f"{after}thesis 3.3.2.1, CCP", {each: ccp[each] for each in thesis.CCP_PRINTED})
    pooling = layers.values["pooling"]
    if uses_gsp(pooling):
        layers.set(f"{after}thesis 5.3.4.1, GSP", recipe_layers.gsp_parameters(dataset, name.base))
    if pooling.endswith("_64x128"):  # one feature of 128 channels for each of 64 prototypes
        layers.set("the pooling", {"embedding_dim": 64 * 128})


def _source_of_loss(base_loss: str, section: str, after: str) -> str:
    """Return the source of a loss's settings; `section` is the chapter's."""
    if base_loss in dissertation.LOSSES:
        return '"Revisiting" benchmark, losses'
    return f"{section if base_loss in ('pnca', 'panchor') else f'{after}thesis 3.3.2.1'}, losses"


def _set_consequences(layers: Layers, backbone: str, budget: str) -> None:
    """Add the fields implied by the backbone, the schedule and the cut.

    A preset has weights of its own. Photographs get a size that fits a transformer's patches. A schedule over steps
    excludes plateau halving. A cut implies cached features, and several views for random crops.

    Raises:
        InvalidInput: a schedule over steps, with a recipe that names none.
    """
    given = layers.given
    if is_preset(backbone):
        layers.set("--backbone", {"weights": PRESET_WEIGHTS})
    if traits_of(layers.values["dataset"]).photographs and may_be_transformer(backbone):
        layers.set("--backbone", {"image_size": _SMOKE_IMAGE_SIZE if budget == "smoke" else _IMAGE_SIZE})
    if given.get("learning_rate_schedule") == COSINE:
        if budget == "full" and "max_steps" not in given:
            raise InvalidInput(
                "--learning_rate_schedule=cosine falls to 0 at --max_steps, which --budget=full leaves open: "
                "validation ends a run. Give --max_steps."
            )
        layers.set("--learning_rate_schedule", {"plateau_patience": 0})
    if given.get("trained_from") is not None:
        cached = bool(given.get("cached_features", True))
        layers.set("--trained_from", {"cached_features": cached})
        if cached:
            layers.set("--trained_from", {"views": 1 if layers.chosen("crop") == "none" else NUM_VIEWS})


def _begins_at_random(layers: Layers) -> bool:
    """Return whether the trained part of the network has no initial weights."""
    weights = PRESET_WEIGHTS if is_preset(layers.chosen("backbone")) else layers.values["weights"]
    from_scratch = "none" in (weights, layers.given.get("weights"))
    return from_scratch or bool(layers.given.get("frozen_backbone") or layers.given.get("trained_from"))


def _selection(values: dict) -> dict:
    """Delay selection until memory or proxies, which begin at random, are active.

    Until then, the plain loss may be ahead, but its weights are no result of the method. For photographs, the memory's
    delay is printed in the thesis, and earlier selection is allowed as there.
    """
    waits = ("xbm_start", "ccp_start") if values["weights"] == "none" else ("ccp_start",)
    start = max(values.get(name) or 0 for name in waits)
    return {"selection_start": start} if 0 < start < values["max_steps"] else {}


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
    changes |= {name: min(steps, values[name]) for name, steps in waits.items() if values.get(name)}
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
    if traits_of(values["dataset"]).photographs and budget == "smoke":
        changes |= {"image_size": 64, **({"warm_up_epochs": 0, "warm_up_steps": 2} if values["warm_up_epochs"] else {})}
    if not values["weight_decay"]:
        changes["weight_decay"] = _SHORT_WEIGHT_DECAY
    if uses_gsp(values["pooling"]) and budget == "smoke":
        changes["gsp_memory_size"] = max(2 * values["num_prototypes"], 128)
    return changes


def departures(
    config: ExperimentConfig, given: Iterable[str] = ("chapter", "backbone", "normalization")
) -> dict[str, object]:
    """Return the recipe's values of the fields that a configuration changes."""
    fixed = {name: getattr(config, name) for name in given}
    method_of = (config.dataset, config.loss, config.pooling, config.recipe, config.budget)
    recipe = resolve(*method_of, fixed, config.method, config.protocol)
    names = [each.name for each in all_settings()]
    return {name: getattr(recipe, name) for name in names if getattr(config, name) != getattr(recipe, name)}


def unused_overrides(values: dict, overrides: dict) -> list[str]:
    """Return the overrides without effect on a method."""
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
        **{name: name in traits_of(values["dataset"]).settings for name in OF_CUSTOM_DATA},
        "evaluation_antialias": values["crop"] in CROPS_OF_FILES,
        "copies": values["crop"] in CROPS_OF_FILES and values.get("evaluation_antialias", True),
        "input_mean": values["backbone"] == "bn_inception",
        "warm_up_trains_all": bool(values["warm_up_epochs"] or values["warm_up_steps"]),
        "cached_features": values.get("trained_from") is not None,
        "superclasses_per_batch": values.get("sampler") == SUPERCLASSES,
        "image_noise": not values.get("cached_features") and values["backbone"] != "token_embedding",
        **settings_with_effect(values),
    }
    return {name for name, has in has_effect.items() if not has}


def _refuse_unused(values: dict, overrides: dict) -> None:
    unused = unused_overrides(values, overrides)
    if unused:
        flags = ", ".join(f"--{name}" for name in unused)
        method = f"--loss={values['loss']} --pooling={values['pooling']}"
        raise InvalidInput(f"{flags} would have no effect with {method}. Remove it.")
