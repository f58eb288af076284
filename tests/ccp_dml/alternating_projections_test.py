import json
import re

import numpy as np
import pytest

from ccp_dml import AlternatingProjections, ProjectionRules, choose_representatives, covering_radii
from common.errors import InvalidInput
from common.records import RunDirectory
from common.training import FusedAdam, ProxyRateOptimizer
from tests.ccp_dml.scripted_training import CLASSES, DIM, MOVE, PROXIES, RATE, ScriptedTraining, assert_all_equal

pytestmark = pytest.mark.usefixtures("functions_run_eagerly")
# Problem 0 has its best at evaluation 1 and ends at 4; problem 1 has its best at 6 and ends at 9; problem 2 continues.
GIVEN = [0.3, 0.5, 0.5, 0.4, 0.5, 0.1, 0.2, 0.2, 0.1, 0.15, 0.9, 0.95]


@pytest.fixture(scope="module")
def observed(functions_run_eagerly, tmp_path_factory):
    """A training with these figures, and what an observer has seen of its problems."""
    training = ScriptedTraining(given=GIVEN)
    seen = []

    def on_problem_start(index, converged, chosen):
        seen.append((index, converged, chosen, [np.array(weight) for weight in training.model.get_weights()]))

    training.projections.on_problem_start = on_problem_start
    training.run(tmp_path_factory.mktemp("observed"))
    return training, seen


def test_an_observer_sees_every_problem_begin(observed):
    training, seen = observed
    assert [index for index, *_ in seen] == [0, 1, 2]
    assert seen[0][1] is None
    for (_, converged, _, _), best in zip(seen[1:], (1, 6)):  # the evaluations at which problems 0 and 1 are best
        np.testing.assert_allclose(converged, training.proxies_of(training.seen[best]), rtol=1e-6)
    for index, _, chosen, weights in seen:
        np.testing.assert_allclose(chosen.embeddings, training.proxies_of(weights), rtol=1e-6)
        members = np.take_along_axis(training.embedded[index][1], chosen.positions[..., None], axis=1)
        np.testing.assert_array_equal(chosen.embeddings, members)


def test_problems_end_after_three_evaluations_without_improvement(observed):
    training, _ = observed
    records = [problem.as_dict() for problem in training.projections.problems]
    assert [(r["index"], r["start_step"], r["end_step"], r["steps"], r["best"]) for r in records] == [
        (0, 0, 10, 10, 0.5),
        (1, 10, 20, 10, 0.2),
        (2, 20, 24, 4, 0.95),
    ]
    assert json.loads(json.dumps(records)) == records


def test_the_next_problem_begins_from_the_best(observed):
    training, _ = observed
    for problem, best_evaluation in ((1, 1), (2, 6)):
        best = training.seen[best_evaluation]
        weights, pools = training.embedded[problem]
        assert_all_equal(weights, best)  # the pool is embedded with the best weights
        chosen = choose_representatives(pools, PROXIES, training.proxies_of(best))
        record = training.projections.problems[problem]
        assert record.covering_radius_before == covering_radii(pools, training.proxies_of(best)).mean()
        assert record.covering_radius_after == covering_radii(pools, chosen.embeddings).mean()
    assert_all_equal(training.term.targets(), training.network_of(training.seen[6]))
    assert np.any(training.term.targets()[0] != training.network_of(training.seen[-1])[0])


@pytest.mark.parametrize("first_centers", ["sample", "origin"])
def test_the_first_problem_begins_from_the_initial_weights(first_centers):
    training = ScriptedTraining(ProjectionRules(first_centers=first_centers), given=[0.5])
    initial = [np.array(weight) for weight in training.model.get_weights()]
    targets = []
    training.embed_pools = lambda problem: targets.append(training.term.targets()) or training.pools(problem)
    training.projections.embed_pools = training.embed_pools
    pools = training.pools(0)
    training.replay()
    assert_all_equal(targets[0], training.network_of(initial))
    previous = np.zeros((CLASSES, 1, DIM)) if first_centers == "origin" else None
    chosen = choose_representatives(pools, PROXIES, previous).positions
    first = np.linalg.norm(pools, axis=-1).argmax(1) if first_centers == "origin" else np.zeros(CLASSES)
    np.testing.assert_array_equal(chosen[:, 0], first)
    assert training.projections.problems[0].covering_radius_before is None


