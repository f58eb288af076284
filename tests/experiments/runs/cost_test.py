import pathlib
import re

import pytest

from experiments.plans.study import StudyOptions
from experiments.plans.study_runs import NothingFinished
from experiments.recipes import resolve
from experiments.runs.cost import duration, estimated_seconds, rate_of
from experiments.studies.demo import Demo
from experiments.studies.figures import FIGURES, FULL_REPEATS as FIGURE_REPEATS
from experiments.studies.tables import DEFAULTS, FULL_REPEATS, TABLES

ROOT = pathlib.Path(__file__).resolve().parents[3]
DEMO = Demo(StudyOptions("emoji", "demo"))
DATASETS = {"SOP": "sop", "CUB": "cub200"}
COST = re.compile(
    r"on (SOP|CUB) (\d+) runs?(?: \([^)]*\))? of ([\d.]+) (hours|minutes)"  # "full on SOP 52 runs of 4 hours"
)


def seconds_of(config):
    return estimated_seconds(config, rate_of(config, ()))


def test_validations_and_tests_are_counted_with_a_third_of_a_step_an_image():
    step = 0.097 / 32
    config = resolve("sop", "pnca", "gap", "thesis", "full", {})
    validating, testing = 90 * 59_551 / 4, 2 * 60_502
    expected = 12 + 90_000 * 32 * step + (validating + testing) * step / 3
    assert seconds_of(config) == pytest.approx(expected)
    often = resolve("sop", "pnca", "gap", "thesis", "full", {"chapter": 3})
    assert seconds_of(often) - seconds_of(config) == pytest.approx(3 * 90 * 59_551 / 4 * step / 3)
    on_test = resolve("sop", "c2", "gap", "thesis", "full", {}, protocol="conventional")
    assert seconds_of(on_test) == pytest.approx(12 + 90_000 * 128 * step + (360 + 2) * 60_502 * step / 3)
    held_out = resolve("sop", "c2", "gap", "thesis", "full", {}, protocol="held_out")
    assert seconds_of(on_test) - seconds_of(held_out) == pytest.approx(360 * (60_502 - 5_955.1) * step / 3)


def test_pads_looks_at_the_images_held_back_at_every_decision():
    static, pads = (
        resolve("sop", loss, "gap", "thesis", "full", {"left_out_images": 0.15} if loss != "margin+pads" else {})
        for loss in ("margin+distance", "margin+pads")
    )
    watched = 0.15 * 0.75 * 59_551  # of three folds; once in 30 steps: embedded, then their recall and NMI
    expected = 90_000 / 30 * watched * (0.097 / 32 / 3 + 4.5e-4)
    assert seconds_of(pads) - seconds_of(static) == pytest.approx(expected)
    assert duration(seconds_of(pads)) == "11.0 h"
    assert seconds_of(pads.replace(pads_estimator="fixed")) == pytest.approx(seconds_of(static))
    cached = resolve("cub200", "margin+pads", "gap", "thesis", "full", {"trained_from": "head", "max_steps": 3000})
    assert seconds_of(cached) == pytest.approx(12 + 3000 * 32 * 2e-4 + 100 * 0.15 * 0.75 * 5_864 * 4.5e-4)


def test_ccp_embeds_a_pool_of_each_class_for_every_problem():
    step = 0.097 / 32
    plain, ccp = (resolve("sop", "c2", "gap", "thesis", "full", {"chapter": 3}, method) for method in ("plain", "ccp"))
    pools = 40 * 0.75 * 11_318 * 7  # problems of nine validations of 250 steps
    expected = 90_000 * 32 * step * 8 / 97 + pools * step / 3
    assert seconds_of(ccp) - seconds_of(plain) == pytest.approx(expected)
    late = ccp.replace(ccp_start=2_250)
    assert seconds_of(ccp) - seconds_of(late) == pytest.approx(pools / 40 * step / 3)
    on_test = resolve("sop", "c2", "gap", "thesis", "full", {"chapter": 3}, "ccp", "conventional")
    without = resolve("sop", "c2", "gap", "thesis", "full", {"chapter": 3}, "plain", "conventional")
    longer = on_test.batch_size / 32 * 90_000 * 32 * step * 8 / 97
    assert seconds_of(on_test) - seconds_of(without) == pytest.approx(longer + 40 * 11_318 * 7 * step / 3)


def test_a_second_view_and_groups_are_passes_without_gradients():
    step = 0.097 / 32
    margin, dance, groups, shared = (
        resolve("cub200", f"margin+distance{task}", "gap", "thesis", "full", {})
        for task in ("", "+dance", "+groups", "+shared")
    )
    assert seconds_of(dance) - seconds_of(margin) == pytest.approx(10_000 * 32 * step / 3)
    assert (margin.steps_per_evaluation, shared.steps_per_evaluation) == (100, 200)  # the tasks take turns
    assert seconds_of(shared) - seconds_of(margin) == pytest.approx(10_000 * 32 * step)
    rounds = 1 + 20_000 * 32 // (4 * 4_398)  # before training, and every four epochs
    assert seconds_of(groups) - seconds_of(shared) == pytest.approx(rounds * 4_398 * step / 3)


