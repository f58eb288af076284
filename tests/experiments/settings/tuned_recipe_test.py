import json

import pytest

from common.errors import InvalidInput
from experiments.recipes import draft_of, resolve
from experiments.recipes.draft import GIVEN
from experiments.recipes.tuned_recipe import TunedRecipe, named_recipe

TUNED = TunedRecipe("thesis", {"c2+gap": {"learning_rate": 5e-4}, "c2+ccp+gap": {"ccp_start": 4}}, {"trials": 20})


@pytest.fixture
def path(tmp_path):
    file = tmp_path / "tuned.json"
    file.write_text(json.dumps(TUNED.as_dict()))
    return str(file)


def test_its_values_lie_over_the_named_recipe_and_under_flags(path):
    draft = draft_of("glyphs", "c2", "gap", path, "smoke", {"embedding_dim": 16})
    plain = draft_of("glyphs", "c2", "gap", "thesis", "smoke", {"embedding_dim": 16})
    assert draft.values == {**plain.values, "learning_rate": 5e-4}
    assert draft.sources["learning_rate"] == f"tuned ({path})"
    assert draft.sources["embedding_dim"] == GIVEN
    given = draft_of("glyphs", "c2", "gap", path, "smoke", {"learning_rate": 2e-4})
    assert (given.values["learning_rate"], given.sources["learning_rate"]) == (2e-4, GIVEN)


def test_a_method_that_was_not_tuned_is_refused(path):
    with pytest.raises(InvalidInput, match=r"received 'ms\+gap', expected one of those .* c2\+ccp\+gap, c2\+gap"):
        resolve("glyphs", "ms", "gap", path, "smoke", {})


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", '{"kind": "tuned recipe"}', '{"kind": "tuned recipe", "recipe": "thesis", "methods": {"a": 1}}'],
)
def test_a_file_that_is_something_else_is_refused(text, tmp_path):
    (tmp_path / "other.json").write_text(text)
    with pytest.raises(InvalidInput, match="which holds something else"):
        TunedRecipe.read(str(tmp_path / "other.json"))


def test_a_named_recipe_that_there_is_not_is_refused_as_always(tmp_path):
    (tmp_path / "tuned.json").write_text(json.dumps({**TUNED.as_dict(), "recipe": "theses"}))
    with pytest.raises(InvalidInput, match="--recipe: received 'theses'"):
        resolve("glyphs", "c2", "gap", str(tmp_path / "tuned.json"), "smoke", {})


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"learning_rate": -1}, "--learning_rate: received -1"),
        ({"learning_rate": "fast"}, "c2.gap, --learning_rate: received 'fast', expected a number"),
        ({"learning_rate": float("nan")}, "--learning_rate: received nan, expected a number"),
        ({"learning_rate": True}, "--learning_rate: received True, expected a number"),
        ({"embedding_dim": 8.5}, "--embedding_dim: received 8.5, expected an integer"),
        ({"embedding_dim": True}, "--embedding_dim: received True, expected an integer"),
        ({"frozen_batch_norm": 1}, "--frozen_batch_norm: received 1, expected true or false"),
        ({"optimizer": "sgd"}, "--optimizer: received 'sgd', expected one of adam"),
        ({"learning_rat": 1e-3}, "received 'learning_rat', expected settings .* Did you mean learning_rate?"),
        *(({name: 3}, f"received '{name}', expected settings that do not decide") for name in ("seed", "max_steps")),
        *(({name: "x"}, f"received '{name}', expected settings that do not decide") for name in ("dataset", "budget")),
    ],
)
def test_values_are_checked_like_flags(values, message, tmp_path):
    (tmp_path / "tuned.json").write_text(json.dumps({**TUNED.as_dict(), "methods": {"c2+gap": values}}))
    with pytest.raises(InvalidInput, match=message):
        resolve("glyphs", "c2", "gap", str(tmp_path / "tuned.json"), "smoke", {})


def test_an_integer_is_the_fraction_that_its_flag_gives(tmp_path):
    (tmp_path / "tuned.json").write_text(json.dumps({**TUNED.as_dict(), "methods": {"c2+gap": {"weight_decay": 0}}}))
    value = resolve("glyphs", "c2", "gap", str(tmp_path / "tuned.json"), "smoke", {}).weight_decay
    assert (type(value), value) == (float, 0.0)


def test_a_file_found_on_own_photos_begins_from_their_recipe(tmp_path):
    file, values = tmp_path / "mine.json", {"ms+gap": {"learning_rate": 5e-4}}
    file.write_text(json.dumps(TunedRecipe("own_photos", values).as_dict()))
    assert (named_recipe(str(file)), named_recipe("thesis")) == ("own_photos", "thesis")
    assert named_recipe("nowhere.json") == "nowhere.json"
    config = resolve("folder", "ms", "gap", str(file), "full", {})
    assert (config.recipe, config.backbone, config.learning_rate) == ("own_photos", "efficientnet_lite0", 5e-4)
