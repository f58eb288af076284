import pytest

from tests.support.command_line import ONE_EVALUATION, check_clean_failure, done_small_here, run_here, run_small_here

TWO_SHORT_FOLDS = [*ONE_EVALUATION, "--num_folds=2"]


@pytest.mark.slow
def test_poolings_are_compared_and_the_run_is_looked_into(tmp_path, glyph_cache):
    arguments = [f"--runs_dir={tmp_path}", f"--cache_dir={glyph_cache}", "--budget=smoke", "--loss=pnca"]
    arguments += ["--pooling=gap,gsp,weldon", "--smoothing=10", *TWO_SHORT_FOLDS]
    first = done_small_here("experiments.pooling_comparison", *arguments)
    assert all(name in first.stdout for name in ("pnca+gap", "pnca+gsp", "pnca+weldon", "minus"))
    assert len(list(tmp_path.rglob("pooling_comparison.png"))) == 1
    again = run_small_here("experiments.pooling_comparison", *arguments)
    assert again.stdout == first.stdout
    (gsp,) = tmp_path.glob("fair/glyph_collage/pnca+gsp-*/fold0-repeat0")
    metrics = (gsp / "metrics.jsonl").read_text()
    assert "position_perplexity" in metrics
    assert "prototype_perplexity" in metrics
    done_small_here("experiments.attention_figures", f"--run={gsp}", f"--cache_dir={glyph_cache}", "--num_images=2")
    assert (gsp / "attention.png").read_bytes().startswith(b"\x89PNG")
    (weldon,) = tmp_path.glob("fair/glyph_collage/pnca+weldon-*/fold0-repeat0")
    refused = run_small_here("experiments.attention_figures", f"--run={weldon}", f"--cache_dir={glyph_cache}")
    check_clean_failure(refused, "weldon", "no attention")


@pytest.mark.slow
def test_the_collage_study_reports_every_method(tmp_path, glyph_cache):
    arguments = [f"--runs_dir={tmp_path}", f"--cache_dir={glyph_cache}", "--budget=smoke", "--repeats=1"]
    finished = done_small_here("experiments.collage_study", *arguments, *TWO_SHORT_FOLDS, "--starts=frozen")
    for method in ("gap", "gsp", "gsp + L_ZS", "gap, distilled"):
        assert f"frozen: pnca {method}" in finished.stdout
    assert "target" in finished.stdout


def test_an_unknown_start_lists_the_choices(tmp_path, glyph_cache):
    finished = run_here(
        "experiments.collage_study", "--starts=imagenet", f"--runs_dir={tmp_path}", f"--cache_dir={glyph_cache}"
    )
    check_clean_failure(finished, "--starts", "imagenet", "scratch", "pretrained", "frozen")


@pytest.mark.parametrize(
    ("study", "flag"),
    [("collage_study", "--pooling=gap"), ("collage_study", "--method=ccp"), ("pooling_comparison", "--method=ccp")],
)
def test_what_a_study_decides_by_itself_is_refused(study, flag, tmp_path):
    finished = run_here(f"experiments.{study}", flag, f"--runs_dir={tmp_path}")
    check_clean_failure(finished, flag.split("=")[0], "would have no effect")