def test_a_network_of_twice_the_work_takes_twice_the_time():
    small, large = (
        seconds_of(resolve("cub200", "c2", "gap", "thesis", "full", {"backbone": backbone})) - 12
        for backbone in ("bn_inception", "resnet50")
    )
    assert large == pytest.approx(2 * small)


def test_the_demo_is_estimated_by_its_network_and_its_emoji():
    config = resolve("emoji", "ms", "gap", "thesis", "demo", {"max_steps": 400, "steps_per_evaluation": 100})
    embedded = 4 * 3_599 / 4 + 2 * 3_578
    assert seconds_of(config) == pytest.approx(12 + (400 * 32 + embedded / 3) * 0.6 / 32)
    whole = DEMO.cells(NothingFinished())
    assert 22 * 60 < sum(seconds_of(cell.config) for cell in whole) < 37 * 60  # 400 steps took 19 minutes
    for backbone, seconds in (("efficientnet_lite0", 0.6), ("mobilenet_v2", 0.41)):
        rate = rate_of(config.replace(image_size=192, backbone=backbone), ())
        assert rate.seconds_per_image == pytest.approx(4 * seconds / 32)


def test_training_from_cached_features_costs_its_steps_on_a_processor():
    config = resolve("cub200", "c2", "gap", "thesis", "full", {"trained_from": "head", "max_steps": 3000})
    assert rate_of(config, ()).hardware == "2 CPU cores"
    assert seconds_of(config) == pytest.approx(12 + 3000 * 32 * 2e-4)


def test_finished_runs_of_the_network_tell_the_ratio_of_this_machine(drawn_cells):
    cell = FIGURES["3.8"](StudyOptions("glyphs", "demo")).cells(NothingFinished())[0]
    row = drawn_cells(lambda cell: 0.4).row(cell)
    rate = rate_of(cell.config, [(cell.config, row)])
    assert rate.hardware == "this machine"
    assert estimated_seconds(cell.config, rate) == pytest.approx(row["train_seconds"])
    plain, ccp, other = (
        resolve("emoji", "ms", "gap", "thesis", "demo", settings, method)
        for settings, method in (({}, "plain"), ({}, "ccp"), ({"backbone": "mobilenet_v2"}, "plain"))
    )
    known = rate_of(plain, ())
    row = row.with_values(steps=plain.max_steps, train_seconds=seconds_of(plain) / 3)
    one_test = 3_578 * known.seconds_per_embedding  # the untrained features are there
    here = estimated_seconds(ccp, rate_of(ccp, [(plain, row)]))
    assert seconds_of(ccp) - one_test == pytest.approx(3 * here)
    wide = plain.replace(output_stride=16)
    assert rate_of(wide, [(plain, row)]).seconds_per_image == pytest.approx(2.4 / 3 * known.seconds_per_image)
    assert rate_of(other, [(plain, row)]) == rate_of(other, ())


def test_nothing_is_thought_to_train_to_the_far_bound():
    for dataset in ("synthetic_tokens", "glyphs", "cifar_collage"):
        config = resolve(dataset, "c2", "gsp", "thesis", "full", {})
        shorter = resolve(dataset, "c2", "gsp", "thesis", "full", {"max_steps": 10_000})
        assert seconds_of(config) == seconds_of(shorter)


def stated_costs(text, number, studies, repeats):
    """(data set, stated runs, stated seconds each, the study's cells) of each cost in a text."""
    for name, count, figure, unit in COST.findall(" ".join(text.split())):
        options = StudyOptions(DATASETS[name], "full", repeats=repeats.get(number, 1))
        yield name, int(count), float(figure) * {"hours": 3600, "minutes": 60}[unit], studies[number](options)


def check_cost(text, number, studies, repeats):
    costs = list(stated_costs(text, number, studies, repeats))
    for name, count, seconds, study in costs:
        cells = study.cells(NothingFinished())
        mean = sum(seconds_of(cell.config) for cell in cells) / len(cells)
        assert study.num_cells == count, (number, name)
        assert seconds == pytest.approx(mean, rel=0.06), (number, name, duration(mean))
    return len(costs)


REPEATS = {"Tables": {**dict.fromkeys(DEFAULTS, 3), **FULL_REPEATS}, "Figures": FIGURE_REPEATS}


@pytest.mark.parametrize(("kind", "studies"), [("Tables", TABLES), ("Figures", FIGURES)])
def test_the_index_states_the_estimates(kind, studies):
    text = (ROOT / "experiments" / "README.md").read_text().split(f"\n## {kind}\n")[1].split("\n## ")[0]
    lines = {line.split("|")[1].split(":")[0].strip(): line for line in text.splitlines() if line.startswith("| ")}
    stated = [check_cost(line, number, studies, REPEATS[kind]) for number, line in lines.items() if number in studies]
    assert sum(stated) == {"Tables": 10, "Figures": 9}[kind]
