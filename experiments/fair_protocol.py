"""The fair protocol: which units there are, and running those that are missing.

Reference: thesis section 3.3.2 (after Musgrave et al., "A metric learning reality check", 2020): the training classes
are cut into four folds, each model validates on one of them and trains on the rest, and is tested on unseen classes.
"""

from __future__ import annotations

import hashlib
import itertools
import pathlib

from common.data import Dataset
from common.ops.checks import invalid
from common.training import RunDirectory
from experiments import build
from experiments.config import ExperimentConfig
from experiments.fair_report import MethodReport, write_report
from experiments.reports import collect_method
from experiments.unit import Unit

PROTOCOL = "fair"


class FairProtocol:
    """All folds and repeats of some configurations on one data set.

    Args:
        dataset: as loaded.
        configs: configurations of the methods to compare, all on this data set.
        runs_dir: the folder for results.
        cache_dir: the folder for prepared images, or `None` for the default.
        repeats: trainings of each fold, with different seeds.
    """

    def __init__(
        self, dataset: Dataset, configs: list[ExperimentConfig], runs_dir: str, *, cache_dir: str | None, repeats: int
    ):
        self.dataset, self.configs, self.cache_dir, self.repeats = dataset, configs, cache_dir, repeats
        self.runs_dir = pathlib.Path(runs_dir)
        self.fingerprint = build.data_fingerprint(dataset)

    def method_dir(self, config: ExperimentConfig) -> pathlib.Path:
        """The folder of all units of one configuration; its name ends in the configuration's hash."""
        return self.runs_dir / PROTOCOL / config.dataset / f"{config.name}-{config.hash(self.fingerprint)}"

    def unit_dir(self, config: ExperimentConfig, fold: int, repeat: int) -> pathlib.Path:
        """The run directory of one unit."""
        return self.method_dir(config) / f"fold{fold}-repeat{repeat}"

    def units(self, fold: int | None = None, repeat: int | None = None) -> list[tuple[ExperimentConfig, int, int]]:
        """All (configuration, fold, repeat), or those of one fold or one repeat.

        Raises:
            InvalidInput: a fold or repeat that the protocol does not have.
        """
        num_folds = self.configs[0].num_folds
        _check_index("--fold", fold, num_folds)
        _check_index("--repeat", repeat, self.repeats)
        folds = range(num_folds) if fold is None else [fold]
        repeats = range(self.repeats) if repeat is None else [repeat]
        return [(config, k, r) for r, config, k in itertools.product(repeats, self.configs, folds)]

    def run(self, *, fold: int | None = None, repeat: int | None = None, checkpoint_seconds: float = 30.0) -> None:
        """Trains every unit that has no result yet; a unit that was stopped goes on from its last checkpoint."""
        for config, fold_index, repeat_index in self.units(fold, repeat):
            self.run_unit(config, fold_index, repeat_index, checkpoint_seconds)

    def run_unit(self, config: ExperimentConfig, fold: int, repeat: int, checkpoint_seconds: float = 30.0) -> None:
        """Trains one unit, unless it has a result; goes on from its last checkpoint."""
        identity = {**config.identity(self.fingerprint), "fold": fold, "repeat": repeat}
        run = RunDirectory(self.unit_dir(config, fold, repeat), identity)
        if run.read_result() is not None:
            return
        with run.locked():
            prepared = build.prepare_dataset(self.dataset, config, self.cache_dir)
            Unit(config, prepared, fold, repeat, run, config.hash(self.fingerprint)).train(checkpoint_seconds)

    def report(self) -> str:
        """Writes the table and the picture beside the runs; returns the text for the terminal."""
        methods = [
            MethodReport(config, collect_method(self.method_dir(config)), self.repeats) for config in self.configs
        ]
        names = "-".join(config.hash(self.fingerprint) for config in self.configs)
        digest = hashlib.sha256(names.encode()).hexdigest()[:10]
        folder = self.runs_dir / PROTOCOL / self.dataset.name / "reports" / digest
        title = f"Fair protocol on {self.dataset.name}: {self.configs[0].num_folds} folds, {self.repeats} repeat(s)"
        return write_report(methods, folder, title)


def _check_index(flag: str, value: int | None, count: int) -> None:
    if value is not None and not 0 <= value < count:
        raise invalid(flag, received=value, expected=f"a number from 0 to {count - 1}")
