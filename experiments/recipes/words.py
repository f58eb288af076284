"""A command line becomes configurations: all errors in one message, before reading images."""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from absl import flags

from common import data
from common.backbones.by_name import check_backbone_name
from common.backbones.initial_weights import check_weights, is_file
from common.backbones.network_names import HEAD
from common.commands.command_line import refuse_flags
from common.commands.exit_code import sees_gpu
from common.errors import InvalidInput, check_all, check_choice, invalid, raise_all
from common.progress import write_notice
from experiments.parts.datasets import DATASETS, OF_CUSTOM_DATA, traits_of
from experiments.parts.registry import choices_of_method, part_flags, setting_of
from experiments.parts.setting import check_value
from experiments.recipes.draft import DEFAULT, GIVEN
from experiments.recipes.own_photos import NO_GPU, check_fits, fit_to_data, network_of_weights, trains_head_alone
from experiments.recipes.resolution import draft_of
from experiments.recipes.small_images import EMOJI
from experiments.recipes.thesis import NETWORK
from experiments.recipes.tuned_recipe import named_and_tuned, named_recipe
from experiments.settings import build
from experiments.settings.config import ExperimentConfig
from experiments.settings.flags import METHOD_FIELDS
from experiments.settings.method_names import parse_method, uses_gsp
from experiments.settings.parts import all_settings, chosen_flags
from experiments.settings.run_settings import BUDGETS, EVERYTHING, OWN_LOSS, OWN_PHOTOS

Methods = Sequence[tuple[str, str, str]]  # (loss, method, pooling) of each


def configurations_from_flags(
    values: flags.FlagValues, protocol: str | None = None, ignored: Iterable[str] = ()
) -> list[ExperimentConfig]:
    """Check all flags; return one configuration for each named method.

    With `--explain`, print every value with the layer that set it last, and exit. All methods of one command follow
    one chapter's settings: 3 if one of them is CCP without GSP, else 5, which has CCP with GSP. Flags of `ignored`
    fields belong to another protocol of the same command.

    Raises:
        InvalidInput: everything that is wrong, missing data included.
    """
    try:
        return _configurations(values, protocol, ignored)
    except InvalidInput as error:
        check_all([functools.partial(raise_all, [error]), lambda: check_published_data(values)])
        raise


def _configurations(values: flags.FlagValues, protocol: str | None, ignored: Iterable[str]) -> list[ExperimentConfig]:
    set_recipe(values)
    if named_recipe(values.recipe) == OWN_PHOTOS:
        values.set_default("loss", OWN_LOSS)
    overrides = {name: value for name, value in overrides_from_flags(values).items() if name not in ignored}
    named = _methods(values)
    found: list[data.Dataset | None] = []
    given = values, named, overrides, protocol
    check_all([lambda: check_dataset_flags(values), lambda: found.append(check_given(*given))])
    chapter_source = GIVEN if "chapter" in overrides else "the methods that are compared"
    is_chapter_3 = any(method == "ccp" and not uses_gsp(pooling) for _, method, pooling in named)
    overrides.setdefault("chapter", 3 if is_chapter_3 else 5)
    head = head_without_gpu(values, overrides, said=protocol != "held_out")  # asked for beside another
    overrides |= head
    flags_of = [chosen_flags({**overrides, **dict(zip(("loss", "method", "pooling"), each))}) for each in named]
    of_others = {flag for each in flags_of for flag in each}
    drafts = []
    for (loss, method, pooling), own in zip(named, flags_of):
        given_here = {name: value for name, value in overrides.items() if name in own or name not in of_others}
        drafts.append(
            draft_of(values.dataset, loss, pooling, values.recipe, values.budget, given_here, method, protocol)
        )
    for draft in drafts:
        draft.set(chapter_source, chapter=overrides["chapter"])
        draft.set(NO_GPU, **head)
        if found[0] is not None:
            fit_to_data(draft, found[0], overrides)
    configs = [ExperimentConfig.of(draft.values, draft.sources) for draft in drafts]
    if not configs:
        raise InvalidInput("Invalid --loss, --method or --pooling: received an empty list, expected at least one name.")
    check_distinct("--methods, --loss, --method or --pooling", [config.name for config in configs])
    if "explain" in values and values.explain:
        for config, draft in zip(configs, drafts):
            draft.set_missing(DEFAULT, **config.as_dict())
            plugins = "".join(f"{kind} by the {provider}\n" for kind, provider in config.providers().items())
            print(f"{config.name}\n{plugins}{draft.as_text()}\n")
        sys.exit(0)
    return configs


def overrides_from_flags(values: flags.FlagValues) -> dict:
    """Return the fields set on the command line."""
    names = [each.name for each in all_settings() if each.name not in METHOD_FIELDS or each.name == "chapter"]
    names += part_flags()
    given = {name: values[name].value for name in names if values[name].present}
    return {name: None if (name, value) == ("trained_from", EVERYTHING) else value for name, value in given.items()}


def check_distinct(name: str, values: Sequence[str]) -> None:
    """Raise `InvalidInput` for repeated names, which would be compared with themselves."""
    repeated = sorted({value for value in values if values.count(value) > 1})
    if repeated:
        raise invalid(name, received=f"{', '.join(repeated)} more than once", expected="every name once")


def set_recipe(values: flags.FlagValues) -> None:
    """Set the recipe of the data if `--recipe` is missing."""
    if values.recipe is None:
        values.set_default("recipe", traits_of(values.dataset).default_recipe)


