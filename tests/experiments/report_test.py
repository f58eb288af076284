"""`python -m experiments.report`: bad input ends in one message. What it writes: site/report_folder_test.py."""

from tests.command_line import check_clean_failure, run_here


def test_a_folder_without_runs_is_refused(tmp_path):
    finished = run_here("experiments.report", f"--runs={tmp_path}", cwd=tmp_path)
    check_clean_failure(finished, "--runs", "there is no run", "fold<k>-repeat<r>")
    assert list(tmp_path.iterdir()) == []
