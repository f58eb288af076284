"""`python -m experiments.conventional_eval`, as a user runs it: both stopping rules, resuming, reporting, bad input."""

import json
import time

import numpy as np
import pytest
import tensorflow as tf

from tests.command_line import (
    ONE_EVALUATION,
    SMALL_PHOTOGRAPHS,
    check_clean_failure,
    run_here,
    run_small,
    start_small,
)

MODULE = "experiments.conventional_eval"


@pytest.mark.usefixtures("tiny_network", "functions_run_eagerly")
def test_glyphs_are_evaluated_under_both_rules_and_only_reported_afterwards(tmp_path, glyph_cache):
    arguments = [f"--runs_dir={tmp_path}", f"--cache_dir={glyph_cache}", "--budget=smoke", "--repeats=1"]
    arguments += ONE_EVALUATION
    nothing = run_here(MODULE, *arguments, "--report_only")
    assert nothing.returncode == 0, nothing.stderr
    assert "missing stops on the test set, repeat 0; stops on held-out classes, repeat 0" in nothing.stdout
    first = run_here(MODULE, *arguments, "--monitor=test_set")
    assert first.returncode == 0, first.stderr
    assert "pnca+gap+gmp, best of 1" in first.stdout
    assert "missing stops on held-out classes, repeat 0" in first.stdout
    both = run_here(MODULE, *arguments)
    assert both.returncode == 0, both.stderr
    assert "stops on the test set, repeat 0" not in both.stderr
    for phrase in ("512-D P@1", "pnca+gap+gmp, unbiased, mean of 1", "pnca+gap+gmp, optimism"):
        assert phrase in both.stdout
    reported = run_here(MODULE, *arguments, "--report_only", "--details")
    assert reported.stdout.endswith(both.stdout)
    for phrase in ("optimism of the protocol", "not comparable", "Recall on the test set of glyphs"):
        assert phrase in reported.stdout.removesuffix(both.stdout)
    names = {"/".join(path.parts[-5:-3]) for path in tmp_path.rglob("result.json")}
    assert names == {"conventional/glyphs", "held_out/glyphs"}


@pytest.mark.slow
@pytest.mark.skipif(tf.__version__ < "2.16", reason="bit-exact resuming is promised on the default stack")
def test_a_killed_run_ends_with_the_same_figures(image_folder, tmp_path):
    arguments = [*SMALL_PHOTOGRAPHS, f"--data_dir={image_folder}", f"--cache_dir={tmp_path / 'cache'}", "--repeats=1"]
    arguments += ["--loss=c2", "--monitor=test_set", "--checkpoint_seconds=0", "--max_steps=20", "--plateau_patience=1"]
    arguments += ["--steps_per_evaluation=2", "--patience=100", "--held_out_fraction=0.2"]
    whole = run_small(MODULE, *arguments, f"--runs_dir={tmp_path / 'whole'}")
    assert whole.returncode == 0, whole.stderr
    arguments.append(f"--runs_dir={tmp_path / 'killed'}")
    process = start_small(MODULE, *arguments)
    deadline = time.monotonic() + 200
    while not list((tmp_path / "killed").rglob("checkpoint.npz")) and time.monotonic() < deadline:
        time.sleep(0.01)
    process.kill()
    process.wait()
    assert list((tmp_path / "killed").rglob("result.json")) == []
    assert run_small(MODULE, *arguments).returncode == 0
    paths = [next((tmp_path / name).rglob("result.json")).parent for name in ("whole", "killed")]
    results = [json.loads((path / "result.json").read_text()) for path in paths]
    cost = {"train_seconds": 0, "energy_joules": 0}
    assert {**results[0], **cost} == {**results[1], **cost}
    curves = [[json.loads(line) for line in (path / "metrics.jsonl").read_text().splitlines()] for path in paths]
    assert [{**record, "seconds": 0} for record in curves[0]] == [{**record, "seconds": 0} for record in curves[1]]
    assert curves[0][-1]["learning_rate"] < curves[0][0]["learning_rate"]
    arrays = [np.load(path / "test_embeddings.npz")["queries"] for path in paths]
    np.testing.assert_array_equal(*arrays)


@pytest.mark.parametrize(
    ("arguments", "phrases"),
    [
        (["--monitor=validation"], ["--monitor", "'validation'", "test_set, held_out"]),
        (["--monitor="], ["--monitor", "empty list"]),
        (["--num_folds=5"], ["--num_folds would have no effect"]),
        (["--fold=1"], ["fold"]),
        (["--dataset=sop", "--method=plain,cpp"], ["--method", "'cpp'", "plain, ccp"]),
    ],
)
def test_bad_input_is_one_clear_line(arguments, phrases, tmp_path):
    check_clean_failure(run_here(MODULE, "--budget=smoke", f"--runs_dir={tmp_path}", *arguments), *phrases)
    assert list(tmp_path.rglob("config.json")) == []
