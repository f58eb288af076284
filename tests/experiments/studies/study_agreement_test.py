import numpy as np
import pytest
import scipy.stats
from PIL import Image

from common.errors import InvalidInput
from experiments.published.values import published_value
from experiments.rows.scores import scores_of_trainings
from experiments.rows.store import StudyRows
from experiments.studies.agreement import ranking_table, sign_table, sign_word, verdict_line
from experiments.studies.fair_tables import rows_of
from experiments.studies.study_agreement import RANKINGS, STAND_IN, printed_methods, study_agreement
from tests.experiments.rows import ranked_study
from tests.experiments.rows.ranked_study import configuration_of, record_ranked
from tools.documents.pictures import draw_agreement
from tools.documents.tables import agreement, agreement_signs, markdown_of

PRINTED = {row.label: published_value("5.1", "SOP", row.printed, 128, "MAP@R").value for row in rows_of("5.1")}


@pytest.fixture(scope="module")
def faithful(tmp_path_factory):
    """A study with SOP's printed figures, three repeats."""
    return record_ranked(tmp_path_factory.mktemp("results") / "faithful", PRINTED, repeats=3, noise=0.1)


@pytest.fixture(scope="module")
def reversed_study(tmp_path_factory):
    means = {label: 80 - value for label, value in PRINTED.items()}
    return record_ranked(tmp_path_factory.mktemp("results") / "reversed", means, noise=0.05)


def of_table(study, table="thesis 5.1"):
    return next(of for of in study_agreement(study) if of.table == table)


def test_a_study_with_the_printed_figures_is_a_stand_in(faithful):
    found = of_table(faithful)
    sop = found.ranks["SOP"]
    assert sop.num_methods == 15
    assert sop.spearman.value > 0.95
    assert sop.verdict == STAND_IN
    on_cub = [published_value("5.1", "CUB", row.printed, 128, "MAP@R").value for row in rows_of("5.1")]
    among = scipy.stats.spearmanr(list(PRINTED.values()), on_cub).statistic
    assert found.ranks["CUB"].spearman.value == pytest.approx(among, abs=0.05)
    assert sop.spearman_ceiling.low <= among <= sop.spearman_ceiling.high
    assert verdict_line(found).startswith("Verdict on faithful beside thesis 5.1 (15 methods): stand-in for SOP")
    assert "All" not in found.ranks


def test_effects_are_those_of_memory_ccp_and_gsp(faithful):
    found = of_table(faithful)
    kinds = [effect.kind for effect in found.effects]
    assert {kind: kinds.count(kind) for kind in kinds} == {"memory": 1, "CCP": 1, "GSP": 7}
    memory = next(effect for effect in found.effects if effect.kind == "memory")
    assert (memory.label, memory.baseline) == ("c1+xbm+gap", "c1+gap")
    assert memory.printed == {"SOP": 8.05, "In-shop": 7.98, "CUB": 0.90, "Cars196": 2.92}
    assert memory.cell.estimate.mean == pytest.approx(0.0805, abs=0.002)
    assert sign_word(memory) == "agrees"


def test_a_study_that_reverses_print_is_no_stand_in_and_its_clear_effects_contradict(reversed_study):
    found = of_table(reversed_study)
    assert found.ranks["SOP"].verdict == "no stand-in"
    words = {effect.label: sign_word(effect) for effect in found.effects}
    assert words["c1+xbm+gap"] == words["c1+ccp+gap"] == "contradicts"
    # In-shop alone prints that GSP makes PNCA worse.
    assert words["pnca+gsp"] in ("mixed", "open")
    assert "0 of 9 on SOP" in sign_table([found]).notes[0]


def test_an_effect_of_one_training_is_open(tmp_path):
    found = of_table(record_ranked(tmp_path / "single", PRINTED, folds=1))
    assert {sign_word(effect) for effect in found.effects} == {"open"}


def test_the_benchmark_of_losses_is_compared_by_its_first_neighbour(tmp_path):
    losses = ("margin+distance", "margin+distance+rho", "triplet+distance", "npair", "ms", "arcface", "normsoftmax")
    study = record_ranked(tmp_path / "losses", {f"{loss}+gap": 50 + place for place, loss in enumerate(losses)})
    (found,) = study_agreement(study)
    assert (found.table, len(found.labels)) == ("Revisiting 2.2", 7)
    assert [(effect.kind, effect.label) for effect in found.effects] == [("regularisation", "margin+distance+rho+gap")]


def test_methods_without_every_fold_are_left_out_and_named(faithful):
    study = StudyRows(faithful.folder)
    study._scored = {key: of for key, of in study._scored.items() if (of.row["label"], of.row["fold"]) != ("ms+gsp", 2)}
    found = of_table(study)
    assert found.ranks["SOP"].num_methods == 14
    assert found.incomplete == ("ms+gsp",)
    assert "Of faithful, without every fold: ms+gsp." in ranking_table([found]).notes


