"""Check of a whole command line: all errors in one message, before reading images."""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Mapping, Sequence
from typing import Any

from absl import flags

from common import data
from common.backbones.by_name import check_backbone_name
from common.backbones.initial_weights import check_weights, is_file
from common.errors import InvalidInput, check_all, check_choice
from experiments.parts.datasets import DATASETS, traits_of
from experiments.parts.registry import choices_of_method, part_flags, setting_of
from experiments.parts.setting import check_value
from experiments.settings import build
from experiments.settings.parts import all_settings
from experiments.settings.recipes.own_photos import check_fits, network_of_weights
from experiments.settings.recipes.small_images import EMOJI
from experiments.settings.recipes.thesis import NETWORK
from experiments.settings.recipes.tuned_recipe import named_and_tuned, named_recipe
from experiments.settings.run_settings import BUDGETS, OWN_PHOTOS

Methods = Sequence[tuple[str, str, str]]  # (loss, method, pooling) of each


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

    choices = (
        ("--dataset", values.dataset, DATASETS),
        ("--budget", values.budget, BUDGETS),
        *(("--method", method, choices_of_method()) for _, method, _ in methods),
    )
    settings = {each.name: each.metadata for each in all_settings()}
    settings |= {flag: setting_of(part, name) for flag, (part, name) in part_flags().items()}
    given = [(flag, metadata) for flag, metadata in settings.items() if overrides.get(flag) is not None]
    backbone = overrides.get("backbone")
    check_all(
        [
            *(functools.partial(named_and_tuned, values.recipe, *method) for method in methods),
            *([functools.partial(check_backbone_name, backbone)] if backbone is not None else []),
            *(functools.partial(check_choice, *each) for each in choices),
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
