import dataclasses
import itertools
import json
import shlex

import pytest
from absl import flags

from common.errors import InvalidInput
from experiments.parts.datasets import traits_of
from experiments.plans.study import StudyOptions
from experiments.plans.study_command import define_study_flags, options_of_study
from experiments.plans.study_runs import NothingFinished
from experiments.rows.store import RECORDED
from experiments.settings.method_names import LOSSES
from experiments.studies.planned import all_losses, planned_comparisons, where_weight_falls
from experiments.studies.tables import DEFAULTS, FULL_REPEATS, TABLES
from tests.experiments.rows.ranked_study import record_ranked
from tests.support.command_line import ROOT, run_study_here, without_flags

EMOJI = StudyOptions("emoji", "full")
CARS = StudyOptions("cars196", "full")
MOBILE = StudyOptions("emoji", "full", overrides={"backbone": "mobilenet_v2"})


ONLY_CROPS = {"dataset", "crop", "patience"}  # of six validations, patience is 30 and 60


def differing(cells, others):
    """The settings in which two lists of runs differ."""
    found, expected = (of[0].config.stored() for of in (cells, others))
    return {key for key in found.keys() | expected.keys() if found.get(key) != expected.get(key)}


def record_trials(folder, *, without=(), backbone="efficientnet_lite0"):
    """Record emoji's rows; of two trials the second is chosen."""
    tried = {}
    for label, trials in planned_comparisons(EMOJI)._trials.items():
        best = len(trials) - 1
        tried[label] = [
            {"settings": dict(trial), "validation": 0.5 + place / 10, "chosen": place == best}
            for place, trial in enumerate(trials)
        ]
    labels = [label for label in tried if label not in without]
    folder = folder / RECORDED / "planned_emoji"
    record_ranked(folder, dict.fromkeys(labels, 20), dataset="emoji", backbone=backbone, trials=tried)


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    "options", [CARS, MOBILE, StudyOptions("folder", "full"), StudyOptions("emoji_clutter_32", "full")]
)
def test_other_sets_and_networks_run_the_chosen_settings_alone(checkout, options):
    record_trials(checkout)
    study = planned_comparisons(options)
    cells = study.cells(NothingFinished())
    by_label = {label: study.cells_of(label, NothingFinished()) or study._cells[label][0] for label in study.rows}
    assert len(cells) == study.num_cells == (16 + ("clutter" in options.dataset)) * 4
    assert {len(of) for of in by_label.values()} == {4}
    assert {cell.config.backbone for cell in cells} == {options.overrides.get("backbone", "efficientnet_lite0")}
    rates = {label: of[0].config.learning_rate for label, of in by_label.items()}
    assert rates == {**dict.fromkeys(by_label, 1e-4), "c2+gap": 3e-4}
    assert by_label["pnca+gap, stride 16"][0].config.proxy_multiplier == 100.0


@pytest.mark.parametrize("name", ["cars196", "folder"])
def test_on_photographs_only_the_crops_differ_from_emoji(checkout, name):
    record_trials(checkout)
    photographs, drawings = planned_comparisons(StudyOptions(name, "full")), planned_comparisons(EMOJI)
    for label, trials in photographs._cells.items():
        trial = drawings._trials[label].index(photographs._trials[label][0])
        assert differing(trials[0], drawings._cells[label][trial]) == ONLY_CROPS, label


def test_all_losses_have_as_many_trials_and_on_photographs_the_settings_of_emoji():
    drawings, photographs = all_losses(EMOJI), all_losses(CARS)
    assert {label.partition("+")[0] for label in drawings.rows} == {*LOSSES}
    for label, trials in drawings._cells.items():
        assert len(trials) == 2
        assert [cells[0].config.max_steps for cells in trials] == [200, 200]
        assert all(differing(*pair) == ONLY_CROPS for pair in zip(trials, photographs._cells[label])), label
    assert {row.baseline for row in drawings.rows.values()} == {None, "c2+gap"}


def test_rows_and_tables_name_the_source_of_the_choice(checkout, drawn_cells):
    record_trials(checkout)
    study, finished = planned_comparisons(dataclasses.replace(CARS, losses=("c2+xbm",))), drawn_cells(lambda cell: 0.5)
    extras = study.recorded(finished).rows[0]["extras"]
    assert "planned_emoji: emoji, efficientnet_lite0, data 0123456789abcdef" in extras["trials_from"]
    assert extras["trials"] == [{"settings": {"learning_rate": 1e-4}, "validation": 0.5, "chosen": True}]
    study.render(finished, checkout, "item")
    trials = (checkout / "item_trials.md").read_text()
    assert "| c2+xbm+gap | learning_rate 0.0001 | 50.00 | chosen |" in trials
    assert "Chosen elsewhere, c2+xbm+gap: planned_emoji" in trials


