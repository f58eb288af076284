"""`python -m experiments.report`: bad input ends in one message. What it writes: site/report_folder_test.py."""

from tests.command_line import check_clean_failure, run_module


def test_missing_and_wrong_folders_are_refused(tmp_path):
    check_clean_failure(run_module("experiments.report", cwd=tmp_path), "--runs")
    finished = run_module("experiments.report", f"--runs={tmp_path}", cwd=tmp_path)
    check_clean_failure(finished, "--runs", "there is no run", "fold<k>-repeat<r>")
    assert list(tmp_path.iterdir()) == []
