import csv
import shlex
from collections import Counter

import pytest
from absl import flags
from absl.testing import flagsaver

from common.backbones.initial_weights import file_to_make
from common.errors import InvalidInput
from experiments.plans.launched_cells import unit_command
from experiments.plans.study import StudyOptions
from experiments.plans.study_command import listing
from experiments.plans.study_runs import NothingFinished
from experiments.published.values import published_table
from experiments.recipes import words
from experiments.settings import flags as experiment_flags
from experiments.studies.bars import problem_lengths
from experiments.studies.figures import DEFAULTS, FIGURES, FULL_REPEATS as figure_repeats
from experiments.studies.sweeps import CONDITIONS
from experiments.studies.tables import FULL_REPEATS as table_repeats, TABLES
from tests.support.command_line import without_flags
from tests.support.samples import sampled

ELSEWHERE = ("5.2", "5.5", "5.9")  # no training, or on several data sets (trained_figures_test)
DRAWN_FROM_MODELS = ("3.3", "4.2", "4.3", "4.4", "5.4", "5.6", "milbich_3.6")  # see study_command_test
CONVENTIONAL = ("3.2a", "3.2b", "5.2a", "5.2b")
MANY_CELLS = ("5.12",)
# Three numbers name a figure and a table.
ITEMS = {**FIGURES, **{f"table {key}" if key in FIGURES else key: study for key, study in TABLES.items()}}
OF_DISSERTATION = tuple(study_id for study_id in ITEMS if "milbich" in study_id)
STUDIES = {study_id: study for study_id, study in ITEMS.items() if study_id not in ELSEWHERE}
BUDGETS = ("smoke", "demo", "full")
DATASETS = ("glyphs", "cub200", "cars196", "sop", "inshop")
ONE_FOLD = ("3.3", "4.2", "4.3", "4.4")
STUDIES_AND_DATA = [
    *(
        (study_id, data)
        for study_id in STUDIES
        if study_id not in ("3.5", "5.4", "planned", "all_losses", *OF_DISSERTATION, *CONDITIONS)
        for data in DATASETS
    ),
    *(("3.5", data) for data in ("glyphs", "cub200")),  # each a search, and the others would be the same
    *((study_id, data) for study_id in OF_DISSERTATION for data in ("glyphs", "cub200")),
    ("5.4", "synthetic_tokens"),
    *((study_id, "emoji") for study_id in CONDITIONS),
    ("planned", "emoji"),  # others take recorded settings: `planned_test`
    ("all_losses", "emoji"),
    ("5.6", "cifar10_seen"),
]
ONE_SPLIT = {"3.5": 1, "3.6": 1, "table 5.4": 3, "5.8": 3, "5.10": 3, "5.11": 3}  # with the thesis' repeats
SWEEP = "milbich_2.8"
drawn_without_models = pytest.mark.parametrize("study_id", [each for each in STUDIES if each not in DRAWN_FROM_MODELS])
FAIR_TABLES = (
    "3.1",
    "3.4",
    "5.1",
    "5.3",
    "5.7",
    "losses",
    "all_losses",
    "planned",
    "arms",
    *(each for each in OF_DISSERTATION if each != SWEEP),
)


def options(dataset="glyphs", budget="demo", **others):
    return StudyOptions(dataset=dataset, budget=budget, **others)


def make_study(study_id, dataset=None, budget="demo", **others):
    dataset = dataset or DEFAULTS.get(study_id, {}).get("dataset", "glyphs")
    return STUDIES[study_id](options(dataset, budget, **others))


def complete(study, runs):
    """The cells of a study whose every cell has a result as soon as it is known."""
    cells = study.cells(runs)
    assert len(cells) == study.num_cells
    return cells


@pytest.mark.one_in(2)
@sampled("study_and_data, budget", STUDIES_AND_DATA, BUDGETS)
def test_every_study_resolves_all_of_its_cells(study_and_data, budget, drawn_cells):
    study_id, dataset = study_and_data
    study = make_study(study_id, dataset, budget)
    cells = complete(study, drawn_cells(lambda cell: 0.3 + cell.config.samples_per_class / 100))
    assert len({(cell.config, cell.fold, cell.repeat) for cell in cells}) == len(cells)
    assert len({cell.label for cell in cells}) == len(cells)
    assert all((cell.config.dataset, cell.config.budget) == (dataset, budget) for cell in cells)
    one_fold = (*ONE_FOLD, *ONE_SPLIT, *CONVENTIONAL)
    all_folds = study_id in FAIR_TABLES or (budget == "full" and study_id not in one_fold)
    assert {cell.fold for cell in cells} == (set(range(cells[0].config.num_folds)) if all_folds else {0})
    if study_id not in (*FAIR_TABLES, *MANY_CELLS):
        assert study.num_cells <= (12 if budget != "full" else 100)