def test_random_first_proxies_are_those_of_the_loss():
    training = ScriptedTraining(ProjectionRules(first_centers="random"))
    training.projections.set_model(training.model)
    drawn = training.loss.representatives()
    training.projections.on_train_begin()
    np.testing.assert_array_equal(np.array(training.loss.proxies.proxies), drawn.reshape(-1, DIM))
    assert np.abs(drawn - training.pools(0)[:, :PROXIES]).max() > 0.1


def test_proxies_begin_as_embeddings_of_the_chosen_and_optimiser_slots_stay():
    training = ScriptedTraining()
    training.projections.set_model(training.model)
    training.projections.on_train_begin()
    pools = training.pools(0)
    chosen = choose_representatives(pools, PROXIES)
    np.testing.assert_array_equal(np.array(training.loss.proxies.proxies), chosen.embeddings.reshape(-1, DIM))
    update = ProxyRateOptimizer(FusedAdam(0.01))
    training.model.compile_training(update, [training.term])
    training.model.train_step((training.examples.inputs.astype(np.float32), training.examples.labels))
    slots = [np.array(variable) for variable in update.variables]
    assert any(np.any(slot) for slot in slots)
    training.projections.params = {"epochs": 99}
    training.model.stop_training = False
    for epoch, value in enumerate([0.5, 0.4, 0.4, 0.4]):
        training.projections.on_epoch_end(epoch, {"MAP@R": value})
    assert len(training.projections.problems) == 2
    assert_all_equal(update.variables, slots)


def test_rules_of_the_published_code():
    # Read one late: evaluations see 0, .3, .5, .5, .4, .2 | .1, .6: the best of problem 0 is seen at evaluation 2.
    rules = ProjectionRules.published_code()
    training = ScriptedTraining(rules, given=[0.3, 0.5, 0.5, 0.4, 0.2, 0.1, 0.6, 0.6], with_batch_norm=False)
    training.replay()
    problems = training.projections.problems
    assert [(problem.steps, problem.best) for problem in problems] == [(12, 0.5), (4, 0.6)]
    assert training.rates == [0.0] * 6 + [RATE] * 2
    weights, pools = training.embedded[1]
    assert_all_equal(weights, training.seen[5])  # the pool is embedded with the last weights
    assert_all_equal(training.term.targets(), training.network_of(training.seen[2]))  # the target is the best
    proxies = training.proxies_of(training.seen[2])
    assert problems[1].covering_radius_before == covering_radii(pools, proxies).mean()
    for before, after in zip(training.network_of(training.seen[5]), training.network_of(training.seen[6])):
        np.testing.assert_array_equal(after, before + np.float32(MOVE))  # from the last weights, not from the best


def test_the_first_problem_may_wait():
    training = ScriptedTraining(ProjectionRules(start_step=5), given=[0.9, 0.1, 0.5, 0.4, 0.3, 0.2, 0.1])
    training.replay()
    assert training.rates == [0.0] * 3 + [RATE] * 4
    assert training.begun == [0] * 3 + [1] * 4
    weights, _ = training.embedded[0]
    assert_all_equal(weights, training.seen[2])  # after six steps, the first evaluation past the fifth
    (problem,) = training.projections.problems
    assert (problem.start_step, problem.end_step, problem.best) == (6, 14, 0.4)
    assert_all_equal(training.term.targets(), training.network_of(training.seen[2]))


@pytest.mark.parametrize("rule", ["start_step", "start_patience"])
def test_waiting_needs_a_loss_that_has_something_to_compare_with(rule):
    training = ScriptedTraining()
    with pytest.raises(InvalidInput, match=f"{rule}: received 5, .*warm_up_in_batch=True"):
        AlternatingProjections(training.loss, training.term, training.pools, ProjectionRules(**{rule: 5}))


