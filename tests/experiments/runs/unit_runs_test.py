import ctypes
import dataclasses
import gc
import re
import shutil
import weakref

import numpy as np
import pytest

from ccp_dml.method import Method
from common.commands.memory import spare_loaded_modules
from common.errors import InvalidInput
from common.files import read_json, write_json
from common.records import RunDirectory
from common.training.method import Attached
from common.training.test_embeddings import read_test_embeddings
from experiments.protocols.recording import record
from experiments.recipes import resolve
from experiments.rows.run_folders import collect_method
from experiments.rows.store import StudyRows
from experiments.runs import unit
from experiments.runs.trained_model import DataFolder
from experiments.runs.unit_runs import UnitRuns
from tests.experiments.deployment.small_runs import finish_untrained
from tests.experiments.tiny_study import OVERRIDES, TinyStudy
from tests.support.command_line import run_program

pytestmark = pytest.mark.usefixtures("tiny_network", "functions_run_eagerly")


@pytest.fixture
def study(tmp_path):
    return TinyStudy(tmp_path)


@pytest.fixture(scope="module")
def original(tiny_network, tmp_path_factory):
    """The folder of a study, the place in it of a finished run of an untrained network, and its configuration."""
    study = TinyStudy(tmp_path_factory.mktemp("original"))
    config = study.config("c2", "gap")
    path = finish_untrained(study, config)
    return study.folder, path.relative_to(study.folder), config


@pytest.fixture
def finished(original, study):
    """A copy of that folder, and its configuration."""
    folder, run, config = original
    shutil.copytree(folder, study.folder, dirs_exist_ok=True)
    return study.folder / run, config


