import json
import re

import pytest

from tests.support.command_line import ONE_EVALUATION, check_clean_failure, done_small_here, run_here

GLYPHS = ["--dataset=glyphs", "--budget=smoke", "--methods=c2+gap"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--parameters=transport_ratio"], "expected settings of c2+gap"),
        (["--parameters=learning_rate", "--learning_rate=1e-3"], "Given and searched at once: learning_rate"),
        (["--tuning_folds=9"], "expected at most 4, the folds"),
        (["--trials=0"], "trials"),
        (["--search=grid"], "search"),
        (["--recipe=tuned.json"], "expected a file that exists"),
    ],
)
def test_bad_input_is_refused(arguments, said, tmp_path):
    pytest.importorskip("optuna", reason="Optuna is not installed (pip install '.[tune]')")
    refused = run_here("experiments.tune", *GLYPHS, *arguments, f"--runs_dir={tmp_path}")
    check_clean_failure(refused)
    assert said in refused.stderr
    assert not list(tmp_path.rglob("config.json"))


@pytest.mark.slow
def test_a_search_its_recipe_and_a_table_with_it(tmp_path, glyph_cache):
    pytest.importorskip("optuna", reason="Optuna is not installed (pip install '.[tune]')")
    runs = [f"--runs_dir={tmp_path / 'runs'}", f"--cache_dir={glyph_cache}", *ONE_EVALUATION]
    search = [*GLYPHS, *runs, "--parameters=learning_rate=1e-4..1e-2:log", f"--output={tmp_path / 'mine.json'}"]
    done_small_here("experiments.tune", *search, "--trials=1")
    second = done_small_here("experiments.tune", *search, "--trials=2")
    assert re.search(r"\[2/2\] trial 1 of c2\+gap: learning_rate ", second.stderr)
    assert "[1/2]" not in second.stderr
    (chosen,) = json.loads((tmp_path / "mine.json").read_text())["methods"].values()
    recipe = [f"--recipe={tmp_path / 'mine.json'}", *GLYPHS, "--explain"]
    explained = run_here("experiments.fair_eval", *recipe)
    (line,) = (line for line in explained.stdout.splitlines() if line.startswith("learning_rate "))
    assert line.split()[1] == str(chosen["learning_rate"])
    assert "tuned (" in line