def problem_in_checkpoint(path):
    checkpoint = RunDirectory(path, {}).read_checkpoint()
    (_, state) = json.loads(str(checkpoint["state"]))["callbacks"]
    return state["problems"][-1] if state["problems"] else None


@pytest.mark.slow
@pytest.mark.parametrize(
    "rules",
    [
        pytest.param(ProjectionRules(patience=1), marks=pytest.mark.release),
        pytest.param(ProjectionRules.published_code(patience=1), marks=pytest.mark.release),
        ProjectionRules(patience=1, start_step=5, start_patience=1, goes_back=True),
    ],
)
def test_an_interrupted_run_goes_on_bit_for_bit(tmp_path, rules):
    whole = ScriptedTraining(rules)
    history = whole.run(tmp_path / "whole", epochs=8, warm_up_steps=2)
    assert len(whole.projections.problems) > 1
    interrupted = []
    for evaluations in (0, 2, 3):  # each part resumes from the checkpoint of the one before
        part = ScriptedTraining(rules, stop_after=evaluations)
        with pytest.raises(KeyboardInterrupt):
            part.run(tmp_path / "parts", epochs=8, warm_up_steps=2)
        interrupted.append(problem_in_checkpoint(tmp_path / "parts"))
    assert interrupted[0] is None  # before the first problem
    assert (interrupted[1] is None) == rules.waits
    assert any(problem and problem["end_step"] > problem["start_step"] for problem in interrupted)  # amid one
    resumed = ScriptedTraining(rules)
    assert resumed.run(tmp_path / "parts", epochs=8, warm_up_steps=2) == history
    assert resumed.projections.state() == whole.projections.state()
    assert_all_equal(resumed.projections.arrays(), whole.projections.arrays())
    assert_all_equal(resumed.model.get_weights(), whole.model.get_weights())
    assert_all_equal(resumed.model.update.variables, whole.model.update.variables)


def test_problems_of_given_steps():
    training = ScriptedTraining(ProjectionRules(problem_steps=4, max_problems=3), given=[0.5, 0.1] * 4)
    training.replay()
    assert [problem.steps for problem in training.projections.problems] == [4, 4, 8]
    for problem, evaluation in ((1, 1), (2, 3)):  # from the last weights, which are not the best
        assert_all_equal(training.embedded[problem][0], training.seen[evaluation])
    assert_all_equal(training.term.targets(), training.network_of(training.seen[3]))


# In the second training the third evaluation without improvement is the last one.
@pytest.mark.parametrize(("most", "evaluations"), [(1, 8), (None, 4)])
def test_no_problem_begins_after_the_last_one_or_when_training_is_over(most, evaluations):
    training = ScriptedTraining(ProjectionRules(max_problems=most), given=[0.5] * evaluations)
    training.replay()
    assert [problem.steps for problem in training.projections.problems] == [2 * evaluations]
    assert list(training.embedded) == [0]


def test_a_missing_metric_is_named():
    training = ScriptedTraining(ProjectionRules(metric="P@1"))
    training.projections.set_model(training.model)
    training.projections.on_train_begin()
    with pytest.raises(InvalidInput, match=r"no 'P@1' in the logs \(MAP@R, loss\)"):
        training.projections.on_epoch_end(0, {"loss": 1.0, "MAP@R": 0.5})


def test_pools_of_another_shape_are_refused():
    training = ScriptedTraining()
    training.projections.set_model(training.model)
    for pools in (np.zeros((CLASSES, DIM)), np.zeros((CLASSES + 1, 4, DIM)), np.zeros((CLASSES, 4, DIM + 1))):
        training.projections.embed_pools = lambda problem, pools=pools: pools
        with pytest.raises(InvalidInput, match="embedded pools|representatives"):
            training.projections.on_train_begin()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"patience": 0}, "projection_patience"),
        ({"min_delta": -1.0}, "min_delta"),
        ({"continue_from": "first"}, "best, last"),
        ({"first_centers": "zeros"}, "sample, origin, random"),
        ({"start_step": -1}, "start_step"),
        ({"first_rate": -0.1}, "first_rate"),
        ({"max_problems": 0}, "max_problems"),
        ({"start_patience": 0}, "start_patience"),
        ({"goes_back": True, "max_failures": 0}, "max_failures"),
        ({"problem_steps": 0}, "problem_steps"),
        ({"problem_steps": 4, "goes_back": True}, "problem_steps: received 4, expected None with goes_back"),
        ({"max_failures": 2}, "max_failures: received 2, expected None, or goes_back=True"),
    ],
)
def test_rules_out_of_range(changes, message):
    with pytest.raises(InvalidInput, match=message):
        ProjectionRules(**changes)


