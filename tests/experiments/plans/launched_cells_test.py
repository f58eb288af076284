import shlex
import sys
from unittest import mock

import pytest
from absl import flags

from common.errors import InvalidInput
from common.training.trackers import TrackerChoice
from experiments.launch import launch_flags, local_workers, slurm_array
from experiments.launch.launch_flags import define_launch_flags
from experiments.launch.unit_task import Failure
from experiments.plans.launched_cells import cell_tasks, fair_cells, launch_missing, unit_command
from experiments.plans.study import Cell
from experiments.plans.study_command import define_study_flags
from experiments.plans.study_runs import StudyRuns
from experiments.recipes import resolve
from experiments.recipes.words import configurations_from_flags
from experiments.settings import flags as experiment_flags
from experiments.settings.flags import (
    METHODS_FLAGS,
    define,
    define_experiment_flags,
    define_run_flags,
    unit_values,
)
from experiments.settings.parts import all_settings
from experiments.settings.places import Places
from tests.experiments.tiny_study import TinyStudy
from tests.support.command_line import SMALL_PHOTOGRAPHS, run_here, without_flags


@pytest.fixture
def tiny(tmp_path):
    with without_flags():
        define_study_flags(["3.3"])
        flags.FLAGS(["table", f"--runs_dir={tmp_path}", "--checkpoint_seconds=7", "--decoded_images_mb=9"])
        yield TinyStudy(tmp_path)


class Search:
    """Two cells at first; a third follows from their results."""

    def __init__(self, config):
        self.known = [Cell(f"cell {fold}", config, fold, repeat) for repeat in range(2) for fold in range(2)][:3]

    def cells(self, finished):
        has_both = all(finished.row(cell) is not None for cell in self.known[:2])
        return self.known if has_both else self.known[:2]


class FinishingLauncher:
    """Finishes every task but those of a label."""

    def __init__(self, tiny, config, failing=None, silent=None):
        self.tiny, self.config, self.failing, self.silent, self.calls = tiny, config, failing, silent, []

    def run(self, tasks):
        self.calls.append([task.label for task in tasks])
        for task in tasks:
            if task.label not in (self.failing, self.silent):
                fold, repeat = (int(part[-1]) for part in task.folder.name.split("-"))
                assert self.tiny.finish(self.config, fold, repeat) == task.folder
        return [Failure(task, "no", task.folder) for task in tasks if task.label == self.failing]


def study_of(tiny):
    config = tiny.config("pnca", "gap")
    return config, Search(config), StudyRuns(tiny.dataset, Places(str(tiny.folder)))


def test_a_cell_is_the_command_that_trains_it_and_its_folder(tiny):
    config = tiny.config("pnca", "gap")
    cells = fair_cells([(config, 1, 0), (config, 1, 1), (config, 1, 0)])
    first, second = cell_tasks(tiny.runs.unit_dir, cells, unit_values(flags.FLAGS), export_model=False)
    assert first.label == "pnca+gap fold 1 repeat 0"
    assert first.folder == tiny.runs.unit_dir(config, 1, 0)
    assert first.arguments[:2] == ("-m", "experiments.fair_eval")
    expected = {"--fold=1", "--repeat=0", f"--runs_dir={tiny.folder}", "--checkpoint_seconds=7.0", "--noexport_model"}
    expected |= {"--decoded_images_mb=9"}
    assert expected <= set(first.arguments)
    assert {"--repeat=1", "--repeats=2"} <= set(second.arguments)
    assert not any(argument.startswith(("--launch", "--data_dir", "--record")) for argument in first.arguments)


def test_a_search_is_asked_again_after_what_was_known(tiny):
    config, study, runs = study_of(tiny)
    launcher = FinishingLauncher(tiny, config)
    assert launch_missing(study, runs, launcher, None, {}) == []
    assert launcher.calls == [["cell 0", "cell 1"], ["cell 0"]]


