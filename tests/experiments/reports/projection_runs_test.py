"""Runs of CCP in which no projection problem began."""

from experiments.reports.projection_runs import runs_without_problem


def test_counts_the_runs_of_ccp_that_never_left_the_loss():
    problem = {"index": 0}
    text = runs_without_problem([[], [problem], [problem, problem], [], None])
    assert text == "no projection problem began in 2 of 4 runs, which trained with the loss alone"


def test_says_nothing_where_every_run_has_a_problem_or_none_is_of_ccp():
    assert runs_without_problem([[{"index": 0}]]) is None
    assert runs_without_problem([None, None]) is None
    assert runs_without_problem([]) is None