# The in-batch loss is best at evaluation 2; after two more it has converged.
CONVERGES = [0.3, 0.5, 0.6, 0.55, 0.6]


def outcomes_of(training):
    return [(problem.outcome, problem.best_before, problem.best) for problem in training.projections.problems]


def test_the_first_problem_begins_from_the_best_weights_of_the_converged_in_batch_loss(capfd):
    training = ScriptedTraining(ProjectionRules(start_patience=2), given=[*CONVERGES, 0.58, 0.7, 0.65])
    training.replay()
    assert training.rates == [0.0] * 5 + [RATE] * 3
    assert training.begun == [0] * 5 + [1] * 3
    weights, _ = training.embedded[0]
    assert_all_equal(weights, training.seen[2])
    assert_all_equal(training.term.targets(), training.network_of(training.seen[2]))
    (problem,) = training.projections.problems
    assert (problem.start_step, problem.end_step, problem.best_before, problem.best) == (10, 16, 0.6, 0.7)
    assert "warning" not in capfd.readouterr().err


def test_it_begins_no_sooner_than_the_start_step():
    training = ScriptedTraining(ProjectionRules(start_step=11, start_patience=2), given=[*CONVERGES, 0.59, 0.6, 0.6])
    training.replay()
    assert [problem.start_step for problem in training.projections.problems] == [12]
    assert_all_equal(training.embedded[0][0], training.seen[2])


def test_nothing_is_selected_or_waited_for_before_the_first_problem(tmp_path):
    given = [0.9, 0.8, 0.8, 0.8, 0.8, 0.2, 0.4, 0.3, 0.3, 0.5]
    training = ScriptedTraining(ProjectionRules(start_patience=4), given=given)
    history = training.run(tmp_path, epochs=10, patience=2)  # which would have ended the in-batch loss at evaluation 2
    assert history == {"best": {"step": 14, "MAP@R": 0.4}, "steps": 18}
    assert_all_equal(training.model.get_weights(), training.seen[6])


def test_a_training_in_which_no_problem_begins_says_so_and_keeps_the_in_batch_loss(tmp_path):
    training = ScriptedTraining(ProjectionRules(start_patience=3), given=[0.3, 0.5, 0.4, 0.4])
    with pytest.warns(UserWarning, match="no projection problem has begun, so the loss still is that of the batch"):
        history = training.run(tmp_path, epochs=4)
    assert history["best"] == {"step": 4, "MAP@R": 0.5}
    assert_all_equal(training.model.get_weights(), training.seen[1])
    assert training.projections.problems == []


# Problem 0 is best at evaluation 1, problem 1 at 3 (below it), problem 2 at 6 (above it).
FALLS = [0.4, 0.5, 0.45, 0.3, 0.2, 0.4, 0.6, 0.5, 0.55]


def test_a_problem_that_ends_below_the_one_before_goes_back_to_its_weights_proxies_and_target():
    training = ScriptedTraining(ProjectionRules(patience=1, goes_back=True), given=FALLS)
    targets = {}
    training.projections.on_problem_start = lambda index, *_: targets.setdefault(index, training.term.targets())
    training.replay()
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