@pytest.mark.parametrize(
    "recorded",
    [None, {"without": ["c2+xbm+gap"]}, {"backbone": "mobilenet_v2"}],
    ids=["nothing", "a method", "network"],
)
def test_a_method_without_recorded_trials_is_named(checkout, recorded):
    if recorded is not None:
        record_trials(checkout, **recorded)
    with pytest.raises(
        InvalidInput, match="no recorded trials of c2\\+xbm\\+gap, expected .* --record=docs/results/rows/planned_"
    ):
        run_study_here("table", "--id=planned", "--dataset=cars196", "--budget=full", "--loss=c2+xbm")


def test_emoji_and_small_budgets_try_by_themselves(checkout):
    assert planned_comparisons(EMOJI).num_cells == 96
    assert planned_comparisons(StudyOptions("cars196", "demo")).num_cells == 88


def test_the_loss_of_attributes_is_left_out_on_clutter_alone_at_the_pace_chosen_with_it(checkout):
    record_trials(checkout)
    study = planned_comparisons(StudyOptions("emoji_clutter_32", "full"))
    with_it, without = (study._cells[label][0][0].config for label in ("pnca+gsp", "pnca+gsp, without L_ZS"))
    assert (with_it.zero_shot_weight > 0, without.zero_shot_weight) == (True, 0)
    assert {**without.stored(), "zero_shot_weight": with_it.zero_shot_weight}.items() <= with_it.stored().items()
    assert without.proxy_multiplier == 100.0
    assert not any("L_ZS" in label for label in planned_comparisons(EMOJI).rows)


def test_one_comparison_also_begins_from_a_whitened_head_where_settings_are_chosen():
    study = planned_comparisons(EMOJI)
    for label in ("c2+gap", "c2+ccp+gap"):
        plain, whitened = (study._cells[name][0][0].config.stored() for name in (label, f"{label}, whitened head"))
        assert whitened == {**plain, "head_start": "whitening"}
    assert study.rows["c2+ccp+gap, whitened head"].baseline == "c2+gap, whitened head"


def test_the_weight_on_the_object_stands_beside_retrieval(tmp_path):
    study = record_ranked(tmp_path / "clutter", {"ms+gap": 20, "ms+gsp": 21}, dataset="emoji_clutter_32")
    names = ("area_of_target", "weight_on_target", "norm_on_target", "weight_auc", "norm_auc")
    for row in study.rows:
        of_gsp = (0.1, 0.175 + row["fold"] / 100, 0.2, 0.73, 0.76)
        row.json["extras"] = {"target_shares": dict(zip(names, of_gsp))} if row["label"] == "ms+gsp" else {}
    (line,) = where_weight_falls(study).rows
    assert line[0] == "ms+gsp"
    assert line[1].startswith("21.00 [")
    assert line[2:] == ["0.730", "0.760", "19.0", "10.0"]


def recorded_on_own_photos():
    """The recorded rows of own photos, by the command of a table; those of `fair_eval` also depend on the photos."""
    rows = (json.loads(line) for path in (ROOT / RECORDED).glob("*/rows.jsonl") for line in path.open())
    own = (row for row in rows if traits_of(row["dataset"]).custom and "experiments.table" in row.get("command", ""))
    return itertools.groupby(sorted(own, key=lambda row: row["command"]), lambda row: row["command"])


def test_the_command_of_each_recorded_row_of_own_photos_still_trains_that_row(monkeypatch):
    monkeypatch.chdir(ROOT)  # whose results have the trials on emoji
    count = 0
    for command, rows in recorded_on_own_photos():
        module, *arguments = shlex.split(command)[2:]
        with without_flags():
            define_study_flags(TABLES)
            flags.FLAGS([module, *arguments])
            name = flags.FLAGS.id
            study = TABLES[name](options_of_study(flags.FLAGS, DEFAULTS.get(name, {}), FULL_REPEATS.get(name)))
        cells = study.cells(NothingFinished())
        for row in rows:
            hashes = {(cell.config.hash(row["data"]), cell.fold, cell.repeat) for cell in cells}
            assert (row["config_hash"], row["fold"], row["repeat"]) in hashes
            count += 1
    assert count == 64


def test_a_tuned_recipe_that_the_study_would_override_is_refused(tmp_path):
    methods = {label.partition(",")[0]: {"ms_alpha": 3.0} for label in planned_comparisons(EMOJI).rows}
    path = tmp_path / "tuned.json"
    path.write_text(json.dumps({"kind": "tuned recipe", "recipe": "thesis", "methods": methods}))
    with pytest.raises(
        InvalidInput, match="which sets ms_alpha', expected thesis, since this study sets that by itself"
    ):
        planned_comparisons(dataclasses.replace(EMOJI, recipe=str(path)))
