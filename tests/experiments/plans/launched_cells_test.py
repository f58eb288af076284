import pytest
from absl import flags

from common.errors import InvalidInput
from experiments.launch.unit_task import Failure
from experiments.plans.launched_cells import cell_tasks, fair_cells, launch_missing
from experiments.plans.study import Cell
from experiments.plans.study_command import define_study_flags
from experiments.plans.study_runs import StudyRuns
from experiments.settings.flags import unit_values
from experiments.settings.places import Places
from tests.command_line import without_flags
from tests.experiments.tiny_study import TinyStudy


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
        has_both = all(finished.unit(cell) is not None for cell in self.known[:2])
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
    first, second = cell_tasks(tiny.runs, cells, unit_values(flags.FLAGS), export_model=False)
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