def damage(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 8
    path.write_bytes(content)


@pytest.mark.parametrize("lose", [damage, lambda path: path.unlink()])
def test_test_embeddings_are_made_again_from_the_weights(study, finished, lose, capsys):
    path, config = finished
    before = read_test_embeddings(path)
    lose(path / "test_embeddings.npz")
    with pytest.raises(InvalidInput, match="Repeat the command that trained this run"):
        collect_method(path.parent)[0].test_embeddings()
    study.runs.train(config, 0, 0)
    assert re.search(r"test_embeddings\.npz .*\. It is rebuilt from the weights\.", capsys.readouterr().err)
    after = read_test_embeddings(path)
    assert after.keys() == before.keys()
    for name, array in before.items():
        np.testing.assert_allclose(after[name], array, atol=1e-6)
    study.runs.train(config, 0, 0)
    assert capsys.readouterr().err == ""


def test_families_of_the_data_come_into_the_row_and_the_study(study, tmp_path):
    families = study.dataset.test.labels // 2
    test = dataclasses.replace(study.dataset.test, families=families)
    study.dataset = dataclasses.replace(study.dataset, test=test)
    study.runs = UnitRuns(study.dataset, study.runs.places)
    config = study.config("c2", "gap")
    path = finish_untrained(study, config)
    (path / "test_embeddings.npz").unlink()
    study.runs.train(config, 0, 0)  # makes it again, as at the end of training
    rows = collect_method(path.parent)
    for _ in range(2):  # made, and read
        np.testing.assert_array_equal(rows[0].scored().families, np.unique(study.dataset.test.labels) // 2)
    record(rows, tmp_path / "study", DataFolder())
    recorded = StudyRows(tmp_path / "study")
    np.testing.assert_array_equal(recorded.rows[0].families, np.unique(families).repeat(2))


FAULTS = """
import resource
import numpy as np
from common.commands import memory

def faults_of_ten_arrays():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(10):
        np.ones(2**25, np.uint8)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

before = faults_of_ten_arrays()
memory.keep_freed_memory()
faults_of_ten_arrays()  # the first one is new memory
print(before, faults_of_ten_arrays())
"""


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallopt"), reason="the C library is not glibc")
def test_freed_memory_is_not_given_back_to_the_system():
    finished = run_program(["-c", FAULTS])  # in a process of its own, whose main thread has glibc's main arena
    before, after = map(int, finished.stdout.split())
    assert after < before / 5, finished.stderr


def test_a_unit_that_trains_keeps_freed_memory(study, monkeypatch):
    calls = []
    monkeypatch.setattr(unit, "keep_freed_memory", lambda: calls.append("kept"))
    study.runs.train(study.config("c2", "gap"), 0, 0)
    assert calls == ["kept"]


@pytest.mark.parametrize("lose", [damage, lambda path: path.unlink()])
def test_lost_weights_are_warned_of_with_the_cure_and_figures_stay(study, finished, lose, capsys):
    path, config = finished
    lose(path / "weights.npz")
    study.runs.train(config, 0, 0)
    shown = capsys.readouterr().err
    assert f"Delete {path} and repeat the command that trained this run: it trains it again" in shown
    assert "All figures of the run are whole" in shown
    assert collect_method(path.parent)[0].is_finished


def test_without_either_file_the_run_is_refused_with_the_cure(study, finished):
    path, config = finished
    damage(path / "weights.npz")
    damage(path / "test_embeddings.npz")
    with pytest.raises(InvalidInput, match=rf"weights\.npz cannot be read .*Delete {re.escape(str(path))} and repeat"):
        study.runs.train(config, 0, 0)


def test_weights_of_another_run_make_no_embeddings(study, finished):
    path, config = finished
    (path / "test_embeddings.npz").unlink()
    result = read_json(path / "result.json")
    write_json(path / "result.json", {**result, "test": {**result["test"], "P@1": result["test"]["P@1"] - 0.2}})
    with pytest.raises(InvalidInput, match="they are not of one run. Delete"):
        study.runs.train(config, 0, 0)
    assert not (path / "test_embeddings.npz").exists()


def test_a_run_that_another_process_works_on_is_left_to_it(study, finished):
    path, config = finished
    (path / "test_embeddings.npz").unlink()
    other = RunDirectory(path, read_json(path / "config.json"))
    with other.locked(), pytest.raises(InvalidInput, match="Another process is working"):
        study.runs.train(config, 0, 0)


class Node:
    """Something that only a collection can free, for it refers to itself."""

    def __init__(self):
        self.own = self


def test_what_exists_is_left_out_of_collections_once_and_garbage_is_collected():
    spare_loaded_modules.cache_clear()
    garbage = weakref.ref(Node())
    spare_loaded_modules()
    try:
        count = gc.get_freeze_count()
        assert count > 10_000
        kept = [Node() for _ in range(1000)]
        spare_loaded_modules()
        assert gc.get_freeze_count() <= count < count + len(kept)
        later = weakref.ref(Node())
        gc.collect()
        assert later() is None
    finally:
        gc.unfreeze()
        spare_loaded_modules.cache_clear()
    assert garbage() is None


def test_a_run_begins_with_the_network_of_another(study, monkeypatch):
    """The start of its fold and repeat; the rest of the loss, and the settings, are its own."""
    start = study.config("c2", "gap")
    path = finish_untrained(study, start)
    stored = RunDirectory(path, read_json(path / "config.json")).read_weights()
    weights = [np.full_like(weight, 0.01 * place) for place, weight in enumerate(stored)]
    np.savez(path / "weights.npz", **{f"{place:05d}": weight for place, weight in enumerate(weights)})
    begun = {}

    def train_in(run, seed, prepare, tracked):
        prepare()
        raise KeyboardInterrupt

    def attach(method, of_run):
        begun.update(network=[*of_run.model.backbone.weights, *of_run.model.head.weights], of_run=of_run)
        return Attached()

    monkeypatch.setattr(unit.training, "train_in", train_in)
    monkeypatch.setattr(Method, "attach", attach)
    values = {**OVERRIDES, "num_folds": 2, "start_from": str(path.parent)}
    config = resolve("glyphs", "ms", "gap", "thesis", "smoke", values, "ccp")
    with pytest.raises(KeyboardInterrupt):
        study.runs.train(config, 0, 0)
    for place, weight in enumerate(begun["network"]):
        np.testing.assert_array_equal(np.array(weight), weights[place])
    assert begun["of_run"].validated_before == pytest.approx([0.2, 0.3, 0.4])
    elsewhere = config.replace(start_from=f"/elsewhere/{path.parent.name}")
    assert elsewhere.hash("data") == config.hash("data") != config.replace(start_from=None).hash("data")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"fold": 1}, "--start_from: received '.*', expected a folder with a finished fold1-repeat0"),
        ({"embedding_dim": 4}, "received 'runs of embedding_dim 8', expected embedding_dim 4"),
    ],
)
def test_a_start_that_does_not_fit_is_refused_before_anything_else(study, finished, given, message):
    fold = given.get("fold", 0)
    others = {name: value for name, value in given.items() if name != "fold"}
    config = study.config("ms", "gap", start_from=str(finished[0].parent), **others)
    with pytest.raises(InvalidInput, match=message):
        study.runs.check([(config, fold, 0)])
