"""Rehearsal of a table: time, memory and disk of every stage."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import math
import os
import pathlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from ccp_dml import AlternatingProjections
from common import data, training
from common.data import Dataset, Examples
from common.errors import check_given
from common.files import read_json, write_json
from common.progress import write_notice
from common.records import RunDirectory
from common.records.run_directory import RESULT
from common.training import PolicyAdaptedSampling, Training
from common.training.test_embeddings import read_test_embeddings
from experiments.launch.local_workers import peak_memory
from experiments.preparation.data_sets import load, report, write_manifest
from experiments.preparation.official_images import make_official_images
from experiments.protocols.fair import FairProtocol
from experiments.reports.plain_tables import PlainTable
from experiments.runs.cost import duration, estimated_seconds, rate_of_steps
from experiments.runs.evaluation_inputs import EvaluationInputs
from experiments.runs.start_checks import check_configurations
from experiments.runs.unit import Unit
from experiments.runs.unit_runs import UnitRuns
from experiments.runs.update_rule import update_rule
from experiments.settings import build
from experiments.settings.config import ExperimentConfig
from experiments.settings.places import Places
from experiments.settings.recipes import resolve

Returned = TypeVar("Returned")
COPIES, EMBEDDING, STEPS = "copies", "embedding", "steps"  # kinds of work that depend on the size of images
RUN = "network, steps, result"  # of a run, beside the stages in it
NUM_TIMED, _TIMED_STEPS, _WARM_UP_STEPS = 500, 3, 2
_MEMORY_SHARE = 0.5  # of a run's training images
_NOISE = 0.1  # of the embeddings that stand in for other folds


class Stages:
    """Clock of named stages, each without the stages inside it; kept in `stages.json`.

    Stages inside others add up when they are entered again, also by a later process. The folder's disk use is measured.
    """

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder, self._file = folder, folder / "stages.json"
        stored = (read_json(self._file) or {}).get("stages", [])
        self.figures: dict[str, dict[str, Any]] = dict(stored)  # in their order
        self._open: list[str] = []
        self._since, self._disk = 0.0, 0

    def begin(self, name: str, images: int = 0, kind: str = "") -> None:
        """Enter a stage that passes over `images`; `kind` is COPIES, EMBEDDING or empty."""
        if self._open:
            self._add_up()
        else:
            self._disk = _disk_use(self.folder)
            write_notice(f"rehearsal: {name}")
        if not self._open or name not in self.figures:
            self.figures[name] = {"seconds": 0.0, "peak": 0, "disk": None, "images": 0, "kind": kind}
        self.figures[name]["images"] += images
        self._open.append(name)
        self._restart()

    def end(self, name: str) -> None:
        """Leave a stage if it is the innermost one."""
        if self._open[-1:] != [name]:
            return
        self._add_up()
        self._open.pop()
        if not self._open:
            self.figures[name]["disk"] = max(0, _disk_use(self.folder) - self._disk)
        write_json(self._file, {"stages": [*self.figures.items()]})
        self._restart()

    @contextlib.contextmanager
    def stage(self, name: str, images: int = 0, kind: str = "") -> Iterator[None]:
        """Enter a stage for a `with` block."""
        self.begin(name, images, kind)
        yield
        self.end(name)

    def once(self, function: Callable[[], object], name: str, images: int = 0, kind: str = "") -> None:
        """Call a function as a stage, unless an earlier process has."""
        if self.figures.get(name, {}).get("disk") is None:
            self.timed(function, name, images, kind)()

    def timed(
        self, function: Callable[..., Returned], name: str, images: int = 0, kind: str = EMBEDDING
    ) -> Callable[..., Returned]:
        """Return a function whose calls are a stage."""

        def call(*arguments: Any) -> Returned:
            with self.stage(name, images, kind):
                return function(*arguments)

        return call

    def _add_up(self) -> None:
        figures = self.figures[self._open[-1]]
        figures["seconds"] += time.perf_counter() - self._since
        figures["peak"] = max(figures["peak"], peak_memory(os.getpid()))

    def _restart(self) -> None:
        with contextlib.suppress(OSError), open("/proc/self/clear_refs", "w") as file:
            file.write("5")  # Linux: the peak of memory starts again from here
        self._since = time.perf_counter()


class _Unit(Unit):
    """Trainer whose stages are measured."""

    def __init__(self, *arguments: Any, stages: Stages) -> None:
        super().__init__(*arguments)
        self.stages = stages

    def _prepared(self, *arguments: Any) -> Training:
        stages, name, queries = self.stages, self.config.name, _count(self.queries, self.gallery)
        tested = _count(self.dataset.test, self.dataset.gallery)
        with stages.stage(f"{name}: first 10 batches"):
            for _ in self._batches_from(0).take(10):
                pass
        with stages.stage(f"{name}: untrained features", tested + len(self.training), EMBEDDING):
            prepared = super()._prepared(*arguments)
        for callback in prepared.callbacks:
            if isinstance(callback, AlternatingProjections):
                self._measure_problems(callback)
            elif isinstance(callback, PolicyAdaptedSampling):
                callback.measure = stages.timed(callback.measure, f"{name}: PADS' decisions", _count(self.watched))
        warm_up = f"{name}: warm-up"

        def batches_from(step: int):  # noqa: ANN202
            stages.end(warm_up)
            if prepared.schedule.warm_up_steps and step == 0:
                stages.begin(warm_up)
            return prepared.batches_from(step)

        evaluate = stages.timed(prepared.evaluate, f"{name}: validations", queries)
        figures = stages.timed(prepared.figures, f"{name}: test", tested)
        return dataclasses.replace(prepared, batches_from=batches_from, evaluate=evaluate, figures=figures)

    def _measure_problems(self, projections: AlternatingProjections) -> None:
        name = f"{self.config.name}: pools, k-center"
        pools, started = projections.embed_pools, projections.on_problem_start
        images = self.training.num_classes * self.config.pool_size

        def embed_pools(problem: int) -> np.ndarray:
            self.stages.begin(name, images, EMBEDDING)
            return pools(problem)

        def on_problem_start(*found: Any) -> None:
            self.stages.end(name)
            if started is not None:
                started(*found)

        projections.embed_pools, projections.on_problem_start = embed_pools, on_problem_start


@dataclasses.dataclass(frozen=True)
class Rehearsal:
    """A data set's stages at a share of its size, below one folder."""

    name: str  # of the data set, one of `official_images.LAYOUTS`
    scale: float
    folder: pathlib.Path  # of data, copies, runs and figures; the same rehearsal resumes there
    backbone: str | None = None  # of the runs; None: the recipe's
    # whether passes over a whole set see images of the recipe's size instead of 64 pixels
    passes_at_full_size: bool = False

    def run(self) -> Stages:
        """Go through all stages; finished images and runs of an earlier call are kept."""
        self.folder.mkdir(parents=True, exist_ok=True)
        stages, data_dir, cache_dir = Stages(self.folder), str(self.folder / "data"), str(self.folder / "cache")
        places = Places(str(self.folder / "runs"), cache_dir, data_dir, allow_cpu=True)
        config = self.config("c2", full_size=self.passes_at_full_size)
        check_configurations([config])
        stages.once(lambda: make_official_images(self.name, data_dir, self.scale), "synthetic images")
        dataset = load(self.name, data_dir, cache_dir)
        stages.once(lambda: write_manifest(report(dataset), (), data_dir), "layout check, manifest")
        num_images = sum(len(examples) for _, examples in data.parts_of(dataset))
        stages.once(lambda: build.prepare_dataset(dataset, config, cache_dir), "copies", num_images, COPIES)
        self._train(dataset, places, stages)
        if _timed(STEPS, True) not in stages.figures:
            for full_size in (True,) if self.passes_at_full_size else (False, True):
                self._time(dataset, stages, full_size)
        return stages

    def config(self, loss: str, method: str = "plain", *, full_size: bool, **settings: Any) -> ExperimentConfig:
        """Return the configuration of a few steps with random weights."""
        given = {"weights": "none", **settings, **({"backbone": self.backbone} if self.backbone else {})}
        config = resolve(self.name, loss, "gap", "thesis", "smoke", given, method)
        if not full_size:
            return config
        return config.replace(image_size=resolve(self.name, loss, "gap", "thesis", "full", given, method).image_size)

    def _train(self, dataset: Dataset, places: Places, stages: Stages) -> None:
        """Train runs with CCP and with memory and PADS; report the first."""
        full_size = self.passes_at_full_size
        projected = self.config("c2", "ccp", full_size=full_size, warm_up_steps=_WARM_UP_STEPS)
        num_training = len(dataset.train) * (1 - 1 / projected.num_folds)
        batches = math.ceil(_MEMORY_SHARE * num_training / projected.batch_size)
        adapted = self.config("margin+pads+xbm", full_size=full_size, xbm_batches=batches)
        protocol = FairProtocol(dataset, [projected, adapted], places, repeats=1)
        runs = protocol.runs
        runs.trainer = functools.partial(_Unit, stages=stages)
        for config in protocol.configs:
            stages.once(functools.partial(runs.train, config, 0, 0), f"{config.name}: {RUN}")
        _stand_in(runs, projected)
        size = projected.num_folds * projected.embedding_dim
        stages.once(lambda: protocol.report(protocol.methods()), f"{size}-D, report")

    def _time(self, dataset: Dataset, stages: Stages, full_size: bool) -> None:
        """Measure copies, embedding and, at full size, steps with a few images."""
        config, cache_dir = self.config("c2", full_size=full_size), str(self.folder / "timed")
        places = np.arange(len(dataset.train)) - np.searchsorted(dataset.train.labels, dataset.train.labels)
        chosen = dataset.train.subset(np.flatnonzero(places < config.samples_per_class)[:NUM_TIMED])
        timed = dataclasses.replace(dataset, train=chosen, test=chosen, gallery=None)
        with stages.stage(_timed(COPIES, full_size), len(chosen)):
            timed = build.prepare_dataset(timed, config, cache_dir)
        with training.training_session(0):
            model = build.build_model(config, timed, chosen.num_classes, 0, len(chosen))
            augmentation = build.build_augmentation(config, timed)
            batches = data.training_batches(timed.train, build.build_batches(config, chosen.labels, 0), augmentation, 0)
            model.build_from_batch(*next(iter(batches)))
            inputs = EvaluationInputs(config, timed)(timed.train)
            model.embed(inputs)  # traces
            with stages.stage(_timed(EMBEDDING, full_size), len(chosen)):
                model.embed(inputs)
            if full_size:
                model.compile_training(update_rule(config, model))
                model.fit(batches, steps_per_epoch=1, shuffle=False, verbose=0)  # traces
                with stages.stage(_timed(STEPS, full_size), _TIMED_STEPS * config.batch_size):
                    model.fit(batches, steps_per_epoch=_TIMED_STEPS, shuffle=False, verbose=0)


