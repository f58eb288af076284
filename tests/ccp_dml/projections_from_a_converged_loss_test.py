import json
import re

import numpy as np
import pytest

from ccp_dml import ProjectionRules
from tests.ccp_dml.scripted_training import RATE, ScriptedTraining, assert_all_equal

pytestmark = pytest.mark.usefixtures("traces_are_shared")
# The in-batch loss is best at evaluation 2; after two more it has converged.
CONVERGES = [0.3, 0.5, 0.6, 0.55, 0.6]


def outcomes_of(training):
    return [(problem.outcome, problem.best_before, problem.best) for problem in training.projections.problems]


def test_the_first_problem_begins_from_the_best_weights_of_the_converged_in_batch_loss(tmp_path, capfd):
    training = ScriptedTraining(ProjectionRules(start_patience=2), given=[*CONVERGES, 0.58, 0.7, 0.65])
    history = training.run(tmp_path, epochs=8)
    assert training.rates == [0.0] * 5 + [RATE] * 3
    assert training.begun == [0] * 5 + [1] * 3
    weights, _ = training.embedded[0]
    assert_all_equal(weights, training.seen[2])
    assert_all_equal(training.term.targets(), training.network_of(training.seen[2]))
    (problem,) = training.projections.problems
    assert (problem.start_step, problem.end_step, problem.best_before, problem.best) == (10, 16, 0.6, 0.7)
    assert history["best"] == {"step": 14, "MAP@R": 0.7}
    assert "warning" not in capfd.readouterr().err


def test_it_begins_no_sooner_than_the_start_step(tmp_path):
    training = ScriptedTraining(ProjectionRules(start_step=11, start_patience=2), given=[*CONVERGES, 0.59, 0.6, 0.6])
    training.run(tmp_path, epochs=8)
    assert [problem.start_step for problem in training.projections.problems] == [12]
    assert_all_equal(training.embedded[0][0], training.seen[2])


def test_nothing_is_selected_or_waited_for_before_the_first_problem(tmp_path):
    given = [0.9, 0.8, 0.8, 0.8, 0.8, 0.2, 0.4, 0.3, 0.3, 0.5]
    training = ScriptedTraining(ProjectionRules(start_patience=4), given=given)
    history = training.run(tmp_path, epochs=10, patience=2)  # which would have ended the in-batch loss at evaluation 2
    assert history == {"best": {"step": 14, "MAP@R": 0.4}, "steps": 18}
    assert_all_equal(training.model.get_weights(), training.seen[6])


def test_a_training_in_which_no_problem_begins_says_so_and_keeps_the_in_batch_loss(tmp_path, capfd):
    training = ScriptedTraining(ProjectionRules(start_patience=3), given=[0.3, 0.5, 0.4, 0.4])
    history = training.run(tmp_path, epochs=4)
    assert history["best"] == {"step": 4, "MAP@R": 0.5}
    assert_all_equal(training.model.get_weights(), training.seen[1])
    assert training.projections.problems == []
    assert capfd.readouterr().err.count("warning: no projection problem has begun") == 1


# Problem 0 is best at evaluation 1, problem 1 at 3 (below it), problem 2 at 6 (above it).
FALLS = [0.4, 0.5, 0.45, 0.3, 0.2, 0.4, 0.6, 0.5, 0.55]


def test_a_problem_that_ends_below_the_one_before_goes_back_to_its_weights_proxies_and_target(tmp_path):
    training = ScriptedTraining(ProjectionRules(patience=1, goes_back=True), given=FALLS)
    targets = {}
    training.projections.on_problem_start = lambda index, *_: targets.setdefault(index, training.term.targets())
    training.run(tmp_path, epochs=9)
    best = training.seen[1]
    assert outcomes_of(training) == [
        ("converged", None, 0.5),
        ("went back", 0.5, 0.3),
        ("converged", 0.5, 0.6),
        (None, 0.6, 0.55),
    ]
    for problem in (1, 2):  # both begin from the best weights of problem 0, with other draws from the classes
        assert_all_equal(training.embedded[problem][0], best)
        assert_all_equal(targets[problem], training.network_of(best))
    assert np.any(training.embedded[1][1] != training.embedded[2][1])
    records = training.projections.problems
    assert records[1].covering_radius_before is not None is not records[2].covering_radius_before
    assert_all_equal(training.embedded[3][0], training.seen[6])


