"""Recipes, budgets and flags become a configuration, one after the other."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from common.backbones import PRESET_WEIGHTS, is_preset
from common.backbones.initial_weights import may_be_transformer
from common.errors import InvalidInput, check_choice
from experiments.parts.datasets import OF_CUSTOM_DATA, traits_of
from experiments.parts.registry import CROPS, SAMPLERS, choices_of_method
from experiments.parts.signatures import constructor_of
from experiments.recipes.dissertation import features, pads
from experiments.recipes.draft import GIVEN, Draft
from experiments.recipes.tuned_recipe import named_and_tuned
from experiments.settings.config import ExperimentConfig
from experiments.settings.method_names import uses_gsp
from experiments.settings.parts import all_settings, chosen_flags, chosen_parts
from experiments.settings.run_settings import BUDGETS, COSINE, RUN_SECTIONS
from milbich_dml.features import IN_TURN
from milbich_dml.pads import CURRICULA, FIXED, RANDOM, is_interval

_SHORT_WEIGHT_DECAY = 1e-4  # of short budgets if the recipe has none; their figures here were measured with it
_IMAGE_SIZE = 224  # of photographs for transformers; a multiple of patches of 14 and of 16 pixels
_SMOKE_IMAGE_SIZE = 112
NUM_VIEWS = 4  # of a training image; each takes as much room as the evaluation's view


def resolve(*words: Any, **others: Any) -> ExperimentConfig:  # noqa: ANN401  # those of `draft_of`
    """Return the configuration of a draft; arguments and errors as of `draft_of`."""
    draft = draft_of(*words, **others)
    return ExperimentConfig.of(draft.values, draft.sources)


def draft_of(
    dataset: str,
    loss: str,
    pooling: str,
    recipe: str,
    budget: str,
    overrides: dict,
    method: str = "plain",
    protocol: str | None = None,
) -> Draft:
    """Return all settings with their sources: recipe, then budget, then flags.

    Args:
        recipe: one of `run_settings.RECIPES`, or a file from `experiments.tune`.
        budget: `full` (the recipe as it is), `demo` (minutes on a CPU) or `smoke` (seconds; checks that all runs).

    Raises:
        InvalidInput: unknown names, or an override that would have no effect.
    """
    overrides = _by_setting(overrides, {"loss": loss, "method": method, "pooling": pooling})
    recipe, tuned_by, tuned = named_and_tuned(recipe, loss, method, pooling)
    given = {**tuned, **overrides}
    check_choice("--budget", budget, BUDGETS)
    check_choice("--method", method, choices_of_method())
    chapter = check_choice("--chapter", given.get("chapter", 3 if method == "ccp" else 5), (3, 5))
    words = {"dataset": dataset, "loss": loss, "pooling": pooling, "method": method, "recipe": recipe, "budget": budget}
    draft = Draft(given, words, chapter, protocol)
    constructor_of(f"experiments.recipes.{recipe}:{recipe}")(draft)
    if budget != "full":
        shorten(draft)
    features(draft)
    pads(draft)
    _consequences(draft)
    _refuse_unused(draft.values, given)
    late_start = _selection(draft.values | given)
    draft.set(tuned_by, **tuned)
    draft.set(GIVEN, **overrides)
    draft.set_missing("what has to wait", **late_start)
    return draft


def _by_setting(overrides: Mapping[str, Any], method_of: Mapping[str, str]) -> dict[str, Any]:
    """Return overrides by their names in configurations, of this method's parts at least."""
    names = chosen_flags({**overrides, **method_of})
    twice = [f"--{name} and --{flag}" for flag, name in names.items() if {flag, name} <= overrides.keys()]
    if twice:
        raise InvalidInput(f"{', '.join(twice)} are two names of one setting. Give one of them.")
    return {names.get(name, name): value for name, value in overrides.items()}


