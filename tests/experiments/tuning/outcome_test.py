import itertools
import json
import statistics
from types import SimpleNamespace

import pytest
from PIL import Image

from experiments.recipes import draft_of, resolve
from experiments.tuning.outcome import Outcome, expected_best
from experiments.tuning.search import Search, SearchRules
from experiments.tuning.search_space import parse_space

optuna = pytest.importorskip("optuna", reason="Optuna is not installed (pip install '.[tune]')")
PARAMETERS = ["learning_rate=1e-4..1e-2:log", "sampler=rounds|spc"]
# Learning rate, sampler, validation (None: pruned), by trial.
TRIALS = [(1e-3, "rounds", 0.25), (1.05e-4, "spc", 0.5), (1e-2, "rounds", None), (1e-4, "rounds", 0.375)]


@pytest.fixture
def searched(tmp_path):
    config = resolve("glyphs", "c2", "gap", "thesis", "smoke", {})
    runs = SimpleNamespace(runs_dir=tmp_path, fingerprint="data")
    storage = optuna.storages.InMemoryStorage()
    search = Search(config, parse_space(PARAMETERS, config), None, runs, SearchRules(), storage)
    for rate, sampler, value in TRIALS:
        search.study.enqueue_trial({"learning_rate": rate, "sampler": sampler})
        trial = search._ask(asked=1)
        trial.report(0.125, 4)
        pruned = optuna.trial.TrialState.PRUNED
        search.study.tell(trial, value) if value is not None else search.study.tell(trial, state=pruned)
    return search


def test_the_tables_say_what_was_tried_and_what_is_best(searched, tmp_path):
    text = Outcome([searched], "thesis", 4, tmp_path / "report").write(tmp_path / "recipe.json")
    (row,) = (line.split() for line in text.splitlines() if line.startswith("c2+gap "))
    assert row == ["c2+gap", "4", "1", "25.00", "50.00", "learning_rate", "0.000105,", "sampler", "spc"]
    assert "the best learning_rate lies at an end of its range: widen it" in " ".join(text.split())
    assert f"--recipe={tmp_path / 'recipe.json'} --methods=c2+gap" in text
    # On the first fold each trial has reached .125.
    best_of = (tmp_path / "report" / "best_of.csv").read_text().splitlines()
    assert best_of == ["method,1,2,3,4", "c2+gap,12.50,12.50,12.50,12.50"]
    lines = (tmp_path / "report" / "trials.csv").read_text().splitlines()
    assert len(lines) == 5
    assert "pruned" in lines[3]


def test_the_expected_best_of_k_trials_is_the_mean_over_all_choices():
    values = {0.25: 8, 0.5: 8, 0.125: 4, 0.0: None, 0.75: 12}  # by the step of their report; one is of the second fold
    trials = [SimpleNamespace(intermediate_values={step: value} if step else {}) for value, step in values.items()]
    search = SimpleNamespace(config=SimpleNamespace(max_steps=8), finished=lambda: trials)
    search.best_of_fold = lambda trial: Search.best_of_fold(search, trial)
    choices = [itertools.combinations([0.25, 0.5, 0.125, 0.0, 0.0], k) for k in range(1, 6)]
    assert expected_best(search) == pytest.approx([statistics.mean(map(max, each)) for each in choices])


def test_the_recipe_is_a_layer_that_resolve_reads(searched, tmp_path):
    path = tmp_path / "recipe.json"
    Outcome([searched], "thesis", 4, tmp_path / "report").write(path)
    tuned = json.loads(path.read_text())
    assert tuned["methods"] == {"c2+gap": {"learning_rate": 1.05e-4, "sampler": "spc"}}
    assert tuned["found"]["validation"] == {"c2+gap": 0.5}
    draft = draft_of("glyphs", "c2", "gap", str(path), "smoke", {})
    assert (draft.values["learning_rate"], draft.sources["learning_rate"]) == (1.05e-4, f"tuned ({path})")
    assert draft.values["recipe"] == "thesis"


def test_a_search_that_is_not_complete_leaves_no_recipe(searched, tmp_path):
    text = Outcome([searched], "thesis", 5, tmp_path / "report").write(tmp_path / "recipe.json")
    assert "--recipe=" not in text
    assert not (tmp_path / "recipe.json").exists()


def test_pictures_of_the_history_and_of_each_setting(searched, tmp_path):
    Outcome([searched], "thesis", 4, tmp_path).write(tmp_path / "recipe.json")
    for name in ("history.png", "c2+gap.png"):
        with Image.open(tmp_path / name) as picture:
            assert len(picture.convert("RGB").getcolors(1 << 24)) > 3


def test_nothing_is_drawn_of_nothing(tmp_path):
    config = resolve("glyphs", "c2", "gap", "thesis", "smoke", {})
    runs = SimpleNamespace(runs_dir=tmp_path, fingerprint="data")
    search = Search(
        config, parse_space(PARAMETERS, config), None, runs, SearchRules(), optuna.storages.InMemoryStorage()
    )
    text = Outcome([search], "thesis", 4, tmp_path).write(tmp_path / "recipe.json")
    assert "c2+gap" in text
    assert not (tmp_path / "c2+gap.png").exists()