def test_alternation_stops_after_two_failures_in_a_row(tmp_path, capfd):
    given = [0.4, 0.5, 0.45, 0.3, 0.2, 0.4, 0.3, 0.45, 0.48, 0.6]
    training = ScriptedTraining(ProjectionRules(patience=1, goes_back=True, max_failures=2), given=given)
    training.run(tmp_path, epochs=10)
    outcomes = [outcome for outcome, *_ in outcomes_of(training)]
    assert outcomes == ["converged", "went back", "alternation stopped"]
    last = training.projections.problems[-1]
    assert (last.steps, sorted(training.embedded)) == (4, [0, 1, 2])
    before, after = training.proxies_of(training.seen[1]), training.proxies_of(training.seen[7])
    assert np.abs(before - after).max() < 0.03  # one evaluation (two steps of Adam) from the proxies of problem 0
    said = capfd.readouterr().err
    assert said.count("2 projection problems in a row have ended below MAP@R 0.5000") == 1
    assert last.notes[0] in said
    assert json.loads(json.dumps(training.projections.state())) == training.projections.state()


def test_one_better_problem_between_them_forgives_a_failure(tmp_path):
    given = [*FALLS[:7], 0.5, 0.4, 0.3, 0.7]
    training = ScriptedTraining(ProjectionRules(patience=1, goes_back=True, max_failures=2), given=given)
    training.run(tmp_path, epochs=11)
    outcomes = [outcome for outcome, *_ in outcomes_of(training)]
    assert outcomes == ["converged", "went back", "converged", "went back", None]


def test_a_first_problem_below_the_in_batch_loss_begins_anew_from_it_and_the_last_one_goes_on(tmp_path):
    rules = ProjectionRules(patience=1, start_patience=2, goes_back=True, max_failures=2)
    training = ScriptedTraining(rules, given=[*CONVERGES, 0.5, 0.4, 0.55, 0.5, 0.45, 0.4])
    training.run(tmp_path, epochs=11)
    assert outcomes_of(training) == [("went back", 0.6, 0.5), ("alternation stopped", 0.6, 0.55)]
    for problem in (0, 1):
        assert_all_equal(training.embedded[problem][0], training.seen[2])
        assert training.projections.problems[problem].covering_radius_before is None
    assert int(np.array(training.loss.started)) == 1  # it has not become the plain loss again


@pytest.mark.parametrize(
    ("rules", "given", "said"),
    [
        (ProjectionRules(start_step=5), [0.3, 0.5, 0.6, 0.7], "begins while validation still rises"),
        (ProjectionRules(start_step=9), [*CONVERGES, 0.7], "best .MAP@R 0.6000. is number 3"),
        (ProjectionRules(start_step=11), [0.3, 0.5, 0.6, 0.6, 0.5, 0.4, 0.6], None),
        (
            ProjectionRules(start_patience=2, patience=2),
            [*CONVERGES, 0.5, 0.589, 0.6],
            "2 evaluations into the first projection problem, MAP@R is 0.5890, below the 0.6000",
        ),
        (ProjectionRules(start_patience=2, patience=2), [*CONVERGES, 0.5, 0.591, 0.4], None),
    ],
)
def test_conditions_that_are_not_met_are_said_once_and_kept(tmp_path, capfd, rules, given, said):
    training = ScriptedTraining(rules, given=given)
    training.run(tmp_path, epochs=len(given))
    notes = [note for problem in training.projections.problems for note in problem.notes]
    warnings = [line for line in capfd.readouterr().err.splitlines() if "warning: " in line]
    assert len(notes) == len(warnings) == (said is not None)
    if said is not None:
        assert notes[0] in warnings[0]
        assert re.search(said, notes[0])
