"""Search for one method's settings: Optuna proposes, fair-protocol runs validate."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import hashlib
import json
import pathlib
from collections.abc import Callable, Iterator, Mapping
from types import ModuleType
from typing import IO, Any

import numpy as np

from common import training
from common.errors import InvalidInput, first_line, invalid
from common.files import hold_lock, lock_file, read_json_lines
from common.progress import write_notice
from common.training.trackers import EndedFromOutside
from experiments.runs.unit_runs import UnitRuns
from experiments.settings.config import ExperimentConfig
from experiments.tuning.search_space import Parameter

RANDOM_TRIALS = 6  # the recipe's values and random ones, before the sampler starts
SEARCHES = ("tpe", "random")
PRUNERS = ("median", "halving", "none")
CHOOSING = "choosing.lock"  # held by the process that chooses the next trial


@dataclasses.dataclass(frozen=True)
class SearchRules:
    """Rules that apply to every method of a search."""

    folds: int = 1  # number of first folds; a trial is trained once on each, and scores the mean of its validations
    search: str = "tpe"  # one of `SEARCHES`: a tree-structured Parzen estimator, or random search
    # one of `PRUNERS`: `median` ends a trial whose validation is below the finished trials' median at the same step;
    # `halving` one that is not among the best third so far, halfway on its first fold
    pruning: str = "median"
    seed: int = 0  # of the random draws


class Search:
    """The trials of one method.

    A trial's settings depend on the seed and on the trials finished before it. In one process, a killed and resumed
    search therefore runs the same trials as an uninterrupted one.
    """

    def __init__(
        self,
        config: ExperimentConfig,
        space: Mapping[str, Parameter],
        resolve: Callable[[Mapping[str, Any]], ExperimentConfig],
        runs: UnitRuns,
        rules: SearchRules,
        storage: Any,
    ):
        self.config, self.space, self.resolve, self.runs, self.rules = config, dict(space), resolve, runs, rules
        self.name = f"{config.name}-{self._hash()}"
        self.folder = search_folder(runs, config) / self.name
        self.folder.mkdir(parents=True, exist_ok=True)
        with hold_lock(self.folder / CHOOSING):
            self.study = optuna().create_study(
                study_name=f"{config.dataset}/{self.name}",
                storage=storage,
                direction="maximize",
                pruner=self._pruner(),
                load_if_exists=True,
            )

    def run(self, trials: int, checkpoint_seconds: float = 30.0) -> None:
        """Train until the search has `trials` trials, counting those in other processes."""
        while (taken := self._next(trials)) is not None:
            trial, lock = taken
            with contextlib.closing(lock):
                told = f"trial {trial.number} of {self.config.name}: {in_words(trial.params)}"
                write_notice(f"[{len(self.finished()) + 1}/{trials}] {told}")
                self._train(trial, checkpoint_seconds)

    def ranges(self) -> dict[str, dict[str, Any]]:
        """Return JSON values of the space, by setting."""
        return {name: parameter.as_dict() for name, parameter in self.space.items()}

    def finished(self) -> list[Any]:
        """Return Optuna's ended frozen trials, complete or pruned, by number."""
        return self.study.get_trials(deepcopy=False, states=_ended())

    def best(self) -> Any | None:
        """Return the best complete trial (the first of a tie), or None."""
        complete = [trial for trial in self.finished() if trial.value is not None and not was_pruned(trial)]
        return max(complete, key=lambda trial: (trial.value, -trial.number), default=None)

    def best_of_fold(self, trial: Any) -> float:
        """Return a trial's best validation on its first fold, 0 without any.

        Pruned trials have it, too.
        """
        values = trial.intermediate_values.items()
        return max((value for step, value in values if step <= self.config.max_steps), default=0.0)

    def _next(self, trials: int) -> tuple[Any, Any] | None:
        """Return a trial to train, abandoned or new, with its lock."""
        state = optuna().trial.TrialState
        with hold_lock(self.folder / CHOOSING):
            left_behind = 0
            for frozen in self.study.get_trials(deepcopy=False, states=(state.RUNNING,)):
                lock = take_trial(self.folder, frozen.number)
                if lock is None:
                    left_behind += 1
                elif frozen.params.keys() == self.space.keys():
                    return optuna().trial.Trial(self.study, frozen._trial_id), lock
                else:  # its process ended before it had settings
                    self.study.tell(frozen.number, state=state.FAIL)
                    lock.close()
            asked = len(self.finished()) + left_behind
            if asked >= trials:
                return None
            trial = self._ask(asked)
            return trial, take_trial(self.folder, trial.number)

    def _ask(self, asked: int) -> Any:
        self.study.sampler = self._sampler(asked)
        first = {name: getattr(self.config, name) for name in self.space}
        if asked == 0 and all(parameter.holds(first[name]) for name, parameter in self.space.items()):
            self.study.enqueue_trial(first, skip_if_exists=True)
        return self.study.ask({name: _distribution(parameter) for name, parameter in self.space.items()})

    def _train(self, trial: Any, checkpoint_seconds: float) -> None:
        """Train a trial on its folds and report its end to Optuna."""
        state = optuna().trial.TrialState
        try:
            config = self.resolve(trial.params)
            trial.set_user_attr("run", self.runs.method_dir(config).name)
            values = [self._validation(trial, config, fold, checkpoint_seconds) for fold in range(self.rules.folds)]
        except _Pruned:
            self.study.tell(trial, state=state.PRUNED)
        except InvalidInput as error:
            if not isinstance(error.__cause__, training.NotFinite):
                raise
            trial.set_user_attr("diverged", str(error.__cause__))
            self.study.tell(trial, state=state.PRUNED)
        else:
            self.study.tell(trial, float(np.mean(values)))

    def _validation(self, trial: Any, config: ExperimentConfig, fold: int, checkpoint_seconds: float) -> float:
        """Return a fold's best validation; report every evaluation, which may prune."""
        first_step = fold * config.max_steps

        def watch(step: int, metrics: Mapping[str, float]) -> None:
            if step > (config.selection_start or 0):
                self._report(trial, first_step + step, metrics[config.monitor])
                if (fold == 0 or self.rules.pruning != "halving") and trial.should_prune():
                    raise _Pruned

        self.runs.train(config, fold, 0, checkpoint_seconds, watch)
        path = self.runs.unit_dir(config, fold, 0)
        for step, value in _evaluations(path, config):  # of a run that finished earlier
            self._report(trial, first_step + step, value)
        return json.loads((path / "result.json").read_text(encoding="utf-8"))["validation"]["best"][config.monitor]

    def _report(self, trial: Any, step: int, value: float) -> None:
        """Report a step once; re-evaluated after a resume, it has equal value."""
        if step not in self.study.get_trials(deepcopy=False)[trial.number].intermediate_values:
            trial.report(value, step)

    def _sampler(self, asked: int) -> Any:
        seed = int.from_bytes(hashlib.sha256(f"{self.rules.seed}/{asked}".encode()).digest()[:4], "little")
        if self.rules.search == "random":
            return optuna().samplers.RandomSampler(seed=seed)
        return optuna().samplers.TPESampler(seed=seed, n_startup_trials=RANDOM_TRIALS, multivariate=True)

    def _pruner(self) -> Any:
        if self.rules.pruning == "none":
            return optuna().pruners.NopPruner()
        if self.rules.pruning == "halving":
            halfway = max(1, self.config.max_steps // 2)
            return optuna().pruners.SuccessiveHalvingPruner(min_resource=halfway, reduction_factor=3)
        warm_up = max(self.config.max_steps // 4, self.config.selection_start or 0)
        return optuna().pruners.MedianPruner(n_startup_trials=RANDOM_TRIALS - 1, n_warmup_steps=warm_up)

    def _hash(self) -> str:
        """Return ten digits that differ if trials are not comparable."""
        identity, space = self.config.identity(self.runs.fingerprint) | dict.fromkeys(self.space), self.ranges()
        text = json.dumps([identity, space, dataclasses.asdict(self.rules)], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:10]


def take_trial(folder: pathlib.Path, number: int) -> IO | None:
    """Return a trial's lock, held until closed; None if another process holds it."""
    file = open(folder / f"trial-{number}.lock", "w")  # noqa: SIM115  the caller closes it
    try:
        lock_file(file, wait=False)
    except BlockingIOError:
        file.close()
        return None
    return file


def in_words(settings: Mapping[str, Any]) -> str:
    """Format settings for the user, in their given order."""
    shown = {name: f"{value:.4g}" if isinstance(value, float) else str(value) for name, value in settings.items()}
    return ", ".join(f"{name} {value}" for name, value in shown.items())


class _Pruned(EndedFromOutside):
    """The pruner's signal to end the current trial."""


def search_folder(runs: UnitRuns, config: ExperimentConfig) -> pathlib.Path:
    """Return the folder of the searches on a data set."""
    return runs.runs_dir / "tune" / config.dataset


def was_pruned(trial: Any) -> bool:
    """Return whether a trial was ended before its last step."""
    return trial.state == optuna().trial.TrialState.PRUNED


def _ended() -> tuple[Any, ...]:
    state = optuna().trial.TrialState
    return state.COMPLETE, state.PRUNED


def _distribution(parameter: Parameter) -> Any:
    distributions = optuna().distributions
    if parameter.choices:
        return distributions.CategoricalDistribution(parameter.choices)
    kind = distributions.IntDistribution if parameter.kind is int else distributions.FloatDistribution
    return kind(parameter.low, parameter.high, log=parameter.log)


def _evaluations(path: pathlib.Path, config: ExperimentConfig) -> Iterator[tuple[int, float]]:
    """Yield step and monitored validation of a finished run's selectable evaluations."""
    for record in read_json_lines(path / "metrics.jsonl"):
        if record["step"] > (config.selection_start or 0):
            yield record["step"], record["validation"][config.monitor]


@functools.cache
def optuna() -> ModuleType:
    """Return the library with its logging silenced."""
    try:
        import optuna as library
    except ImportError as error:
        raise InvalidInput(
            "A search needs Optuna, which is not installed: "
            "pip install 'deep-metric-learning[tune]' (in a clone: '.[tune]')."
        ) from error
    library.logging.set_verbosity(library.logging.ERROR)
    return library


def open_storage(address: str) -> Any:
    """Open the storage at an address, such as `sqlite:///tune.db` or `postgresql://host/name`."""
    library = optuna()
    from sqlalchemy.exc import SQLAlchemyError

    try:
        return library.storages.RDBStorage(address)
    except (SQLAlchemyError, ImportError, ValueError) as error:
        raise invalid(
            "--storage",
            received=f"{address!r} ({first_line(error)})",
            expected="the address of a database, such as sqlite:///tune.db",
        ) from error
