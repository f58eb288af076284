"""Runs of commit 3812048 (before versions were counted) are found, read and taken for what they are.

`old_runs/` holds the text files of two of them; the embeddings and weights of a run are too large to be kept here.
"""

import pathlib
import shutil

import pytest

from common.errors import InvalidInput
from common.files import read_json
from common.records import RunDirectory
from experiments.recipes import resolve
from experiments.rows.run_folders import collect
from experiments.runs.trained_model import stored_configuration

RUNS = pathlib.Path(__file__).parent / "old_runs"
PLAIN = RUNS / "fair/glyphs/c2+gap-d094554b07/fold0-repeat0"
MEMORY = RUNS / "fair/glyphs/c1+xbm+gsp-3ce8cca48d/fold0-repeat0"


def test_the_same_command_finds_the_old_run_finished(tmp_path):
    stored = read_json(PLAIN / "config.json")
    config = resolve("glyphs", "c2", "gap", "thesis", "smoke", {})
    assert config.hash(stored["data"]) == "d094554b07"
    assert {**config.identity(stored["data"]), "fold": 0, "repeat": 0} == stored
    shutil.copytree(PLAIN, tmp_path / "run")
    assert RunDirectory(tmp_path / "run", stored).read_result()["test"]["MAP@R"] == 0.15668795679122283
    with pytest.raises(InvalidInput, match=r"config\.json|another configuration"):
        RunDirectory(tmp_path / "run", {**stored, "seed": 1})


def test_settings_that_have_other_names_now_are_read_by_them():
    stored = read_json(MEMORY / "config.json")
    config = stored_configuration(stored, MEMORY)
    assert (config.xbm_batches, config.xbm_start, config.xbm_holds_batch, config.gsp_memory_size) == (25, 4, False, 128)
    assert config.hash(stored["data"]) == "3ce8cca48d"


def test_reports_read_them():
    found = {rows[0]["method"]: rows for rows in collect(RUNS)}
    assert set(found) == {"c2+gap", "c1+xbm+gsp"}
    assert all(row.is_finished and row.problem is None for rows in found.values() for row in rows)
    assert found["c1+xbm+gsp"][0]["test"]["P@1"] == pytest.approx(0.408, abs=5e-5)