def test_alternation_stops_after_two_failures_in_a_row(capfd):
    given = [0.4, 0.5, 0.45, 0.3, 0.2, 0.4, 0.3, 0.45, 0.48, 0.6]
    training = ScriptedTraining(ProjectionRules(patience=1, goes_back=True, max_failures=2), given=given)
    training.replay()
    outcomes = [outcome for outcome, *_ in outcomes_of(training)]
    assert outcomes == ["converged", "went back", "alternation stopped"]
    last = training.projections.problems[-1]
    assert (last.steps, sorted(training.embedded)) == (4, [0, 1, 2])
    moved = [w + MOVE if w.dtype == np.float32 else w for w in training.seen[1]]
    np.testing.assert_array_equal(training.proxies_of(training.seen[7]), training.proxies_of(moved))  # of problem 0
    said = capfd.readouterr().err
    assert said.count("2 projection problems in a row have ended below MAP@R 0.5000") == 1
    assert last.notes[0] in said
    assert json.loads(json.dumps(training.projections.state())) == training.projections.state()


def test_one_better_problem_between_them_forgives_a_failure():
    given = [*FALLS[:7], 0.5, 0.4, 0.3, 0.7]
    training = ScriptedTraining(ProjectionRules(patience=1, goes_back=True, max_failures=2), given=given)
    training.replay()
    outcomes = [outcome for outcome, *_ in outcomes_of(training)]
    assert outcomes == ["converged", "went back", "converged", "went back", None]


def test_a_first_problem_below_the_in_batch_loss_begins_anew_from_it_and_the_last_one_goes_on():
    rules = ProjectionRules(patience=1, start_patience=2, goes_back=True, max_failures=2)
    training = ScriptedTraining(rules, given=[*CONVERGES, 0.5, 0.4, 0.55, 0.5, 0.45, 0.4])
    training.replay()
    assert outcomes_of(training) == [("went back", 0.6, 0.5), ("alternation stopped", 0.6, 0.55)]
    for problem in (0, 1):
        assert_all_equal(training.embedded[problem][0], training.seen[2])
        assert training.projections.problems[problem].covering_radius_before is None
    assert int(np.array(training.loss.started)) == 1  # it has not become the plain loss again


def test_a_first_problem_below_an_earlier_training_begins_anew_from_its_weights(capfd):
    rules = ProjectionRules(patience=1, goes_back=True, max_failures=2)
    training = ScriptedTraining(rules, given=[0.5, 0.4, 0.65, 0.6, 0.7], before=[0.4, 0.6, 0.6, 0.6, 0.59])
    training.replay()
    assert outcomes_of(training) == [("went back", 0.6, 0.5), ("converged", 0.6, 0.65), (None, 0.65, 0.7)]
    assert_all_equal(training.embedded[1][0], training.embedded[0][0])
    assert "the first projection problem begins" not in capfd.readouterr().err


@pytest.mark.parametrize(
    ("rules", "given", "said"),
    [
        (ProjectionRules(start_step=5), [0.3, 0.5, 0.6, 0.7], "begins while validation still rises"),
        (ProjectionRules(), [0.3, 0.3], "begins before any evaluation of the in-batch loss"),
        (ProjectionRules(start_step=1), [0.3, 0.3], "begins after a single evaluation .MAP@R 0.3000."),
        (ProjectionRules(start_step=9), [0.5, 0.52, 0.55, 0.54, 0.54, 0.55], None),
        (ProjectionRules(start_step=11), [0.3, 0.5, 0.6, 0.6, 0.5, 0.4, 0.6], None),
        (ProjectionRules(start_patience=2, patience=2), [*CONVERGES, 0.5, 0.589, 0.6], "is 0.5890, below the 0.6000"),
        (ProjectionRules(start_patience=2, patience=2), [*CONVERGES, 0.5, 0.591, 0.4], None),
    ],
)
def test_conditions_that_are_not_met_are_said_once_and_kept(capfd, rules, given, said):
    training = ScriptedTraining(rules, given=given)
    training.replay()
    notes = [note for problem in training.projections.problems for note in problem.notes]
    warnings = [line for line in capfd.readouterr().err.splitlines() if "warning: " in line]
    assert len(notes) == len(warnings) == (said is not None)
    if said is not None:
        assert notes[0] in warnings[0]
        assert re.search(said, notes[0])