def shorten(draft: Draft) -> None:
    """Set the lengths of a short budget: minutes or seconds on a processor."""
    values, smoke, source = draft.values, draft.budget == "smoke", f"--budget={draft.budget}"
    frequent = draft.chapter == 3 and values["weights"] == "none"
    photographs = traits_of(values["dataset"]).photographs
    steps, patience = (4, 5) if smoke else ((50, 20) if frequent else (200, 5))
    if draft.protocol is not None:
        steps = min(steps, 100)
    draft.set(source, steps_per_evaluation=steps, max_steps=8 if smoke else 1000, patience=patience)
    for name, start in (("xbm_start", 4 if smoke else 200), ("ccp_start", 4 if smoke else 400)):
        if values.get(name):
            draft.set(source, **{name: min(start, values[name])})
    if values.get("ccp_start_patience"):
        draft.set(source, ccp_start_patience=0)  # so few steps never converge; training logs it when a problem begins
    if draft.protocol is not None and values["plateau_patience"]:
        draft.set(source, plateau_patience=max(2, patience // 5))
    if values["warm_up_steps"]:
        draft.set(source, warm_up_steps=min(values["warm_up_steps"], steps))
    if values.get("gsp_memory_delay"):
        draft.set(source, gsp_memory_delay=values["warm_up_steps"])
    if photographs and smoke:
        draft.set(
            source, image_size=64, **({"warm_up_epochs": 0, "warm_up_steps": 2} if values["warm_up_epochs"] else {})
        )
    if not values["weight_decay"]:
        draft.set(source, weight_decay=_SHORT_WEIGHT_DECAY)
    if uses_gsp(draft.pooling) and smoke:
        draft.set(source, gsp_memory_size=max(2 * values["num_prototypes"], 128))


def _consequences(draft: Draft) -> None:
    """Set what follows from the backbone, the schedule and the cut.

    A preset has weights of its own. Photographs get a size that fits a transformer's patches. A schedule over steps
    excludes plateau halving. A cut implies cached features, and several views for random crops.

    Raises:
        InvalidInput: a schedule over steps, with a recipe that names none.
    """
    given, backbone = draft.given, draft.chosen("backbone")
    if is_preset(backbone):
        draft.set("--backbone", weights=PRESET_WEIGHTS)
    if traits_of(draft.values["dataset"]).photographs and may_be_transformer(backbone):
        draft.set("--backbone", image_size=_SMOKE_IMAGE_SIZE if draft.budget == "smoke" else _IMAGE_SIZE)
    if given.get("learning_rate_schedule") == COSINE:
        if draft.budget == "full" and "max_steps" not in given:
            raise InvalidInput(
                "--learning_rate_schedule=cosine falls to 0 at --max_steps, which --budget=full leaves open: "
                "validation ends a run. Give --max_steps."
            )
        draft.set("--learning_rate_schedule", plateau_patience=0)
    if given.get("trained_from") is not None:
        cached = bool(given.get("cached_features", True))
        views = {"views": 1 if draft.chosen("crop") == "none" else NUM_VIEWS} if cached else {}
        draft.set("--trained_from", cached_features=cached, **views)


def _selection(values: Mapping[str, Any]) -> dict[str, int]:
    """Delay selection until memory or proxies, which begin at random, are active.

    Until then, the plain loss may be ahead, but its weights are no result of the method. For photographs, the memory's
    delay is printed in the thesis, and earlier selection is allowed as there.
    """
    waits = ("xbm_start", "ccp_start") if values["weights"] == "none" else ("ccp_start",)
    start = max(values.get(name) or 0 for name in waits)
    return {"selection_start": start} if 0 < start < values["max_steps"] else {}


def departures(
    config: ExperimentConfig, given: Iterable[str] = ("chapter", "backbone", "normalization")
) -> dict[str, object]:
    """Return the recipe's values of the fields that a configuration changes."""
    fixed = {name: getattr(config, name) for name in given}
    method_of = (config.dataset, config.loss, config.pooling, config.recipe, config.budget)
    recipe, now = resolve(*method_of, fixed, config.method, config.protocol).as_dict(), config.as_dict()
    names = [each.name for each in all_settings()]
    return {name: recipe.get(name) for name in names if now.get(name) != recipe.get(name)}


def unused_overrides(values: Mapping[str, Any], overrides: Mapping[str, Any]) -> list[str]:
    """Return the overrides without effect on a method."""
    chosen = {**values, **overrides}
    parts = [part.settings for part in chosen_parts(chosen)]
    used = {name for kind in (*RUN_SECTIONS, *parts) for name in kind.names()} | chosen_flags(chosen).keys()
    used -= {"held_out_fraction"} - values.keys()
    if "protocol" in values:  # no folds there
        used -= {"num_folds", "fold_order"}
    return sorted(overrides.keys() - used | overrides.keys() & _without_effect({**values, **overrides}))


def _without_effect(values: Mapping[str, Any]) -> set[str]:
    """Return the settings that these values make irrelevant."""
    estimator, triplets = values.get("pads_estimator"), values.get("shared_triplets")
    sampler = SAMPLERS.get(values.get("sampler", ""))
    of_files = values["crop"] in CROPS and CROPS[values["crop"]].of_files
    taught = estimator not in (FIXED, RANDOM, *CURRICULA)
    has_effect = {
        **{name: name in traits_of(values["dataset"]).takes for name in OF_CUSTOM_DATA},
        "evaluation_antialias": of_files,
        "copies": of_files and values.get("evaluation_antialias", True),
        "input_mean": values["backbone"] == "bn_inception",
        "warm_up_trains_all": bool(values["warm_up_epochs"] or values["warm_up_steps"]),
        "cached_features": values.get("trained_from") is not None,
        "superclasses_per_batch": sampler is not None and sampler.of_superclasses,
        "image_noise": not values.get("cached_features") and values["backbone"] != "token_embedding",
        "feature_weight": values.get("feature_schedule") != IN_TURN,
        "decorrelation_reduction": bool(values.get("decorrelation")),
        **dict.fromkeys(("shared_negatives", "shared_positives"), triplets != "permuted"),
        "pads_start": estimator not in CURRICULA,
        "pads_outside": is_interval(values.get("pads_start", "")) and estimator not in CURRICULA,
        "pads_steps": estimator != FIXED,
        **dict.fromkeys(("pads_reward", "pads_state", "pads_windows", "pads_learning_rate"), taught),
    }
    return {name for name, has in has_effect.items() if not has}


def _refuse_unused(values: Mapping[str, Any], overrides: Mapping[str, Any]) -> None:
    unused = unused_overrides(values, overrides)
    if unused:
        flags = ", ".join(f"--{name}" for name in unused)
        method = f"--loss={values['loss']} --pooling={values['pooling']}"
        owners = dict.fromkeys(name.partition(".")[0] for name in unused if "." in name)
        of = f": it belongs to {', '.join(owners)}" if owners else ""
        raise InvalidInput(f"{flags} would have no effect with {method}{of}. Remove it.")