def test_blocks_have_the_tables_and_their_origin(faithful):
    ranks = markdown_of(agreement, faithful)
    assert ranks.startswith(
        "| benchmark: published table | methods | Spearman | Spearman's ceiling | Kendall | Kendall's ceiling "
        "| Holm's p | verdict |"
    )
    assert "| faithful: thesis 5.1, SOP | 15 (6) | +" in ranks
    assert "Verdict on faithful beside thesis 5.1" in ranks
    assert "Spearman's coefficient above half of the mean ceiling" in ranks
    assert "; 180 runs; " in ranks
    signs = markdown_of(agreement_signs, faithful)
    assert "| faithful: thesis 5.1, c1+xbm+gap - c1+gap | memory | +8.0" in signs
    assert "| +8.05 | +7.98 | +0.90 | +2.92 | 4 of 4 | agrees |" in signs


def test_the_picture_has_a_line_a_data_set(faithful, tmp_path):
    heights = []
    for study in (
        faithful,
        record_ranked(tmp_path / "few", {label: value for label, value in PRINTED.items() if "+gsp" in label}),
    ):
        draw_agreement(study, tmp_path / "agreement.png", "Agreement")
        with Image.open(tmp_path / "agreement.png") as image:
            assert np.ptp(np.asarray(image.convert("L"))) > 100
            heights.append((image.height, sum(len(of.ranks) for of in study_agreement(study))))
    (tall, many), (low, few) = heights
    assert many > few
    assert tall - low == pytest.approx(45 * (many - few), abs=2)


@pytest.mark.parametrize("labels", [[], ["c1+gap", "c2+gap", "ms+gap", "pnca+gap"], ["c1+gem", "c2+gem", "ms+gem"]])
def test_too_few_printed_methods_are_refused(labels, tmp_path):
    study = record_ranked(tmp_path / "wrong", dict.fromkeys(labels, 40.0))
    with pytest.raises(InvalidInput, match=r"(?s)wrong cannot be compared: received .*expected .*--id=5.1"):
        study_agreement(study)


def test_methods_that_were_tested_on_other_queries_are_not_subtracted(tmp_path, monkeypatch):
    first = record_ranked(tmp_path / "first", {"c2+gap": 50})
    monkeypatch.setattr(ranked_study, "QUERIES", 20)
    second = record_ranked(tmp_path / "second", {"c2+gap": 50})
    with pytest.raises(InvalidInput, match="cannot be subtracted"):
        scores_of_trainings(first, "c2+gap").difference(scores_of_trainings(second, "c2+gap"), "MAP@R")


def test_rows_of_two_data_sets_are_refused(tmp_path):
    record_ranked(tmp_path / "mixed", PRINTED, folds=1)
    study = StudyRows(tmp_path / "mixed")
    next(iter(study._scored.values())).row["dataset"] = "cub200"
    with pytest.raises(InvalidInput, match=r"rows of cub200 .*, glyphs .*expected one data set"):
        study_agreement(study)


def figures_of(table, *names, **changes):
    return printed_methods(RANKINGS[table], {name: {**configuration_of(name), **changes} for name in names})


def test_all_rows_of_the_tables_are_found():
    names = [row.label for row in rows_of("5.1")]
    figures, _ = figures_of("thesis 5.1", *names)
    assert {dataset: len(of) for dataset, of in figures.items()} == dict.fromkeys(figures, 15)
    assert figures["SOP"]["pnca+gsp"] == 43.95
    assert figures["CUB"].keys() == set(names)
    chapter_3 = figures_of("thesis 3.1", *names, "softtriple+gap", "c2+ccp+gap")[0]["SOP"]
    assert chapter_3["c1+gap"] == 36.54
    assert len(chapter_3) == 10
    assert "c1+ccp+gsp" not in chapter_3


def test_the_benchmark_of_losses_is_found_where_it_prints_a_cell():
    found, _ = figures_of("Revisiting 2.2", "pnca+gap", "margin+distance+gap", "margin+distance+gsp", "c2+ccp+gap")
    assert found["CUB"] == {"pnca+gap": 62.80, "margin+distance+gap": 63.09}
    assert found["SOP"] == {"margin+distance+gap": 78.43}


def test_gsp_without_the_zero_shot_loss_is_another_row():
    assert figures_of("thesis 5.1", "pnca+gsp", zero_shot_weight=0.0)[0]["SOP"] == {}


def test_one_printed_row_stands_for_one_method():
    names = ("c2+gap", "c2+distance+gap", "triplet+distance+gap", "triplet+gap")
    found, twins = figures_of("Revisiting 2.2", *names)
    assert set(found["CUB"]) == {"c2+distance+gap", "triplet+distance+gap"}
    assert twins == ("c2+gap", "triplet+gap")