def head_without_gpu(values: flags.FlagValues, overrides: Mapping[str, Any], *, said: bool = True) -> dict[str, str]:
    """Return and announce the cut of a machine without a GPU.

    It is empty if a flag or the recipe says what is trained.
    """
    on_nodes = "launch" in values and values.launch == "slurm" and values.gpus > 0
    if on_nodes or not trains_head_alone(named_recipe(values.recipe), overrides) or sees_gpu():
        return {}
    if said:
        write_notice(
            f"{NO_GPU}: only the head of the network is trained (--trained_from={HEAD}). "
            f"--trained_from={EVERYTHING} trains all of it."
        )
    return {"trained_from": HEAD}


def check_dataset_flags(values: flags.FlagValues) -> None:
    """Refuse an unknown `--dataset`, or flags of other data sets."""
    check_choice("--dataset", values.dataset, build.DATASETS)
    traits = traits_of(values.dataset)
    if not traits.needs_files:
        refuse_flags(values, "data_dir", because=f"{values.dataset} needs no files")
    for reason in dict.fromkeys(OF_CUSTOM_DATA.values()):
        names = [name for name, why in OF_CUSTOM_DATA.items() if why == reason and name not in traits.takes]
        refuse_flags(values, *(name for name in names if name in values), because=f"{values.dataset} {reason}")


def _methods(values: flags.FlagValues) -> list[tuple[str, str, str]]:
    """Return (loss, method, pooling) of `--methods`, or of all flag combinations."""
    if "methods" not in values or not values["methods"].present:
        return list(itertools.product(values.loss, values.method, values.pooling))
    clashing = [f"--{name}" for name in ("loss", "method", "pooling") if values[name].present]
    if clashing:
        raise InvalidInput(f"--methods already sets the loss, method and pooling. Remove {', '.join(clashing)}.")
    if not values.methods:
        raise InvalidInput("Invalid --methods: received an empty list, expected at least one, such as c2+gap.")
    return [parse_method(name) for name in values.methods]


def check_given(
    values: flags.FlagValues, methods: Methods, overrides: Mapping[str, Any], protocol: str | None
) -> data.Dataset | None:
    """Refuse invalid names, ranges, files, and values too large for the data.

    Labels are read, images are not. Checks that depend on the network or on other data sets are left to
    `experiments.runs.start_checks`.

    Returns:
        The data set, loaded, if it is custom or of photographs in an official layout; None for others, or if it is
        not there and nothing is trained.
    """
    loaded: list[data.Dataset] = []
    trains = _trains(values)

    def load() -> None:
        known = traits_of(values.dataset)
        if known.custom and (trains or values.data_dir is not None):
            loaded.append(_load(values, overrides))
        elif known.photographs and known.source and os.path.exists(values.data_dir or ""):
            with contextlib.suppress(InvalidInput):  # raised where the command loads them
                loaded.append(_load(values, overrides))
        if loaded:
            check_fits(loaded[0], overrides, protocol)

    settings = {each.name: each.metadata for each in all_settings()}
    settings |= {flag: setting_of(part, name) for flag, (part, name) in part_flags().items()}
    given = [(flag, metadata) for flag, metadata in settings.items() if overrides.get(flag) is not None]
    backbone = overrides.get("backbone")
    check_all(
        [
            *(functools.partial(named_and_tuned, values.recipe, *method) for method in methods),
            *([functools.partial(check_backbone_name, backbone)] if backbone is not None else []),
            functools.partial(check_choice, "--budget", values.budget, BUDGETS),
            *(functools.partial(check_choice, "--method", method, choices_of_method()) for _, method, _ in methods),
            *(functools.partial(build.check_pooling_name, pooling) for _, _, pooling in methods),
            *(functools.partial(build.check_loss_name, loss) for loss, _, _ in methods),
            *(functools.partial(check_value, flag, overrides[flag], metadata) for flag, metadata in given),
            functools.partial(_weights, values.dataset, values.recipe, overrides, trains),
            load,
        ]
    )
    return loaded[0] if loaded else None


def check_published_data(values: flags.FlagValues) -> None:
    """Load a published data set, or one of a plug-in, if anything is trained."""
    known = DATASETS.get(values.dataset)
    if _trains(values) and known and known.needs_files and not known.custom:
        build.load_dataset(values.dataset, values.data_dir, values.cache_dir, seed=0)


def _trains(values: flags.FlagValues) -> bool:
    return not any(name in values and values[name].value for name in ("explain", "report_only"))


def _weights(dataset: str, recipe: str, overrides: Mapping[str, Any], trains: bool) -> None:
    """Check weights; `check_configurations` checks those of published data sets."""
    if not trains or not traits_of(dataset).custom:
        return
    network = EMOJI if named_recipe(recipe) == OWN_PHOTOS else NETWORK
    weights, backbone = (overrides.get(name) for name in ("weights", "backbone"))
    weights = weights or network["weights"]
    backbone = backbone or (network_of_weights(overrides) if is_file(weights) else None) or network["backbone"]
    check_weights(str(backbone), str(weights))


def _load(values: flags.FlagValues, overrides: Mapping[str, Any]) -> data.Dataset:
    """Load the data, even if their settings are out of range."""
    traits = traits_of(values.dataset)
    own = {name: overrides[name] for name in traits.takes if overrides.get(name) is not None}
    if not 0 < own.get("train_fraction", 0.5) < 1:
        del own["train_fraction"]
    if traits.custom:
        own["min_images"] = max(build.FEWEST_IMAGES, own.get("min_images", 0))
    return build.load_dataset(
        values.dataset, values.data_dir, values.cache_dir, max(0, overrides.get("seed", 0)), **own
    )