@pytest.mark.parametrize(("max_cells", "calls"), [(1, [["cell 0"]]), (2, [["cell 0", "cell 1"]])])
def test_no_more_cells_than_allowed(max_cells, calls, tiny):
    config, study, runs = study_of(tiny)
    launcher = FinishingLauncher(tiny, config)
    launch_missing(study, runs, launcher, max_cells, {})
    assert launcher.calls == calls


def test_a_failed_cell_is_tried_once_and_given_back(tiny):
    config, study, runs = study_of(tiny)
    launcher = FinishingLauncher(tiny, config, failing="cell 1")
    assert [failure.task.label for failure in launch_missing(study, runs, launcher, None, {})] == ["cell 1"]
    assert launcher.calls == [["cell 0", "cell 1"]]


def test_a_unit_that_says_nothing_and_leaves_nothing_is_an_error(tiny):
    config, study, runs = study_of(tiny)
    with pytest.raises(InvalidInput, match="left no result"):
        launch_missing(study, runs, FinishingLauncher(tiny, config, silent="cell 1"), None, {})


PLUGIN = """
from common.pooling import GlobalAveragePooling

def register(registry):
    registry.pooling("mine", GlobalAveragePooling)
"""
# Of the command that launches: which units there are, what becomes of their results, and how they are started.
OF_THE_LAUNCH = {"methods", "fold", "repeat", "repeats", "report_only", "details", "explain", "record", "replace"}
OF_THE_LAUNCH |= {"launch", *launch_flags.READ_BY}
OF_UNITS = {
    "checkpoint_seconds": "7.0",
    "decoded_images_mb": "9",
    "allow_cpu": True,
    "deterministic": True,
    "export_model": False,
    "tracker": "mlflow",
    "tracker_uri": "http://localhost:5000",
    "tracker_project": "mine",
}


class Launched(Exception):
    """Ends a launch that would begin."""


@pytest.mark.parametrize(
    ("launch", "module", "starts"),
    [("local", local_workers.worker_process, "start_worker"), ("slurm", slurm_array, "submit")],
)
def test_a_started_unit_gets_every_flag_that_it_needs(launch, module, starts, image_folder, tmp_path, monkeypatch):
    plugin = tmp_path / f"plugin_for_{launch}.py"
    plugin.write_text(PLUGIN)
    places = {"data_dir": image_folder, "cache_dir": tmp_path / "cache", "runs_dir": tmp_path / "runs"}
    given = OF_UNITS | {name: str(place) for name, place in places.items()} | {"plugin": str(plugin)}
    started, defined = [], []

    def start(*arguments, **_):
        started.append(arguments[0] if launch == "local" else arguments[0][0].arguments)
        defined.extend(flag.name for flag in flags.FLAGS.get_key_flags_for_module(sys.argv[0]))
        raise Launched

    monkeypatch.setattr(module, starts, start)
    monkeypatch.setattr(launch_flags, "check_slurm", lambda: None)
    monkeypatch.setattr(slurm_array, "queued_jobs", lambda name: {})
    monkeypatch.setattr(TrackerChoice, "check", lambda self: None)
    monkeypatch.setattr(experiment_flags, "import_tensorflow", mock.MagicMock())  # it would stay deterministic
    with pytest.raises(Launched):
        run_here(
            "experiments.fair_eval",
            *SMALL_PHOTOGRAPHS,
            *(f"--{'' if value else 'no'}{name}" for name, value in given.items() if isinstance(value, bool)),
            *(f"--{name}={value}" for name, value in given.items() if not isinstance(value, bool)),
            "--methods=c2+mine",
            f"--launch={launch}",
        )
    settings = {each.name for each in all_settings()} | {"mine_data_format"}  # of the plug-in
    dotted = {name for name in defined if "." in name}  # other names of settings
    assert {*defined} - settings - dotted - OF_THE_LAUNCH == given.keys(), "a new flag: do units need it?"
    expected = {f"--{name}={value}" for name, value in given.items() if not isinstance(value, bool)}
    expected |= {f"--{'' if value else 'no'}{name}" for name, value in given.items() if isinstance(value, bool)}
    assert expected - {*started[0]} == set()


