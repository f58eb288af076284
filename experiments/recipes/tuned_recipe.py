"""Recipes from files of `experiments.tune`: values over a named recipe."""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Mapping
from typing import Any

from common.errors import InvalidInput, check_choice, invalid, nearest_choice
from common.files import Maybe, checked, difference, read_json
from experiments.parts.setting import check_value
from experiments.settings.parts import all_settings
from experiments.settings.run_settings import RECIPES, ComparisonSettings, ProtocolSettings, method_name

FILE_ENDING = ".json"
KIND = "tuned recipe"
# Settings that define a comparison, its length or its data; neither a search nor a recipe file may set them.
FIXED = (*ComparisonSettings.names(), *ProtocolSettings.names(), "max_steps", "steps_per_evaluation", "patience")
_CONTENT = {"kind": {KIND}, "recipe": str, "methods": {str: dict}, "found": Maybe(dict)}


@dataclasses.dataclass(frozen=True)
class TunedRecipe:
    """Settings by method."""

    recipe: str
    methods: Mapping[str, Mapping[str, Any]]  # values by flag name, by the method's name in reports (`c2+xbm+gap`)
    # their provenance: data set, trials, folds, ranges, validation figures
    found: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """Return JSON values; `read` takes them back."""
        return {"kind": KIND, **dataclasses.asdict(self)}

    @classmethod
    def read(cls, path: str) -> TunedRecipe:
        """Read the recipe in a file."""
        if not pathlib.Path(path).is_file():
            raise invalid("--recipe", received=path, expected="a file that exists, as `experiments.tune` writes it")
        content = read_json(path)
        if content is None or difference(content, _CONTENT):
            expected = f"JSON with kind ({KIND!r}), recipe (a name) and methods (settings by method)"
            raise invalid("--recipe", received=f"{path}, which holds something else", expected=expected)
        return cls(content["recipe"], content["methods"], content.get("found") or {})


def named_recipe(recipe: str) -> str:
    """Return the named recipe in `--recipe`.

    A file that cannot be read is returned itself.
    """
    try:
        return TunedRecipe.read(recipe).recipe if recipe.endswith(FILE_ENDING) else recipe
    except InvalidInput:  # `named_and_tuned` raises it
        return recipe


def named_and_tuned(recipe: str, loss: str, method: str, pooling: str) -> tuple[str, str, dict[str, Any]]:
    """Return the named recipe in `--recipe`, and values over it.

    Returns:
        The named recipe, the values' source, and the values by flag name; none for a named recipe.

    Raises:
        InvalidInput: an unknown name; a file cannot be read, lacks this method, or gives it an unknown setting, one of
            `FIXED`, or a value that the flag would refuse.
    """
    if not recipe.endswith(FILE_ENDING):
        return check_choice("--recipe", recipe, RECIPES), "", {}
    tuned = TunedRecipe.read(recipe)
    name = method_name(loss, method, pooling)
    if name not in tuned.methods:
        expected = f"one of those that were tuned: {', '.join(sorted(tuned.methods))}"
        raise invalid(f"method for --recipe={recipe}", received=name, expected=expected)
    place = f"--recipe={recipe}, {name}"
    values = {each: _value(place, each, value) for each, value in tuned.methods[name].items()}
    return check_choice("--recipe", tuned.recipe, RECIPES), f"tuned ({recipe})", values


def _value(place: str, name: str, value: object) -> Any:  # noqa: ANN401
    """Return a value as its flag would give it."""
    settings = {each.name: each for each in all_settings() if each.name not in FIXED}
    if name not in settings:
        fix = nearest_choice(name, settings)
        raise invalid(place, received=name, expected="settings that do not decide what is compared", fix=fix)
    setting = settings[name]
    value = setting.kind(checked(value, setting.kind, f"{place}, --{name}"))
    check_value(name, value, setting.metadata)
    return value
