import numpy as np
import pytest

from common.errors import InvalidInput
from experiments.plans.study import StudyOptions
from experiments.plans.study_runs import NothingFinished
from experiments.plans.sweep import recorded_points, sweep
from experiments.rows.store import StudyRows
from experiments.studies.planned import planned_comparisons
from experiments.studies.sweeps import CONDITIONS, effect_against

EMOJI = StudyOptions("emoji", "full")


def cells_of(study):
    return {(cell.config, cell.fold) for cell in study.cells(NothingFinished())}


@pytest.mark.parametrize("condition", sorted(CONDITIONS.keys() - {"conditions_patience"}))
def test_the_planned_runs_are_a_point_of_each_line(condition):
    study, planned = effect_against(condition, EMOJI), cells_of(planned_comparisons(EMOJI))
    shared = {
        point.series for point, cells in study.groups.items() if {(of.config, of.fold) for of in cells} <= planned
    }
    others = {
        "c2+xbm, union",
        "c2+xbm, memory",
        "c2+ccp, random",
        "ms+gsp, prototypes from step 200",
        "ms+gsp, prototypes of local features",
    }
    assert shared == {point.series for point in study.groups} - others


def test_a_memory_has_as_many_embeddings_at_each_batch_size():
    points = effect_against("conditions_batch", EMOJI).groups
    assert {point.x * point.config.xbm_batches for point in points if point.series == "c2+xbm"} == {1024}
    assert {point.x: point.config.micro_batch for point in points} == {8: None, 32: None, 128: None, 512: 128}
    assert all(point.config.batch_size == point.x for point in points)


def test_each_effect_is_the_difference_from_the_baseline_at_its_place(drawn_cells):
    def value_of(cell):
        step = 0.02 if cell.config.max_steps == 600 else 0.0
        return 0.4 + step + (0.2 if cell.config.method == "ccp" else 0.0)

    study = effect_against("conditions_steps", EMOJI)
    rows = study.recorded(drawn_cells(value_of))
    _, points = recorded_points(rows)
    means = {label: point.value.value for label, point in points.items()}
    for steps in (200, 600, 2000):
        effect = points[f"c2+ccp, steps {steps}"].effect
        assert effect.value == pytest.approx(means[f"c2+ccp, steps {steps}"] - means[f"c2, steps {steps}"])
        assert effect.low < effect.value < effect.high
    assert points["c2, steps 600"].effect is None
    control = points["c2+ccp, steps 200"].from_control
    assert control.value == pytest.approx(means["c2+ccp, steps 200"] - means["c2, steps 2000"])
    assert points["c2, steps 2000"].from_control is None
    assert sweep(rows).header[-2:] == ["minus baseline", "minus c2, steps 2000"]


def test_without_the_same_runs_of_its_baseline_a_point_has_no_effect(drawn_cells):
    study = effect_against("conditions_start", EMOJI)
    finished = drawn_cells(lambda cell: None if cell.config.method == "plain" and cell.fold == 3 else 0.4)
    _, points = recorded_points(study.recorded(finished))
    assert {point.effect for point in points.values()} == {None}
    assert points["c2"].value.x is None


def test_the_sets_of_clutter_are_one_study(drawn_cells, tmp_path):
    rows = StudyRows(tmp_path / "conditions_clutter")
    for name in ("emoji", "emoji_clutter_32", "emoji_clutter_64"):
        options = StudyOptions(name, "full")
        study = effect_against("conditions_clutter", options)
        rows.merge(study.recorded(drawn_cells(lambda cell: 0.4))._rows.values())
    table = sweep(rows)
    lines = [line for line in table.rows if line[0] in ("ms", "ms+gsp")]
    assert [line[:2] for line in lines] == [[name, x] for name in ("ms", "ms+gsp") for x in ("32", "64", "96")]
    assert [line[4:] for line in lines[:3]] == [["-"]] * 3  # other images at each side: no control
    np.testing.assert_allclose([float(line[4].split()[0]) for line in lines[3:]], 0, atol=1e-9)


def test_clutter_needs_emoji():
    with pytest.raises(InvalidInput, match="--dataset: received 'cub200', expected one of emoji, emoji_clutter_64"):
        effect_against("conditions_clutter", StudyOptions("cub200", "full"))
