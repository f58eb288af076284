"""Check of a whole command line: all errors in one message, before reading images."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from common.errors import check_all, check_choice
from experiments.settings import build
from experiments.settings.initial_weights import check_weights, is_file
from experiments.settings.own_data import OWN_DATASETS, check_fits, network_of_weights
from experiments.settings.parts import all_settings
from experiments.settings.run_settings import BUDGETS, METHODS
from experiments.settings.setting import check_value
from experiments.settings.thesis_values import PHOTOGRAPH_NETWORK
from experiments.settings.tuned_recipe import recipe_layer

if TYPE_CHECKING:
    from common.data import Dataset


class Given(NamedTuple):
    """The content of a command line.

    Attributes:
        dataset, recipe, budget: names.
        methods: (loss, method, pooling) of each.
        overrides: values by field name.
        protocol: None for the fair protocol, or its name.
        data_dir, cache_dir: folders, or None.
        trains: whether the command trains, so that data and weights must exist.
    """

    dataset: str
    recipe: str
    budget: str
    methods: Sequence[tuple[str, str, str]]
    overrides: Mapping[str, Any]
    protocol: str | None
    data_dir: str | None
    cache_dir: str | None
    trains: bool


def check_given(given: Given) -> Dataset | None:
    """Refuse invalid names, ranges, files, and values too large for custom data.

    Labels are read, images are not. Checks that depend on the network or on other data sets are left to
    `experiments.runs.start_checks`.

    Returns:
        The custom data set, loaded; None for others, or if none is named and nothing is trained.

    Raises:
        InvalidInput: lists all errors, each by its flag.
    """
    loaded: list[Dataset] = []

    def load() -> None:
        if given.dataset in OWN_DATASETS and (given.trains or given.data_dir is not None):
            loaded.append(_load(given))

    def fits() -> None:
        if loaded:
            check_fits(loaded[0], given.overrides, given.protocol)

    check_all([*_names(given), *_ranges(given.overrides), functools.partial(_weights, given), load, fits])
    return loaded[0] if loaded else None


def _names(given: Given) -> list[Callable[[], object]]:
    chosen = (
        ("--dataset", given.dataset, build.DATASETS),
        ("--budget", given.budget, BUDGETS),
        *(("--pooling", pooling, build.POOLINGS) for _, _, pooling in given.methods),
        *(("--method", method, METHODS) for _, method, _ in given.methods),
    )
    backbones = [name for name in [given.overrides.get("backbone")] if name is not None]
    return [
        *(functools.partial(recipe_layer, given.recipe, *method) for method in given.methods),
        *(functools.partial(build.check_backbone_name, name) for name in backbones),
        *(functools.partial(check_choice, *each) for each in chosen),
        *(functools.partial(build.check_loss_name, loss) for loss, _, _ in given.methods),
    ]


def _ranges(overrides: Mapping[str, Any]) -> list[Callable[[], object]]:
    metadata = {each.name: each.metadata for each in all_settings()}
    return [
        functools.partial(check_value, name, value, metadata[name])
        for name, value in overrides.items()
        if name in metadata and value is not None
    ]


def _weights(given: Given) -> None:
    """Check weights; `check_configurations` checks those of published data sets."""
    weights, backbone = (given.overrides.get(name) for name in ("weights", "backbone"))
    if not given.trains or (given.dataset not in OWN_DATASETS and not (weights and is_file(weights))):
        return
    if given.dataset in OWN_DATASETS:
        recipe = PHOTOGRAPH_NETWORK
        weights = weights or recipe["weights"]
        backbone = backbone or (network_of_weights(given.overrides) if is_file(weights) else None) or recipe["backbone"]
    check_weights(str(backbone), str(weights))


def _load(given: Given) -> Dataset:
    """Load the data, even if seed or share is out of range."""
    seed, share = given.overrides.get("seed", 0), given.overrides.get("train_fraction")
    share = share if share is not None and 0 < share < 1 and given.dataset == "folder" else None
    return build.load_dataset(given.dataset, given.data_dir, given.cache_dir, max(0, seed), share)