def describe(stages: Stages, title: str, cells: Sequence[ExperimentConfig], step_seconds: float | None) -> str:
    """Return the stages and a whole table's cost as text of 100 columns.

    The cells are the table's runs at full budget. Without `step_seconds`, a training step at full size takes as long as
    measured.
    """
    found = stages.figures
    extra = {kind: _more_seconds(found, kind) for kind in (COPIES, EMBEDDING)}
    rows, at_full_size = [], 0.0
    for name, figures in found.items():
        more = figures["images"] * extra.get(figures["kind"], 0.0)
        at_full_size += figures["seconds"] + more
        images = f"{figures['images']:,}" if figures["images"] else ""
        rows.append((name, images, *_shown(figures), duration(figures["seconds"] + more) + "*" * bool(more)))
    whole = {name: sum(figures[name] or 0 for figures in found.values()) for name in ("seconds", "disk")}
    whole["peak"] = max(figures["peak"] for figures in found.values())
    rows.append(("all", "", *_shown(whole), duration(at_full_size)))
    measured = found[_timed(STEPS, True)]["seconds"] / _TIMED_STEPS
    costs = [estimated_seconds(config, rate_of_steps(config, step_seconds or measured)) for config in cells]
    run = max(figures["disk"] or 0 for name, figures in found.items() if name.endswith(RUN))
    notes = [
        f"*: extrapolated from {found[_timed(EMBEDDING, True)]['images']} images, {_TIMED_STEPS} steps at full size.",
        f"A step at full size takes {measured:.3g} s here. Table 5.1 of the official data (estimated):"
        f" {len(cells)} runs at {step_seconds or measured:.3g} s a step, {duration(sum(costs) / len(costs))} each,"
        f" {sum(costs) / 86400:,.0f} days on one device; {len(cells) * run / 1e9:,.1f} GB of runs as large as these.",
    ]
    header = ("stage", "images", "time", "peak memory", "disk", "at full size")
    return PlainTable(title, header, rows, notes).as_text()


