"""Tables of Milbich's dissertation: equal sizes and trials, printed labels, and the control that follows from PADS."""

import numpy as np
import pytest

from experiments import reports
from experiments.plans.fair_table import FairTable
from experiments.plans.study import StudyOptions
from experiments.plans.study_runs import NothingFinished
from experiments.published.values import dissertation_value, published_table
from experiments.settings.loss_building import feature_sizes_of
from experiments.studies.dissertation_tables import dissertation_tables
from experiments.studies.final_sampling import VARIANT
from experiments.studies.tables import FULL_REPEATS, TABLES

STUDIES = dissertation_tables()
HEAD = {"trained_from": "head"}


def options(budget="full", **others):
    return StudyOptions(**{"dataset": "cars196", "budget": budget, "overrides": HEAD, **others})


def configurations(study):
    rows = {}
    for cell in study.cells(NothingFinished()):
        rows.setdefault(cell.label.partition(" (")[0], []).append(cell.config)
    return rows


@pytest.mark.parametrize("name", STUDIES)
def test_rows_are_tuned_alike_have_one_size_and_are_printed(name):
    assert name in TABLES
    assert FULL_REPEATS[name] == 3
    study = STUDIES[name](options())
    rows = configurations(study)
    assert {len(configs) for configs in rows.values()} == {3}
    assert {config.embedding_dim for configs in rows.values() for config in configs} == {128}
    assert {(c.chapter, c.normalization, c.trained_from) for configs in rows.values() for c in configs} == {
        (5, "unit", "head")
    }
    printed = {row["method"] for row in published_table(name)}
    labels = [row.printed for row in study.rows.values() if row.printed]
    assert labels
    assert {*labels} <= printed
    assert len({*labels}) == len(labels)
    assert all(row.baseline in (None, *study.rows) for row in study.rows.values())
    assert STUDIES[name](options(budget="smoke")).num_cells < study.num_cells


def test_tasks_that_take_turns_take_twice_the_steps_of_the_others():
    rows = configurations(STUDIES["milbich_3.8"](options()))
    steps = {label: (of[0].max_steps, of[0].steps_per_evaluation, of[0].feature_schedule) for label, of in rows.items()}
    assert steps.pop("margin+distance+gap") == steps.pop("margin+interclass+gap") == (3000, 100, None)
    assert {*steps.values()} == {(6000, 200, "in_turn")}
    joint = configurations(STUDIES["milbich_4.2"](options()))["margin+distance+shared+gap"][0]
    assert (joint.max_steps, joint.feature_schedule) == (3000, "joint")
    given = options(overrides={**HEAD, "max_steps": 50})
    assert {of[0].max_steps for of in configurations(STUDIES["milbich_3.8"](given)).values()} == {50}


def test_table_4_2_has_every_subset_of_the_tasks_once():
    study = STUDIES["milbich_4.2"](options())
    sizes = [feature_sizes_of(of[0]) for of in configurations(study).values()]
    assert sorted(len(size) if size else 1 for size in sizes) == [1, 2, 2, 2, 3, 3, 3, 4]
    assert {sum(size) for size in sizes if size} == {128}


def test_without_a_cut_the_recipe_holds_and_printed_figures_never_give_a_verdict(drawn_cells, tmp_path):
    study = STUDIES["milbich_3.8"](options(budget="demo", overrides={}))
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

    def unit(self, cell):
        found = self._drawn.unit(cell)
        if found is not None and "pads" in cell.config.loss and cell.config.pads_estimator == "ppo_a2c":
            probabilities = np.full((3, cell.config.pads_bins), 0.5)
            probabilities[-1] = 1.0
            probabilities[-1, 0] = cell.fold  # 1.5 in the mean
            np.savez(found.path / "sampling.npz", probabilities=probabilities)
        return found


@pytest.mark.parametrize("tuned", [True, False])
def test_the_last_distribution_of_pads_becomes_a_row_once_its_runs_are_finished(drawn_cells, tuned):
    overrides = {**HEAD, "pads_bins": 5} if tuned else {"pads_bins": 5}
    study = STUDIES["milbich_5.1"](options("full" if tuned else "demo", overrides=overrides, losses=("margin",)))
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