def test_ablations_validate_on_a_third_with_the_thesis_patience():
    for study_id, folds, patience in (("3.5", 3, 40), ("3.6", 3, 40), ("3.7", 4, 60), ("3.8", 4, 60)):
        config = STUDIES[study_id](options("cub200", "full")).cells(NothingFinished())[0].config
        assert (config.num_folds, config.patience, config.projection_patience or 3) == (folds, patience, 3)
        assert (config.backbone, config.normalization, config.max_steps) == ("bn_inception", "clip", 250_000)


@pytest.mark.parametrize("study_id", ONE_SPLIT)
def test_hyperparameters_are_tuned_on_one_split_with_the_thesis_repeats(study_id):
    name = study_id.removeprefix("table ")
    repeats = {**figure_repeats, **table_repeats}.get(name, 1)
    assert repeats == ONE_SPLIT[study_id]
    study = STUDIES[study_id](options("cub200", "full", repeats=repeats))
    cells = study.cells(NothingFinished())
    assert {(cell.fold, cell.repeat) for cell in cells} == {(0, repeat) for repeat in range(repeats)}
    assert {(cell.config.num_folds, cell.config.patience) for cell in cells} == {(3, 40) if repeats == 1 else (5, 10)}
    counts = "1 run; thesis section 3.3.2.1" if repeats == 1 else "3 runs; thesis section 5.3.4.1"
    assert counts in study.protocol
    assert study.protocol in listing(study, NothingFinished(), {})
    others = STUDIES[study_id](options("cub200", "full", fold=1)).cells(NothingFinished())
    assert {(cell.fold, cell.repeat) for cell in others} == {(1, 0)}


def test_a_fold_that_is_none_or_of_no_use_is_refused():
    with pytest.raises(InvalidInput, match="--fold: received 5, expected a number from 0 to 4"):
        FIGURES["5.8"](options(fold=5))
    for study_id in ("5.7", "3.8"):
        with pytest.raises(InvalidInput, match="--fold would have no effect: this study trains every fold"):
            STUDIES[study_id](options("cub200", "full", fold=0))


def test_fair_tables_say_how_often_they_and_the_thesis_train():
    assert {study: table_repeats.get(study, 1) for study in ("3.1", "5.1", "5.3")} == {"3.1": 1, "5.1": 3, "5.3": 3}
    assert figure_repeats["5.7"] == 3
    study = TABLES["5.1"](options("sop", "full", repeats=3))
    assert study.num_cells == 15 * 12
    line = "Each row: 4 folds, 3 runs each; thesis chapter 5: 4 folds, 3 runs each."
    assert line in listing(study, NothingFinished(), {})
    assert "1 run each; thesis chapter 3: 4 folds, 1 run each" in TABLES["3.1"](options()).protocol


def test_full_grids_hold_the_thesis_choices():
    pools = {
        (cell.config.proxies_per_class, cell.config.pool_size)
        for cell in STUDIES["3.6"](options("cub200", "full")).cells(NothingFinished())
    }
    assert {(8, 12), (8, 8), (1, 1)} <= pools
    assert all(pool >= proxies for proxies, pool in pools)
    sizes = [cell.config.batch_size for cell in STUDIES["3.8"](options("cub200", "full")).cells(NothingFinished())]
    assert sorted(set(sizes)) == [16, 32, 64, 128]


def test_one_fixed_problem_is_what_sets_figure_3_7_apart():
    study = STUDIES["3.7"](options(losses=("c2",)))
    alone, fixed, alternating = (cell.config for cell in study.cells(NothingFinished()))
    assert (alone.method, fixed.method, alternating.method) == ("plain", "ccp", "ccp")
    assert (fixed.ccp_max_problems, alternating.ccp_max_problems) == (1, None)


def test_flags_win_over_a_study_where_a_method_has_them():
    overrides = {"max_steps": 77, "pool_size": 9, "xbm_batches": 5}
    cells = TABLES["3.3"](options(overrides=overrides)).cells(NothingFinished())
    assert {cell.config.max_steps for cell in cells} == {77}
    assert {cell.config.pool_size for cell in cells} == {9, None}
    assert {cell.config.xbm_batches for cell in cells} == {5, None}
    with pytest.raises(InvalidInput, match="--pool_size is what this study varies"):
        FIGURES["3.6"](options(overrides=overrides))