def _shown(figures: Mapping[str, Any]) -> tuple[str, str, str]:
    disk = "" if figures["disk"] is None else f"{figures['disk'] / 1e6:,.0f} MB"
    peak = f"{figures['peak'] / 1e9:.2f} GB" if figures["peak"] else "unknown"
    return duration(figures["seconds"]), peak, disk


def _more_seconds(found: Mapping[str, Mapping[str, Any]], kind: str) -> float:
    """Return the further seconds of an image at full size."""
    small, full = found.get(_timed(kind, False)), found[_timed(kind, True)]
    return 0.0 if small is None else max(0.0, full["seconds"] - small["seconds"]) / full["images"]


def _timed(kind: str, full_size: bool) -> str:
    return f"timed {kind}, {'full' if full_size else 'small'} size"


def _stand_in(runs: UnitRuns, config: ExperimentConfig) -> None:
    """Give the other folds the first one's result, with noise on its embeddings."""
    first = runs.unit_dir(config, 0, 0)
    result, embeddings = read_json(first / RESULT), read_test_embeddings(first)
    for fold in range(1, config.num_folds):
        folder = runs.unit_dir(config, fold, 0)
        run = RunDirectory(folder, {**config.identity(runs.fingerprint), "fold": fold, "repeat": 0})
        if run.read_result() is None:
            draw = np.random.default_rng(fold)
            noisy = {
                name: array + _NOISE * draw.standard_normal(array.shape, np.float32) if array.ndim == 2 else array
                for name, array in embeddings.items()
            }
            run.write_result({**check_given("result", result), "fold": fold}, noisy, [])


def _count(*parts: Examples | None) -> int:
    return sum(len(part) for part in parts if part is not None)


def _disk_use(folder: pathlib.Path) -> int:
    """Return the bytes that a folder's files occupy on the disk."""
    found = 0
    for place, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):
                found += os.lstat(os.path.join(place, name)).st_blocks * 512
    return found
