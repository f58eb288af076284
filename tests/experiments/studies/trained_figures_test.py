"""Figures whose runs are trained here, and what they then read."""

import pytest

from common.data import glyph_collage
from experiments.studies import finished_runs
from tests.support.command_line import ONE_EVALUATION, check_clean_failure, done_small_here, run_small_here

TWO_SHORT_FOLDS = [*ONE_EVALUATION, "--num_folds=2"]


@pytest.fixture(autouse=True)
def few_letters(monkeypatch):
    """Collages of a sixth of the letters."""
    monkeypatch.setattr(glyph_collage, "_NUM_LETTERS", {"train": 32, "validation": 12, "test": 12})


@pytest.mark.slow
def test_poolings_are_compared_and_a_run_is_looked_into(tmp_path, glyph_cache, monkeypatch):
    arguments = ["--id=5.12", "--dataset=glyph_collage", f"--runs_dir={tmp_path}", f"--cache_dir={glyph_cache}"]
    arguments += ["--budget=smoke", "--loss=pnca", *TWO_SHORT_FOLDS]
    first = done_small_here("experiments.figure", *arguments, "--run")
    assert all(name in first.stdout for name in ("pnca+gap", "pnca+gsp", "minus"))
    assert len(list(tmp_path.rglob("figure_5_12.png"))) == 1
    assert done_small_here("experiments.figure", *arguments, "--run").stdout == first.stdout
    (gsp,) = tmp_path.glob("fair/glyph_collage/pnca+gsp-*/fold0-repeat0")
    metrics = (gsp / "metrics.jsonl").read_text()
    assert "position_perplexity" in metrics
    assert "prototype_perplexity" in metrics
    attention = ["--id=attention", f"--trained_run={gsp}", f"--cache_dir={glyph_cache}"]
    done_small_here("experiments.figure", *attention)
    assert (gsp / "attention.png").read_bytes().startswith(b"\x89PNG")
    monkeypatch.setattr(finished_runs, "has_weights", lambda pooling: False)
    check_clean_failure(run_small_here("experiments.figure", *attention), "--trained_run: gsp on glyph_collage has no")


@pytest.mark.slow
def test_collages_are_trained_from_a_network_of_glyphs_and_listed_without_it(tmp_path, glyph_cache):
    arguments = ["--id=5.5", f"--runs_dir={tmp_path}", f"--cache_dir={glyph_cache}", "--budget=smoke", "--repeats=1"]
    arguments += [*TWO_SHORT_FOLDS, "--starts=frozen"]
    listed = done_small_here("experiments.figure", *arguments)
    assert "unknown  4 more" in listed.stdout
    assert "4 cells: 0 done, 4 missing. --run trains" in listed.stdout
    finished = done_small_here("experiments.figure", *arguments, "--run", f"--record={tmp_path / 'rows'}")
    for method in ("gap", "gsp", "gsp + L_ZS", "gap, distilled"):
        assert f"frozen: pnca {method}" in finished.stdout
    assert "target" in finished.stdout
    assert (tmp_path / "rows" / "rows.jsonl").read_text().count('"target_shares"') == 3
    assert done_small_here("experiments.figure", *arguments, "--run").stdout == finished.stdout
