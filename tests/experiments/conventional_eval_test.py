import pytest

from tests.support.command_line import ONE_EVALUATION, done_here, run_here

MODULE = "experiments.conventional_eval"


@pytest.mark.usefixtures("tiny_network", "functions_run_eagerly")
def test_glyphs_are_evaluated_under_both_rules_and_only_reported_afterwards(tmp_path, glyph_cache):
    arguments = [f"--runs_dir={tmp_path}", f"--cache_dir={glyph_cache}", "--budget=smoke", "--repeats=1"]
    arguments += ["--noexport_model", *ONE_EVALUATION]
    nothing = done_here(MODULE, *arguments, "--report_only")
    assert "missing stops on the test set, repeat 0; stops on held-out classes, repeat 0" in nothing.stdout
    first = done_here(MODULE, *arguments, "--monitor=test_set")
    assert "pnca+gap+gmp, best of 1" in first.stdout
    assert "missing stops on held-out classes, repeat 0" in first.stdout
    both = done_here(MODULE, *arguments)
    assert "stops on the test set, repeat 0" not in both.stderr
    for phrase in ("512-D P@1", "pnca+gap+gmp, unbiased, mean of 1", "pnca+gap+gmp, optimism"):
        assert phrase in both.stdout
    reported = run_here(MODULE, *arguments, "--report_only", "--details")
    assert reported.stdout.endswith(both.stdout)
    for phrase in ("optimism of the protocol", "not comparable", "Recall on the test set of glyphs"):
        assert phrase in reported.stdout.removesuffix(both.stdout)
    names = {"/".join(path.parts[-5:-3]) for path in tmp_path.rglob("result.json")}
    assert names == {"conventional/glyphs", "held_out/glyphs"}
