"""Folders of a protocol's units, and training of the unfinished ones."""

from __future__ import annotations

import functools
import glob
import hashlib
import pathlib
from collections.abc import Iterable, Mapping
from typing import Any

from common import records, training
from common.commands.memory import spare_loaded_modules
from common.data import Dataset, count_test_copies
from common.errors import InvalidInput, raise_all
from common.files import DamagedFile, write_arrays, write_json
from common.progress import write_notice
from common.records import RunDirectory
from common.records.run_directory import TEST_EMBEDDINGS
from common.training.test_embeddings import read_test_embeddings
from common.training.trackers import JOURNAL, TENSORBOARD, RunDescription, TrackedRun, TrackerChoice
from experiments.rows.rows import check_of_one_run, evaluate_embeddings
from experiments.rows.run_folders import row_at
from experiments.runs.evaluation import embedded
from experiments.runs.start_checks import check_hours, check_plugins, check_unit
from experiments.runs.trained_model import load_trained_model, tell_of_other_data
from experiments.runs.unit import Unit, Watcher
from experiments.settings import build
from experiments.settings.config import ExperimentConfig
from experiments.settings.places import Places
from experiments.settings.splits import few_validation_classes, split_of, unit_label


class UnitRuns:
    """The run directories of units on one data set.

    Layout: `<runs_dir>/<protocol>/<data set>/<method>-<hash>/fold<k>-repeat<r>`.
    """

    def __init__(self, dataset: Dataset, places: Places, tracker: TrackerChoice = TENSORBOARD):
        self.dataset, self.places, self.tracker = dataset, places, tracker
        self.runs_dir, self.cache_dir = pathlib.Path(places.runs_dir), places.cache_dir

    @functools.cached_property
    def fingerprint(self) -> str:
        """The data's fingerprint; reads images, so check everything else before."""
        return build.data_fingerprint(self.dataset, self.cache_dir)

    def data_notes(self) -> list[str]:
        """Return notes on these data for readers, from digests kept by `fingerprint`."""
        copies = count_test_copies(self.dataset, build.image_cache(self.dataset, self.cache_dir))
        if not copies:
            return []
        return [f"{copies:,} test images have a byte-identical copy among those they search, which is found trivially."]

    @functools.cached_property
    def _traces(self) -> training.TracedFunctions:
        """Traces shared by the units that this process trains in turn."""
        return training.TracedFunctions()

    def method_dir(self, config: ExperimentConfig) -> pathlib.Path:
        """Return a configuration's folder, whose name ends in its hash."""
        return self._dataset_dir(config) / f"{config.name}-{config.hash(self.fingerprint)}"

    def _dataset_dir(self, config: ExperimentConfig) -> pathlib.Path:
        return self.runs_dir / (config.protocol or "fair") / config.dataset

    def unit_dir(self, config: ExperimentConfig, fold: int, repeat: int) -> pathlib.Path:
        """Return the run directory of one unit."""
        return self.method_dir(config) / f"fold{fold}-repeat{repeat}"

    def report_dir(self, configs: list[ExperimentConfig]) -> pathlib.Path:
        """Return the folder of a report on configurations of one protocol."""
        names = "-".join(config.hash(self.fingerprint) for config in configs)
        digest = hashlib.sha256(names.encode()).hexdigest()[:10]
        return self.runs_dir / (configs[0].protocol or "fair") / self.dataset.name / "reports" / digest

    def check(self, units: Iterable[tuple[ExperimentConfig, int, int]]) -> None:
        """Refuse units that cannot be trained, before reading images or making folders.

        Units that may have a result are skipped: `train` looks closer, and needs nothing for finished ones. With parts
        of plug-ins, which are edited between runs, only such a result counts that was made by their source. Warns if a
        unit validates on few classes.
        """
        missing: list[ExperimentConfig] = []
        num_validated: list[int] = []
        refused: dict[ExperimentConfig, InvalidInput] = {}  # of each configuration's first unit: others say the same
        for config, fold, repeat in units:
            folder = self._dataset_dir(config)
            name = self.method_dir(config).name if config.providers() else f"{glob.escape(config.name)}-*"
            if config in refused or any(folder.glob(f"{name}/fold{fold}-repeat{repeat}/result.json")):
                continue
            is_first = config not in missing
            missing.append(config)
            try:
                check_unit(config, self.dataset, fold, repeat)
                if is_first:
                    check_plugins(config, self.dataset, fold, repeat)
            except InvalidInput as error:
                refused[config] = error
            else:
                num_validated.append(split_of(self.dataset, config, fold, repeat).queries.num_classes)
        raise_all(refused.values())
        if not self.places.allow_cpu:
            check_hours(missing)
        if num_validated and (warning := few_validation_classes(min(num_validated))):
            write_notice(f"warning: a run here {warning}")

    def train(
        self,
        config: ExperimentConfig,
        fold: int,
        repeat: int,
        checkpoint_seconds: float = 30.0,
        watch: Watcher | None = None,
    ) -> None:
        """Train an unfinished unit, resuming from its last checkpoint.

        For a finished one, rebuild damaged files if possible. `watch`: see `common.training.fit`.
        """
        path = self.unit_dir(config, fold, repeat)
        if not (path / "result.json").exists():
            check_unit(config, self.dataset, fold, repeat)
        identity = {**config.identity(self.fingerprint), "fold": fold, "repeat": repeat}
        tell_of_other_data(path, identity)
        run = RunDirectory(path, identity)
        result = run.read_result()
        if result is not None:
            _mend(run, result, self.dataset, self.cache_dir)
            self.complete_tracking(config, fold, repeat, result)
            return
        spare_loaded_modules()
        with run.locked():
            if config.sources:
                write_json(path / "sources.json", dict(config.sources))
            try:
                prepared = build.prepare_dataset(self.dataset, config, self.cache_dir)
                unit = Unit(config, prepared, fold, repeat, run, self.fingerprint, self.places)
                unit.train(checkpoint_seconds, watch, self._tracked(config, fold, repeat), self._traces)
            except InvalidInput:  # a damaged image, or no room for features: nothing was begun
                run.remove_if_begun_only()
                raise
        row_at(path).scored()

    def complete_tracking(self, config: ExperimentConfig, fold: int, repeat: int, result: Mapping[str, Any]) -> None:
        """Send the tracker the missing parts of a finished, tracked unit."""
        if (self.unit_dir(config, fold, repeat) / JOURNAL).exists():
            self._tracked(config, fold, repeat).complete(result)

    def _tracked(self, config: ExperimentConfig, fold: int, repeat: int) -> TrackedRun:
        folder = self.unit_dir(config, fold, repeat)
        return tracked_unit(self.tracker, config, fold, repeat, folder, self.fingerprint)


