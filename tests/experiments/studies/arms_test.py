import json
import pathlib

import pytest

from experiments.plans.study import StudyOptions
from experiments.plans.study_runs import NothingFinished, StudyRuns
from experiments.studies.arms import Arms


def known(study, finished):
    """The rows whose cells are known, and in how many settings."""
    cells = study.cells(finished)
    found = {}
    for cell in cells:
        found.setdefault(cell.label.split(" (")[0], set()).add(cell.config)
    assert len(set(cells)) == len(cells)
    return {label: len(configs) for label, configs in found.items()}


@pytest.fixture
def prepared(monkeypatch):
    """The study of C2 with the tuned settings of a file, once the data are known."""

    def prepare(recipe):
        runs = object.__new__(StudyRuns)
        monkeypatch.setattr(StudyRuns, "unit_dir", lambda _, config, *place: pathlib.Path(f"runs/{config.name}/fold0"))
        return Arms(StudyOptions("emoji", "full", recipe, losses=("c2",))).prepared(runs, train=True)

    return prepare


def test_arms_begin_with_the_start_and_parts_are_left_out_of_the_chosen_ccp(prepared, drawn_cells, tmp_path):
    own = {"learning_rate": 3e-4, "negative_margin": 0.7}
    recipe = tmp_path / "tuned.json"
    recipe.write_text(json.dumps({"kind": "tuned recipe", "recipe": "thesis", "methods": {"c2+gap": own}}))
    study = prepared(str(recipe))
    assert known(study, NothingFinished()) == {"c2+gap, start": 1}
    started = drawn_cells(lambda cell: 0.4 if cell.config.start_from is None else None)
    assert known(study, started) == {"c2+gap, start": 1, "c2+gap": 2, "c2+ccp+gap": 2}

    done = drawn_cells(lambda cell: 0.5 if cell.config.learning_rate < 5e-5 else 0.4)
    parts = ("one problem", "random members", "without the proximal term")
    assert known(study, done).keys() == {
        "c2+gap, start",
        "c2+gap",
        "c2+ccp+gap",
        *(f"c2+ccp+gap, {of}" for of in parts),
    }
    cells = study.cells(done)
    assert len(cells) == study.num_cells == 8 * 4
    arms = [cell.config for cell in cells if cell.config.start_from is not None]
    assert {(each.start_from, each.negative_margin) for each in arms} == {("runs/c2+gap", 0.7)}
    for method in ("plain", "ccp"):
        rates = {each.learning_rate for each in arms if each.method == method}
        assert sorted(rates) == pytest.approx([1e-4 / 3, 1e-4])
    of_ccp = [each for each in arms if each.method == "ccp"]
    chosen = {study_label(each) for each in of_ccp if each.learning_rate < 5e-5}
    assert chosen == {(None, 6, 2e-4), (1, 6, 2e-4), (None, 4, 2e-4), (None, 6, 0.0)}
    assert {study_label(each) for each in of_ccp if each.learning_rate > 5e-5} == {(None, 6, 2e-4)}


def study_label(config):
    """What distinguishes CCP from CCP without a part."""
    return config.ccp_max_problems, config.pool_size, config.ccp_lambda
