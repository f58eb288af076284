import numpy as np
import pytest

from experiments import reports
from experiments.plans.fair_table import FairTable
from experiments.plans.study import StudyOptions
from experiments.plans.study_runs import NothingFinished
from experiments.published.values import dissertation_value, published_table
from experiments.settings.build import feature_sizes_of
from experiments.studies.dissertation_tables import VARIANT, dissertation_tables
from experiments.studies.tables import FULL_REPEATS, TABLES

STUDIES = dissertation_tables()


def options(budget="full", **others):
    return StudyOptions(**{"dataset": "cars196", "budget": budget, **others})


def configurations(study):
    return {cell.config for cell in study.cells(NothingFinished())}


@pytest.mark.parametrize("name", STUDIES)
def test_rows_have_one_size_and_are_printed(name):
    assert name in TABLES
    assert FULL_REPEATS[name] == 3
    study = STUDIES[name](options())
    assert {(of.chapter, of.normalization, of.embedding_dim) for of in configurations(study)} == {(5, "unit", 128)}
    printed = {row["method"] for row in published_table(name)}
    labels = [row.printed for row in study.rows.values() if row.printed]
    assert labels
    assert {*labels} <= printed
    assert len({*labels}) == len(labels)
    assert all(row.baseline in (None, *study.rows) for row in study.rows.values())
    assert STUDIES[name](options(budget="smoke")).num_cells < study.num_cells


def test_table_4_2_has_every_subset_of_the_tasks_once():
    study = STUDIES["milbich_4.2"](options())
    sizes = [feature_sizes_of(of) for of in configurations(study)]
    assert sorted(len(size) if size else 1 for size in sizes) == [1, 2, 2, 2, 3, 3, 3, 4]
    assert {sum(size) for size in sizes if size} == {128}


def test_the_recipe_holds_and_printed_figures_never_give_a_verdict(drawn_cells, tmp_path):
    study = STUDIES["milbich_3.8"](options(budget="demo"))
    assert isinstance(study, FairTable)
    assert study.num_cells == 5 * 4
    turns = [cell.config for cell in study.cells(NothingFinished()) if cell.config.feature_schedule == "in_turn"]
    alone = study.cells(NothingFinished())[0].config
    assert {config.max_steps for config in turns} == {2 * alone.max_steps}  # as the recipe has it
    assert {config.steps_per_evaluation for config in turns} == {2 * alone.steps_per_evaluation}
    study.render(drawn_cells(lambda cell: 0.5), tmp_path, "item")
    written = (tmp_path / "item.md").read_text()
    assert "thesis chapter" not in study.protocol
    for reason in ("protocol is fair, the table's is conventional", "the table's is 256", "87.0"):
        assert reason in written
    published = dissertation_value("milbich_4.2", "cub200", "DiVA (IBN, D & S & I)", "R@1")
    conditions = reports.conditions_of(published)
    assert (conditions["backbone"], conditions["embedding_dim"]) == ("bn_inception", 510)
    printed = dissertation_value("milbich_4.3", "cub200", "Ours (DiVA-R50-512)", "R@1")
    assert reports.conditions_of(printed)["backbone"] == "resnet50"


class Decided:
    """Cells as drawn, with a record of three decisions by the runs of PADS."""

    dataset, problems = None, ()

    def __init__(self, drawn):
        self._drawn = drawn

    def row(self, cell):
        found = self._drawn.row(cell)
        if found is not None and "pads" in cell.config.loss and cell.config.pads_estimator == "ppo_a2c":
            probabilities = np.full((3, cell.config.pads_bins), 0.5)
            probabilities[-1] = 1.0
            probabilities[-1, 0] = cell.fold  # 1.5 in the mean
            np.savez(found.folder / "sampling.npz", probabilities=probabilities)
        return found


def test_the_last_distribution_of_pads_becomes_a_row_once_its_runs_are_finished(drawn_cells):
    study = STUDIES["milbich_5.1"](options("demo", overrides={"pads_bins": 5}, losses=("margin",)))
    label = f"margin+pads+gap, {VARIANT}"
    assert label in study.rows

    def controls(finished):
        return [cell for cell in study.cells(finished) if VARIANT in cell.label]

    some = Decided(drawn_cells(lambda cell: None if cell.fold == 3 else 0.5))
    assert not controls(NothingFinished())
    assert not controls(some)
    finished = Decided(drawn_cells(lambda cell: 0.5))
    starts = {cell.config.pads_start for cell in controls(finished)}
    assert starts == {"1,0.667,0.667,0.667,0.667"}
    assert {cell.config.pads_estimator for cell in controls(finished)} == {"fixed"}
    assert len(study.cells(finished)) == study.num_cells