@pytest.mark.parametrize("loss", ["c2", "margin+distance+rho+xbm", "pnca", "margin+distance+shared", "c2+s2sd"])
def test_a_unit_gets_every_setting_that_is_not_the_recipes(loss):
    method, pooling = ("ccp", "gsp") if loss == "c2" else ("plain", "gap")
    recipe = resolve("glyphs", loss, pooling, "thesis", "full", {}, method)
    tried = 0
    for name, value in recipe.as_dict().items():
        if name in experiment_flags.METHOD_FIELDS or not isinstance(value, (bool, int, float)):
            continue
        changed = not value if isinstance(value, bool) else value * 2 + 1
        try:
            config = resolve("glyphs", loss, pooling, "thesis", "full", {name: changed}, method)
        except InvalidInput:
            continue  # another one would have to change as well
        tried += 1
        flag = f"--{'' if changed else 'no'}{name}" if isinstance(value, bool) else f"--{name}={changed}"
        assert flag in unit_command(Cell("one", config, 0, 0)).split()
    assert tried > 20


def own_configurations(monkeypatch, arguments, *, has_gpu):
    """The configurations of `fair_eval` with these arguments, on a machine with or without a GPU."""
    monkeypatch.setattr("experiments.recipes.words.sees_gpu", lambda: has_gpu)
    with without_flags():
        define_experiment_flags()
        define_run_flags()
        define(*METHODS_FLAGS, "export_model")
        define_launch_flags()
        flags.FLAGS(["fair_eval", *arguments])
        return configurations_from_flags(flags.FLAGS)


@pytest.mark.parametrize("has_gpu", [True, False])
@pytest.mark.parametrize("given", [[], ["--loss=pnca"], ["--weights=none"], ["--lora_rank=4"]])
def test_a_unit_trains_what_its_launch_decided_whether_or_not_it_sees_a_gpu(
    given, has_gpu, image_folder, tmp_path, monkeypatch
):
    network = ["--backbone=vit_mini_8", "--weights=none"] if given == ["--lora_rank=4"] else []
    arguments = ["--dataset=folder", f"--data_dir={image_folder}", *network, "--budget=smoke", *given]
    (config,) = own_configurations(monkeypatch, arguments, has_gpu=has_gpu)
    command = shlex.split(unit_command(Cell("a unit", config, 1, 0), {"data_dir": str(image_folder)}))
    (of_unit,) = own_configurations(monkeypatch, command[3:], has_gpu=not has_gpu)
    assert of_unit.hash("data") == config.hash("data")


@pytest.mark.parametrize(
    ("given", "has_gpu", "trained_from"),
    [
        ([], False, "head"),
        ([], True, None),
        (["--trained_from=everything"], False, None),
        (["--trained_from=features.17"], False, "features.17"),
        (["--weights=none"], False, None),
        (["--recipe=thesis"], False, None),
        (["--frozen_backbone"], False, None),
        (["--launch=slurm"], False, None),
        (["--launch=slurm", "--gpus=0"], False, "head"),
        (["--launch=local"], False, "head"),
    ],
)
def test_own_photos_train_the_head_alone_without_a_gpu(given, has_gpu, trained_from, image_folder, monkeypatch, capsys):
    arguments = ["--dataset=folder", f"--data_dir={image_folder}", "--backbone=efficientnet_lite0", *given]
    (config,) = own_configurations(monkeypatch, arguments, has_gpu=has_gpu)
    assert config.trained_from == trained_from
    said = capsys.readouterr().err.count("no GPU is seen: only the head")
    assert said == (trained_from == "head")