def parsed(commands, monkeypatch):
    """What `fair_eval` or another command would train, the unit, and the folder for runs, for each line."""
    monkeypatch.setattr(words, "check_weights", lambda *names: None)  # their files are made by other commands
    protocols = {"test_set": "conventional", "held_out": "held_out", None: None}
    with without_flags():
        experiment_flags.define_experiment_flags()
        experiment_flags.define_run_flags()
        flags.DEFINE_string("monitor", None, "")
        for command in commands:
            with flagsaver.flagsaver():
                flags.FLAGS(shlex.split(command)[2:])
                ignored = ("held_out_fraction",) if flags.FLAGS.monitor == "test_set" else ()
                (config,) = words.configurations_from_flags(flags.FLAGS, protocols[flags.FLAGS.monitor], ignored)
                yield config.as_dict(), *(flags.FLAGS[name].value for name in ("fold", "repeat", "repeats", "runs_dir"))


def named_weights(config):
    """What the command says: the file that has to be made of published ImageNet weights, if it has to."""
    return file_to_make(config.backbone, config.weights) or config.weights


def test_the_listed_commands_train_exactly_the_cells(monkeypatch):
    cells = []
    for study_id in STUDIES:
        own = {} if study_id in ("3.8", "conditions_batch") else {"samples_per_class": 2, "frozen_batch_norm": True}
        own |= {"samples_per_class": 5} if study_id in OF_DISSERTATION else {}  # `intra` needs three
        own = {} if study_id == "milbich_2.3" else own  # varies it
        for dataset, budget in (("glyphs", "demo"), ("cub200", "full")):
            dataset = "emoji" if study_id == "planned" else DEFAULTS.get(study_id, {}).get("dataset", dataset)
            known = make_study(study_id, dataset, budget, overrides=own, repeats=2).cells(NothingFinished())
            cells += known[:: max(3, len(known) // 3)]
    commands = [unit_command(cell, {"runs_dir": "my runs", "data_dir": None}) for cell in cells]
    expected = [
        (
            {**cell.config.as_dict(), "weights": named_weights(cell.config)},
            None if cell.config.protocol else cell.fold,
            cell.repeat,
            2 if cell.repeat and not cell.config.protocol else 1,
            "my runs",
        )
        for cell in cells
    ]
    assert len(cells) > 60
    assert list(parsed(commands, monkeypatch)) == expected


@pytest.mark.slow
@pytest.mark.one_in(3)  # another third is drawn by the next test
@drawn_without_models
def test_what_is_finished_is_drawn(study_id, drawn_cells, tmp_path):
    losses = {"table 3.3": (), "5.2a": ("c1+xbm",), "5.2b": ("c1+xbm",)}.get(study_id, ("c2",))
    losses = () if study_id in OF_DISSERTATION else losses
    study = make_study(study_id, losses=losses, repeats=1 if study_id in OF_DISSERTATION else 2)
    text = study.render(drawn_cells(lambda cell: 0.5 if cell.repeat else 0.4), tmp_path / "out", "item")
    files = {path.name for path in (tmp_path / "out").iterdir()}
    files -= {"item_recall.md", "item_recall.csv"}  # of tables of methods
    pictures = {"3.7": {"itema.png", "itemb.png"}}.get(study_id, {"item.png"})
    if study_id in ("table 3.3", "table 5.4", *CONVENTIONAL):
        pictures = set()
    names = ("item", "item_effects") if study_id == "table 5.4" else ("item",)
    endings = ("md", "csv", "tex") if study_id.split()[-1] in (*TABLES, *FAIR_TABLES) else ("md", "csv")
    trials = {"item_trials.md", "item_trials.csv"} if study_id in ("arms", "planned", "all_losses") else set()
    assert files == {*pictures, *trials, *(f"{name}.{ending}" for name in names for ending in endings)}
    for name in pictures:
        assert (tmp_path / "out" / name).read_bytes().startswith(b"\x89PNG")
        assert str(tmp_path / "out" / name) in text
    assert study.title.partition(" (")[0] in text
    written = (tmp_path / "out" / "item.md").read_text()
    assert all(note in written and note[:40] in text for note in study.notes)
    if "tex" in endings:
        assert "It shows a direction" in (tmp_path / "out" / "item.tex").read_text()


@pytest.mark.one_in(3)
@drawn_without_models
def test_a_single_finished_cell_is_enough(study_id, drawn_cells, tmp_path):
    study = make_study(study_id)
    first = study.cells(NothingFinished())[1]
    only_first = drawn_cells(lambda cell: 0.4 if cell == first else None)
    assert study.render(only_first, tmp_path, "item")
    text = listing(study, only_first, {"runs_dir": "elsewhere"}, details=True)
    assert f"{study.num_cells} cells: 1 done, {study.num_cells - 1} missing" in text
    assert f"done     {first.label}: validation {first.config.monitor} 40.00 at step" in text
    command = (
        "python -m experiments.conventional_eval" if study_id in CONVENTIONAL else "python -m experiments.fair_eval"
    )
    assert text.count(command) == len(study.cells(only_first)) - 1
    assert "--runs_dir=elsewhere" in text
    assert "on this machine" in text


def test_figures_of_a_sweep_are_means_over_trainings(drawn_cells, tmp_path):
    study = FIGURES["3.6"](options(repeats=2))
    study.render(drawn_cells(lambda cell: 0.5 if cell.repeat else 0.4), tmp_path, "item")
    lines = (tmp_path / "item.csv").read_text().splitlines()
    assert lines[0] == "method,pool size,validation MAP@R (%)"
    assert lines[1] == '"c2+ccp, 1 proxy",1,"45.00 [40.00, 50.00]"'
    assert len(lines) == 1 + study.num_cells // 2


def test_the_search_goes_on_from_results_on_disk(drawn_cells):
    def value_of(cell):
        return 0.3 + 0.01 * cell.config.proxies_per_class + cell.config.ccp_lambda

    study = FIGURES["3.5"](options())
    whole = study.cells(drawn_cells(value_of))
    assert whole[0].config.ccp_lambda == whole[0].config.ccp_first_lambda == 0
    assert all(1e-5 <= cell.config.ccp_lambda <= 1e-1 for cell in whole[1:])
    assert len(study.cells(NothingFinished())) == 6
    for num_known in (6, study.num_cells - 1):
        known = whole[:num_known]
        again = FIGURES["3.5"](options())
        assert (
            again.cells(drawn_cells(lambda cell, known=known: value_of(cell) if cell in known else None))
            == (whole[: num_known + 1])
        )
    partial = drawn_cells(lambda cell: value_of(cell) if cell in whole[:3] else None)
    assert "unknown  5 more" in listing(study, partial, {})


def test_table_3_3_has_the_printed_methods_and_their_steps(drawn_cells, tmp_path):
    study = TABLES["3.3"](options(overrides={"max_steps": 1000}))
    study.render(drawn_cells(lambda cell: 0.4), tmp_path, "item")
    with open(tmp_path / "item.csv", newline="") as file:
        rows = {row["method"]: row for row in csv.DictReader(file)}
    printed = {dataset: Counter(row[dataset] for row in rows.values()) for dataset in ("SOP", "In-shop")}
    for dataset, steps in printed.items():
        lines = [row for row in published_table("3.3") if row["dataset"] == dataset]
        assert steps == Counter(f"{int(row['value']):,}" for row in lines)
    assert list(rows["c2+xbm"].values()) == ["c2+xbm", "500", "-", "1,000*", "40.00", "81,000", "93,000"]
    assert list(rows["triplet+ccp"].values()) == ["triplet+ccp", "500", "+0 %", "1,000*", "40.00", "124,000", "115,000"]


def test_steps_are_compared_on_the_same_trainings_alone(drawn_cells, tmp_path):
    study = TABLES["3.3"](options(losses=("c1", "c2"), repeats=2))
    missing = next(cell for cell in study.cells(NothingFinished()) if cell.label.startswith("c1+ccp"))
    study.render(drawn_cells(lambda cell: None if cell == missing else 0.4), tmp_path, "item")
    lines = {line.split(",")[0]: line.split(",")[2] for line in (tmp_path / "item.csv").read_text().splitlines()}
    assert lines == {"method": "with CCP", "c1": "-", "c1+ccp": "-", "c2": "-", "c2+ccp": "+0 %"}


def test_differences_of_figure_3_7_say_what_could_have_been_seen(drawn_cells, tmp_path):
    study = FIGURES["3.7"](options(losses=("c2",), repeats=2))
    qualities = {"loss alone": 0.3, "fixed proxies": 0.2, "alternating (CCP)": 0.8}
    finished = drawn_cells(lambda cell: next(value for way, value in qualities.items() if way in cell.label))
    text = study.render(finished, tmp_path, "item")
    assert "detectable: the smallest true difference" in (tmp_path / "item.md").read_text()
    lines = [line for line in text.splitlines() if line.startswith("c2, alternating")]
    assert len(lines) == 1
    assert lines[0].count(" +") == 2


def test_problems_that_training_cut_off_are_told_apart(drawn_cells):
    (_, _, alternating) = FIGURES["3.7"](options(losses=("c2",))).cells(NothingFinished())
    runs = [drawn_cells(lambda cell: 0.4).row(alternating)]
    assert list(problem_lengths(runs).values()) == [[500, 250], [250]]
