import json
import math
import sys
import time

import pytest

from common.errors import InvalidInput
from common.training import NotFinite
from experiments.recipes import resolve
from experiments.tuning import search as tuning_search
from experiments.tuning.search import RANDOM_TRIALS, Search, SearchRules, take_trial, was_pruned
from experiments.tuning.search_space import parse_space
from tests.support.command_line import start_program

optuna = pytest.importorskip("optuna", reason="Optuna is not installed (pip install '.[tune]')")
PARAMETERS = ["learning_rate=1e-4..1e-1:log", "samples_per_class=2..8"]
TRIALS = 12


class Runs:
    """In the place of training: validation is best at a rate of 3e-3 and five samples, and grows over eight steps.

    Args:
        folder: for results.
        dies_at: numbers of evaluations, over all runs, at which the process ends.
        diverges_above: a rate.
    """

    fingerprint = "data"

    def __init__(self, folder, dies_at=(), diverges_above=math.inf):
        self.runs_dir, self.dies_at, self.diverges_above, self.evaluations = folder, set(dies_at), diverges_above, 0
        self.trained = []

    def method_dir(self, config):
        return self.runs_dir / f"{config.name}-{config.hash(self.fingerprint)}"

    def unit_dir(self, config, fold, repeat):
        return self.method_dir(config) / f"fold{fold}-repeat{repeat}"

    def train(self, config, fold, repeat, checkpoint_seconds, watch):
        folder = self.unit_dir(config, fold, repeat)
        if (folder / "result.json").exists():
            return
        folder.mkdir(parents=True, exist_ok=True)
        if config.learning_rate > self.diverges_above:
            raise InvalidInput("The loss became nan.") from NotFinite("The loss became nan.", 3)
        off = abs(math.log10(config.learning_rate / 3e-3)) + abs(config.samples_per_class - 5) / 10 + fold / 100
        records = [{"step": step, "validation": {"MAP@R": step / 8 - off / 5}} for step in (2, 4, 6, 8)]
        for record in records:
            self.evaluations += 1
            if self.evaluations in self.dies_at:
                raise KeyboardInterrupt
            watch(record["step"], record["validation"])
            if self.evaluations + 0.5 in self.dies_at:  # after the report, before the checkpoint
                raise KeyboardInterrupt
        (folder / "metrics.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
        best = {"step": 8, "MAP@R": records[-1]["validation"]["MAP@R"]}
        (folder / "result.json").write_text(json.dumps({"validation": {"best": best}}))
        self.trained.append((config.learning_rate, config.samples_per_class, fold))


def search(runs, parameters=PARAMETERS, **rules):
    config = resolve("glyphs", "c2", "gap", "thesis", "smoke", {})

    def resolved(trial):
        return resolve("glyphs", "c2", "gap", "thesis", "smoke", {"chapter": 5, **trial})

    storage = f"sqlite:///{runs.runs_dir / 'trials.db'}"
    return Search(config, parse_space(parameters, config), resolved, runs, SearchRules(**rules), storage)


def told(found):
    return [(trial.params, trial.state.name, trial.value, trial.intermediate_values) for trial in found.finished()]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    found = search(Runs(tmp_path_factory.mktemp("undisturbed")))
    found.run(TRIALS)
    return found


def test_the_first_trial_is_the_recipes_and_the_best_beats_it(undisturbed):
    first, best = undisturbed.finished()[0], undisturbed.best()
    assert first.params == {"learning_rate": 1e-3, "samples_per_class": 4}
    assert best.value > first.value
    assert best.value == max(trial.value for trial in undisturbed.finished() if not was_pruned(trial))
    assert len(undisturbed.finished()) == TRIALS


def test_bad_trials_are_pruned_after_the_first_ones(undisturbed):
    pruned = [trial.number for trial in undisturbed.finished() if was_pruned(trial)]
    assert pruned
    assert min(pruned) >= RANDOM_TRIALS - 1
    assert all(max(undisturbed.finished()[number].intermediate_values) < 8 for number in pruned)


@pytest.mark.parametrize("dies_at", [(), (2, 9.5, 14)])
def test_halving_continues_the_best_third_past_half_of_the_first_fold(tmp_path, dies_at):
    runs = Runs(tmp_path, dies_at)
    for _ in dies_at:
        with pytest.raises(KeyboardInterrupt):
            search(runs, folds=2, search="random", pruning="halving").run(TRIALS)
    found = search(runs, folds=2, search="random", pruning="halving")
    found.run(TRIALS)
    halfway = [trial.intermediate_values[4] for trial in found.finished()]
    for place, trial in enumerate(found.finished()):
        third = max(1, (place + 1) // 3)
        continues = halfway[place] >= sorted(halfway[: place + 1])[-third]
        assert was_pruned(trial) != continues
        assert list(trial.intermediate_values) == ([2, 4, 6, 8, 10, 12, 14, 16] if continues else [2, 4])


@pytest.mark.parametrize("dies_at", [(3, 21.5), (1, 2, 26)])
def test_a_search_that_was_killed_has_the_same_trials(undisturbed, tmp_path, dies_at):
    runs = Runs(tmp_path, dies_at)
    for _ in dies_at:
        with pytest.raises(KeyboardInterrupt):
            search(runs).run(TRIALS)
    found = search(runs)
    found.run(TRIALS)
    assert told(found) == told(undisturbed)


def test_one_that_was_killed_while_it_asked_has_the_same_settings(undisturbed, tmp_path):
    found = search(Runs(tmp_path))
    found.run(RANDOM_TRIALS)
    found.study.ask()  # no setting yet
    found = search(Runs(tmp_path))
    found.run(TRIALS)
    assert told(found) == told(undisturbed)


def test_more_trials_continue_the_search(undisturbed, tmp_path):
    runs = Runs(tmp_path)
    search(runs).run(4)
    assert len(search(runs).finished()) == 4
    search(runs).run(4)
    assert len(runs.trained) == 4
    search(runs).run(TRIALS)
    assert told(search(runs)) == told(undisturbed)


def test_trials_of_other_processes_are_left_to_them(tmp_path):
    runs = Runs(tmp_path)
    mine, other = search(runs), search(runs)
    with other._next(3)[1]:
        mine.run(3)
        assert len(mine.finished()) == 2
        assert [trial.number for trial in mine.finished()] == [1, 2]
    mine.run(3)  # the other one has ended without a word
    assert [trial.number for trial in mine.finished()] == [0, 1, 2]


def test_a_run_that_had_finished_before_reports_its_evaluations(undisturbed, tmp_path):
    runs = Runs(tmp_path)
    config = resolve("glyphs", "c2", "gap", "thesis", "smoke", {"chapter": 5})
    runs.train(config, 0, 0, 30.0, lambda step, metrics: None)
    found = search(runs)
    found.run(TRIALS)
    assert told(found) == told(undisturbed)


def test_what_diverges_is_a_trial_without_a_value(tmp_path):
    found = search(Runs(tmp_path, diverges_above=1e-2), search="random", pruning="none")
    found.run(TRIALS)
    diverged = [trial for trial in found.finished() if "diverged" in trial.user_attrs]
    assert diverged
    assert all(trial.params["learning_rate"] > 1e-2 and was_pruned(trial) for trial in diverged)
    assert found.best().params["learning_rate"] <= 1e-2


def test_other_bad_input_ends_the_search(tmp_path):
    runs = Runs(tmp_path)
    runs.train = lambda *arguments: (_ for _ in ()).throw(InvalidInput("no such file"))
    with pytest.raises(InvalidInput, match="no such file"):
        search(runs).run(1)


def test_a_trial_of_two_folds_is_worth_their_mean(tmp_path):
    runs = Runs(tmp_path)
    found = search(runs, folds=2, pruning="none")
    found.run(1)
    (trial,) = found.finished()
    assert [fold for _, _, fold in runs.trained] == [0, 1]
    assert list(trial.intermediate_values) == [2, 4, 6, 8, 10, 12, 14, 16]
    assert trial.value == pytest.approx((trial.intermediate_values[8] + trial.intermediate_values[16]) / 2)


def test_searches_that_cannot_be_compared_are_kept_apart(tmp_path):
    runs = Runs(tmp_path)
    others = [
        search(runs, seed=1),
        search(runs, folds=2),
        search(runs, pruning="none"),
        search(runs, search="random"),
        search(runs, ["learning_rate=1e-4..1e-2:log", "samples_per_class=2..8"]),
        search(runs, ["learning_rate=1e-4..1e-1:log"]),
    ]
    assert len({found.name for found in (search(runs), *others)}) == 7
    assert search(runs).name == search(runs).name


def test_without_optuna_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "optuna", None)
    tuning_search.optuna.cache_clear()
    with pytest.raises(InvalidInput, match=r"deep-metric-learning\[tune\]"):
        tuning_search.optuna()


@pytest.mark.parametrize("address", ["nonsense", "sqlite:////no/such/folder/tune.db", "oracle9://host/name"])
def test_a_storage_that_cannot_be_opened(address):
    pytest.importorskip("optuna", reason="Optuna is not installed (pip install '.[tune]')")
    tuning_search.optuna.cache_clear()
    with pytest.raises(InvalidInput, match="--storage.*expected the address of a database"):
        tuning_search.open_storage(address)


HOLD = """
import pathlib, sys, time
from experiments.tuning.search import take_trial
lock = take_trial(pathlib.Path(sys.argv[1]), 3)
pathlib.Path(sys.argv[1], "held" if lock else "refused").touch()
time.sleep(600)
"""


def test_a_trial_is_held_by_one_process_until_it_ends(tmp_path):
    other = start_program(["-c", HOLD, str(tmp_path)])
    while not (tmp_path / "held").exists():
        assert other.poll() is None
        time.sleep(0.02)
    assert take_trial(tmp_path, 3) is None
    with take_trial(tmp_path, 4):
        pass
    other.kill()
    other.wait()
    with take_trial(tmp_path, 3) as lock:
        assert lock is not None
        assert take_trial(tmp_path, 3) is None
    with take_trial(tmp_path, 3):
        pass