def tracked_unit(
    choice: TrackerChoice, config: ExperimentConfig, fold: int, repeat: int, folder: pathlib.Path, data: str
) -> TrackedRun:
    """Return a unit's tracked run, grouped by method and configuration hash."""
    digest = config.hash(data)
    tags = {
        "commit": records.environment()["commit"] or "none",
        "data": data,
        "config": digest,
        "dataset": config.dataset,
        "protocol": config.protocol or "fair",
        "fold": str(fold),
        "repeat": str(repeat),
    }
    name = f"{config.name} {unit_label(config, fold, repeat)}"
    return choice.tracked(RunDescription(name, f"{config.name}-{digest}", config.as_dict(), tags), folder)


def follow_pictures(choice: TrackerChoice, folder: pathlib.Path, title: str) -> None:
    """Add a report's new pictures to its own tracked run."""
    if not choice.takes_pictures:
        return
    description = RunDescription(title, "reports", tags={"commit": records.environment()["commit"] or "none"})
    tracked = choice.tracked(description, folder)
    pictures = [path for path in sorted(folder.glob("*.png")) if tracked.lacks_picture(path)]
    if pictures:
        tracked.start()
        for path in pictures:
            tracked.picture(path)
        tracked.end()


def _mend(run: RunDirectory, result: dict, dataset: Dataset, cache_dir: str | None) -> None:
    """Recompute damaged test embeddings from the weights; warn of damaged weights.

    Only training can restore weights. The run's figures do not need them; attention pictures and other metric matrices
    do.

    Raises:
        InvalidInput: both files are lost, or the weights on disk do not give the figures of the result.
    """
    try:
        read_test_embeddings(run.path, cure="It is rebuilt from the weights.")
    except DamagedFile as error:
        write_notice(f"warning: {error}")
        with run.locked():
            trained = load_trained_model(run.path, dataset=dataset, cache_dir=cache_dir)
            arrays = embedded(trained.model, trained.inputs, trained.dataset.test, trained.dataset.gallery)
            check_of_one_run(run.path, "weights", evaluate_embeddings(arrays).as_dict(), result.get("test"))
            write_arrays(run.path / TEST_EMBEDDINGS, arrays)
        return
    try:
        run.read_weights()
    except DamagedFile as error:
        write_notice(f"warning: {error} All figures of the run are whole.")
