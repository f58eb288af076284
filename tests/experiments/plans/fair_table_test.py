import csv
from types import SimpleNamespace

import pytest

from common.errors import InvalidInput
from experiments import reports
from experiments.plans.fair_table import draw_rows
from experiments.plans.study import StudyOptions
from experiments.plans.study_runs import NothingFinished
from experiments.protocols.fair_report import FairReport
from experiments.studies.fair_tables import ccp_table
from experiments.studies.figures import FIGURES
from experiments.studies.tables import TABLES
from experiments.studies.training_steps import TrainingSteps

PRINTED_ROWS = {"3.1": 13, "5.1": 15, "5.3": 4}


def options(dataset="cub200", budget="full", **others):
    return StudyOptions(dataset=dataset, budget=budget, **others)


@pytest.mark.parametrize("study_id", PRINTED_ROWS)
def test_every_printed_row_has_its_own(study_id):
    study = TABLES[study_id](options())
    printed = [row["method"] for row in reports.published_table(study_id) if row["dataset"] == "CUB"]
    assert {row.printed for row in study.rows.values()} == set(printed)
    assert len(study.rows) == PRINTED_ROWS[study_id]
    assert study.num_cells == 4 * len(study.rows)


def test_a_picture_of_many_rows_has_single_models_alone_and_the_best_first(monkeypatch):
    drawn = {}
    monkeypatch.setattr(reports, "interval_bars", lambda groups, path, **others: drawn.update(groups))

    def row(place, value):
        cell = SimpleNamespace(bounds=SimpleNamespace(estimate=value))
        sizes = ("single 128-D", "concat. 512-D", "single minus baseline")
        return SimpleNamespace(method=f"method {place}", cells={(size, "MAP@R"): cell for size in sizes})

    rows = [row(place, place % 7) for place in range(21)]
    draw_rows(rows[:20], "few.png", title="")
    assert {size: list(bars) for size, bars in drawn.items()} == dict.fromkeys(
        ["single 128-D", "concat. 512-D"], [each.method for each in rows[:20]]
    )
    drawn.clear()
    draw_rows(rows, "many.png", title="")
    assert list(drawn) == ["single 128-D"]
    assert list(drawn["single 128-D"])[:4] == ["method 6", "method 13", "method 20", "method 5"]


def test_rows_follow_the_chapter_of_their_table():
    assert {cell.config.chapter for cell in TABLES["3.1"](options()).cells(NothingFinished())} == {3}
    configs = [cell.config for cell in TABLES["5.1"](options()).cells(NothingFinished())]
    assert {(config.chapter, config.normalization) for config in configs} == {(5, "unit")}
    both = [config for config in configs if config.method == "ccp" and config.pooling == "gsp"]
    assert {(config.proxies_per_class, config.num_prototypes) for config in both} == {(8, 64)}


def test_small_variants_have_one_proxy_and_a_short_memory():
    study = FIGURES["3.4"](options("sop"))
    configs = {cell.label: cell.config for cell in study.cells(NothingFinished()) if cell.fold == 0}
    values = {label.partition(", fold")[0]: config for label, config in configs.items()}
    assert values["c1+ccp+gap, S"].proxies_per_class == 1
    assert values["c1+ccp+gap"].proxies_per_class == 4
    assert (values["c2+xbm+gap, S"].xbm_batches, values["c2+xbm+gap"].xbm_batches) == (400, 1400)
    assert values["softtriple+gap"].centers_per_class == 1  # the thesis' S on the large data sets
    cub = TABLES["3.1"](options("cub200", losses=("softtriple",))).cells(NothingFinished())
    assert {cell.config.centers_per_class for cell in cub} == {10}


def test_parts_of_gsp_are_switched_one_by_one():
    configs = [cell.config for cell in TABLES["5.3"](options()).cells(NothingFinished()) if cell.fold == 0]
    switches = [(config.pooling, config.transport_ratio, config.zero_shot_weight) for config in configs]
    assert switches == [("gap", None, None), ("gsp", 0.3, 0.0), ("gsp", 1.0, 0.1), ("gsp", 0.3, 0.1)]


def test_regularised_losses_are_held_against_themselves():
    study = TABLES["losses"](options())
    assert {row.baseline for label, row in study.rows.items() if "+rho" not in label} == {
        None,
        "margin+distance+gap",
        "npair+gap",
    }
    regularised = {label: row.baseline for label, row in study.rows.items() if "+rho" in label}
    assert regularised == {label: label.replace("+rho", "") for label in regularised}
    assert {row.baseline for row in study.rows.values()} - {None} <= set(study.rows)
    switched = {cell.config.loss: cell.config.p_switch for cell in study.cells(NothingFinished())}
    assert all((p_switch is not None) == loss.endswith("+rho") for loss, p_switch in switched.items())


