"""The table of generalisation gaps: means over finished runs, beside the printed gaps."""

import csv
import json

import pytest

from experiments.plans.study import StudyOptions
from experiments.studies.dissertation_tables import dissertation_tables

KEPT = {
    "disc": {"dim": 64, "training": 0.9, "test": 0.7},
    "shared": {"dim": 64, "training": 0.5, "test": 0.6},
    "features": {"dim": 1280, "training": 0.4, "test": 0.4},
}


@pytest.fixture
def study():
    return dissertation_tables()["milbich_3.6"](StudyOptions("cars196", "full", overrides={"trained_from": "head"}))


class WithRepresentations:
    """Finished cells whose representations were measured; those of odd folds have ten points more."""

    cache_dir = None

    def __init__(self, drawn, dataset):
        self._drawn, self.dataset = drawn, dataset

    def unit(self, cell):
        unit = self._drawn.unit(cell)
        if unit is not None:
            more = 0.1 * (cell.fold % 2)
            figures = {
                name: {**of, "training": of["training"] + more}
                for name, of in KEPT.items()
                if name != "shared" or "shared" in cell.config.loss
            }
            (unit.path / "generalization.json").write_text(json.dumps(figures))
        return unit


class Cars:
    name = "cars196"


def test_gaps_are_means_over_runs_with_the_printed_ones_beside(study, drawn_cells, tmp_path):
    text = study.render(WithRepresentations(drawn_cells(lambda cell: 0.5), Cars()), tmp_path, "item")
    assert "Generalisation gap: Milbich's dissertation, table 3.6" in text
    with open(tmp_path / "item_gap.csv", newline="") as file:
        rows = {(row["method"], row["representation"]): row for row in csv.DictReader(file)}
    assert len(rows) == 2 + 3 + 2
    margin, shared = "margin+distance+gap", "margin+distance+shared+gap"
    assert {name: row["printed gap (R@1)"] for name, row in rows.items()} == {
        (margin, "disc"): "-10.8",
        (margin, "features"): "-4.2",
        (shared, "disc"): "-5.8",
        (shared, "shared"): "+1.4",
        (shared, "features"): "-0.2",
        ("margin+distance+groups+gap", "disc"): "-",
        ("margin+distance+groups+gap", "features"): "-",
    }
    found = rows[shared, "shared"]
    assert (found["runs"], found["dim"]) == ("4", "64")
    assert (found["training P@1"], found["test P@1"], found["gap"]) == ("55.00", "60.00", "+5.00")


def test_without_finished_runs_there_is_the_table_alone(study, drawn_cells, tmp_path):
    first = study.cells(drawn_cells(lambda cell: None))[0]
    study.render(
        WithRepresentations(drawn_cells(lambda cell: 0.5 if cell == first else None), Cars()), tmp_path, "item"
    )
    assert not (tmp_path / "item_gap.csv").exists()  # trials of the row are missing, so it has no runs yet
