"""Construction of searches from the flags of `experiments.tune`."""

from __future__ import annotations

import hashlib
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

from absl import flags

from common.data import Dataset
from common.errors import InvalidInput, invalid
from common.training.trackers import TENSORBOARD, TrackerChoice
from experiments.recipes import resolve
from experiments.recipes.own_photos import fitted_values
from experiments.recipes.tuned_recipe import FILE_ENDING
from experiments.recipes.words import overrides_from_flags
from experiments.runs.unit_runs import UnitRuns
from experiments.settings import flags as experiment_flags
from experiments.settings.config import ExperimentConfig
from experiments.tuning.search import Search, SearchRules, open_storage, optuna, search_folder
from experiments.tuning.search_space import Parameter, check_every_parameter_is_used, parse_space


def spaces_from_flags(values: flags.FlagValues, configs: Sequence[ExperimentConfig]) -> dict[str, dict[str, Parameter]]:
    """Return the search space of each method; check everything possible without data."""
    optuna()
    if values.recipe.endswith(FILE_ENDING):
        raise invalid("--recipe", received=values.recipe, expected="a named recipe: a search begins from its values")
    spaces = {config.name: parse_space(values.parameters, config) for config in configs}
    check_every_parameter_is_used(values.parameters, spaces)
    given = overrides_from_flags(values)
    both = sorted({name for space in spaces.values() for name in space} & given.keys())
    if both:
        raise InvalidInput(f"Given and searched at once: {', '.join(both)}. Remove the flag, or the parameter.")
    if values.tuning_folds > configs[0].num_folds:
        raise invalid(
            "--tuning_folds", received=values.tuning_folds, expected=f"at most {configs[0].num_folds}, the folds"
        )
    return spaces


def searches_from_flags(
    values: flags.FlagValues,
    configs: Sequence[ExperimentConfig],
    spaces: Mapping[str, dict[str, Parameter]],
    dataset: Dataset,
    tracker: TrackerChoice = TENSORBOARD,
) -> tuple[list[Search], pathlib.Path]:
    """Return one search per method, and the folder of their common tables."""
    runs = UnitRuns(dataset, experiment_flags.places_from(values), tracker)
    if not values.report_only:
        runs.check((config, fold, 0) for config in configs for fold in range(values.tuning_folds))
    rules = SearchRules(values.tuning_folds, values.search, values.pruning, configs[0].seed)
    folder = search_folder(runs, configs[0])
    folder.mkdir(parents=True, exist_ok=True)
    storage = open_storage(values.storage or f"sqlite:///{(folder / 'trials.db').resolve()}")
    searches = [
        Search(config, spaces[config.name], _resolver(values, config), runs, rules, storage) for config in configs
    ]
    names = "-".join(search.name for search in searches)
    return searches, folder / "reports" / hashlib.sha256(names.encode()).hexdigest()[:10]


def _resolver(values: flags.FlagValues, config: ExperimentConfig) -> Any:
    """Return a function from a trial's settings to a configuration."""
    given = {**fitted_values(config), **overrides_from_flags(values), "chapter": config.chapter}

    def resolved(trial: Mapping[str, Any]) -> ExperimentConfig:
        method_of = (config.dataset, config.loss, config.pooling, config.recipe, config.budget)
        return resolve(*method_of, {**given, **trial}, config.method)

    return resolved