def test_losses_choose_rows():
    study = TABLES["5.1"](options(losses=("c1",)))
    assert list(study.rows) == ["c1+gap", "c1+xbm+gap", "c1+xbm+gsp", "c1+ccp+gap", "c1+ccp+gsp"]
    assert list(TABLES["5.1"](options(losses=("c1+xbm",))).rows) == ["c1+xbm+gap", "c1+xbm+gsp"]
    with pytest.raises(InvalidInput, match="softtriple.*c1, c1\\+xbm, c2"):
        TABLES["5.1"](options(losses=("softtriple",)))


@pytest.mark.parametrize("study_id", PRINTED_ROWS)
def test_what_rows_have_of_their_own_is_no_flag(study_id):
    with pytest.raises(InvalidInput, match="--pooling=gsp would have no effect"):
        TABLES[study_id](options(pooling="gsp"))
    with pytest.raises(InvalidInput, match="--chapter is what this study varies"):
        TABLES[study_id](options(overrides={"chapter": 3}))


def cells_of(path):
    with path.open() as file:
        return {(row["method"], row["size"], row["metric"]): row for row in csv.DictReader(file)}


def test_a_table_holds_printed_figures_and_paired_differences(drawn_cells, tmp_path):
    study = TABLES["5.3"](options())
    better = drawn_cells(lambda cell: 0.8 if cell.config.zero_shot_weight else 0.3)
    text = study.render(better, tmp_path, "item")
    cells = cells_of(tmp_path / "item.csv")
    single = {
        method: row for (method, size, metric), row in cells.items() if (size, metric) == ("single 128-D", "MAP@R")
    }
    published = {method: row["published"] for method, row in single.items()}
    assert published == {
        "untrained backbone": "",
        "c2+gap": "20.58",
        "c2+gsp, no L_ZS": "20.85",
        "c2+gsp, L_ZS alone": "21.08",
        "c2+gsp": "21.52",
    }
    verdicts = {row["verdict"] for method, row in single.items() if method != "untrained backbone"}
    assert verdicts <= {
        "above",
        "below",
        "reproduced",
        "inconclusive",
    }  # what makes a printed row is no departure from the recipe
    differences = {
        method: float(row["mean"]) for (method, size, _), row in cells.items() if size == "single minus baseline"
    }
    assert differences["c2+gsp, no L_ZS"] == pytest.approx(0, abs=1e-9)
    assert differences["c2+gsp"] > 30
    assert "c2+gap" not in differences
    assert "c2+gsp with c2+gap" in (tmp_path / "item.md").read_text()
    assert "concatenated 512-D MAP@R" in text


def test_a_row_that_was_trained_in_another_way_has_no_verdict(drawn_cells, tmp_path):
    study = TABLES["5.3"](options(overrides={"learning_rate": 1e-3, "seed": 3}))
    study.render(drawn_cells(lambda cell: 0.4 if cell.config.pooling == "gap" else None), tmp_path, "item")
    verdict = cells_of(tmp_path / "item.csv")["c2+gap", "single 128-D", "MAP@R"]["verdict"]
    assert verdict == "not comparable: learning_rate is 0.001, the recipe's is 1e-05"


def test_parts_of_gsp_are_held_against_their_own_rows_in_any_report(drawn_cells):
    cells, drawn = TABLES["5.3"](options()).cells(NothingFinished()), drawn_cells(lambda cell: 0.4)
    published = []
    for config in dict.fromkeys(cell.config for cell in cells):
        runs = [drawn.row(cell) for cell in cells if cell.config == config]
        published.append(FairReport(config, runs, 1).rows()[0].cells["single 128-D", "MAP@R"].published)
    assert [cell.value for cell in published] == [20.58, 20.85, 21.08, 21.53]
    assert [cell.table for cell in published] == ["5.1", "5.3", "5.3", "5.1"]


def test_rows_without_all_folds_are_named_and_left_out(drawn_cells, tmp_path):
    study = TABLES["5.3"](options())
    finished = drawn_cells(lambda cell: 0.4 if cell.config.pooling == "gap" or cell.fold == 2 else None)
    text = study.render(finished, tmp_path, "item")
    assert {method for method, _, _ in cells_of(tmp_path / "item.csv")} == {"untrained backbone", "c2+gap"}
    assert "c2+gsp, no L_ZS: missing fold 0 repeat 0, fold 1 repeat 0, fold 3 repeat 0" in text


def test_a_table_warns_of_methods_that_training_has_not_helped(drawn_cells, tmp_path):
    study = TABLES["5.3"](options())
    assert "warning:" not in study.render(drawn_cells(lambda cell: 0.4), tmp_path, "item")
    text = study.render(drawn_cells(lambda cell: 0.12 if cell.config.pooling == "gap" else 0.4), tmp_path, "item")
    assert "warning: c2+gap: training did not beat the untrained backbone's average features" in text


@pytest.mark.parametrize(("dataset", "centers"), [("sop", 1), ("inshop", 1), ("cub200", 10)])
def test_soft_triple_has_the_same_centres_in_both_tables(dataset, centers):
    options = StudyOptions(dataset, "full", losses=("softtriple",))
    (fair,), (steps,) = ({cell.config for cell in study(options).cells(None)} for study in (ccp_table, TrainingSteps))
    assert fair == steps
    assert fair.centers_per_class == centers
