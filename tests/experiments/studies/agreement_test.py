import csv
import shutil

import numpy as np
import pytest
import scipy.stats

from common.errors import InvalidInput
from experiments.reports.comparisons import holm
from experiments.studies import study_agreement
from experiments.studies.study_agreement import (
    ALL,
    NO_CEILING,
    NO_STAND_IN,
    OPEN,
    STAND_IN,
    Bounds,
    RankAgreement,
    rank_agreements,
    resampled_means,
)
from tests.command_line import run_study_here
from tests.experiments.rows.ranked_study import record_ranked

LOSSES = ("c1+gap", "c1+xbm+gap", "c1+ccp+gap", "c2+gap", "ms+gap", "triplet+gap", "pnca+gap", "panchor+gap")
NAMES = ("table_agreement", "table_agreement_signs")


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    folder = tmp_path_factory.mktemp("checkout") / "results"
    record_ranked(folder / "up", {label: 30 + place for place, label in enumerate(LOSSES)})
    record_ranked(folder / "down", {label: 40 - place for place, label in enumerate(LOSSES)})
    record_ranked(folder / "small", dict.fromkeys(LOSSES[:2], 30))
    return folder


def table(folder, name):
    with (folder / f"{name}.csv").open() as file:
        return list(csv.DictReader(file))


def test_tables_and_picture_of_two_studies_are_written(results, tmp_path, capsys):
    studies = f"--study={results / 'up'},{results / 'down'}"
    run_study_here("table", "--id=agreement", studies, f"--runs_dir={tmp_path}")
    shown = capsys.readouterr().out
    folder = tmp_path / "tables" / "agreement"
    expected = {f"{name}.{ending}" for name in NAMES for ending in ("md", "csv")} | {"table_agreement.png"}
    assert {path.name for path in folder.iterdir()} == expected
    assert f"Folder: {folder}" in shown
    rows = {row["benchmark: published table"]: row for row in table(folder, "table_agreement")}
    datasets = ("SOP", "In-shop", "CUB", "Cars196", "all")
    places = [f"{of}, {dataset}" for of in ("thesis 3.1", "thesis 5.1") for dataset in datasets]
    assert list(rows) == [f"{study}: {place}" for study in ("up", "down") for place in places]
    of_up, of_down = (float(rows[f"{study}: thesis 5.1, CUB"]["Spearman"].split()[0]) for study in ("up", "down"))
    assert of_up == -of_down
    assert "thesis 5.1, c1+ccp+gap - c1+gap" in shown
    for study in ("up", "down"):
        assert f"Verdict on {study} beside thesis 5.1 (8 methods): " in " ".join(shown.split())


def test_without_a_name_all_studies_that_can_be_compared_are(results, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(results.parent)
    run_study_here("table", "--id=agreement", f"--runs_dir={tmp_path}")
    shown = capsys.readouterr().out
    assert "up: thesis 5.1, SOP" in shown
    assert "down: thesis 5.1, SOP" in shown
    assert "small" not in shown


def test_wrong_studies_and_flags_are_named(results, tmp_path, monkeypatch):
    wrong = {
        (f"--study={results / 'small'}",): "small cannot be compared: received 2 methods",
        (f"--study={tmp_path / 'nowhere'}",): "nowhere cannot be compared: received no row of the fair protocol",
        ("--study=",): "Invalid --study: received an empty list",
        (f"--study={results / 'up'},{results / 'up'}/",): "more than once",
        (f"--study={results / 'up'}", "--repeats=2"): "--repeats would have no effect",
        (f"--study={results / 'up'}", "--run"): "--run would have no effect",
        (f"--study={results / 'up'}", "--dataset=sop"): "--dataset would have no effect",
    }
    for arguments, message in wrong.items():
        with pytest.raises(InvalidInput, match=message):
            run_study_here("table", "--id=agreement", *arguments, f"--runs_dir={tmp_path}")
    with pytest.raises(InvalidInput, match="--study would have no effect: only --id=agreement"):
        run_study_here("table", "--id=5.1", f"--study={results / 'up'}", f"--runs_dir={tmp_path}")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidInput, match=r"(?s)No recorded study can be compared.*results/<study>/rows.jsonl"):
        run_study_here("table", "--id=agreement", f"--runs_dir={tmp_path}")
    shutil.copytree(results / "small", tmp_path / "results" / "small")
    with pytest.raises(InvalidInput, match=r"(?s)No recorded study can be compared.*received 2 methods"):
        run_study_here("table", "--id=agreement", f"--runs_dir={tmp_path}")
    assert not (tmp_path / "tables").exists()


METHODS = [f"method {index}" for index in range(10)]


def constant(values):
    """Four runs of each method without any spread."""
    return {method: np.full((4, 1), value) for method, value in zip(METHODS, values)}


def printed(**columns):
    return {dataset: dict(zip(METHODS, values)) for dataset, values in columns.items()}


def test_coefficients_and_ceilings_equal_scipys():
    rng = np.random.default_rng(0)
    ours, first, second, third = rng.normal(size=(4, 10))
    found = rank_agreements(constant(ours), printed(a=first, b=second, c=third))
    assert list(found) == ["a", "b", "c", ALL]
    for name, oracle in (("spearman", scipy.stats.spearmanr), ("kendall", scipy.stats.kendalltau)):
        of = [oracle(ours, column).statistic for column in (first, second, third)]
        among = [oracle(*pair).statistic for pair in ((first, second), (first, third), (second, third))]
        assert getattr(found["a"], name).value == pytest.approx(of[0])
        assert getattr(found[ALL], name).value == pytest.approx(np.mean(of))
        of_b = among[0], among[2]
        assert getattr(found["b"], f"{name}_ceiling") == pytest.approx((np.mean(of_b), min(of_b), max(of_b)))
        assert getattr(found[ALL], f"{name}_ceiling") == pytest.approx((np.mean(among), min(among), max(among)))


def test_the_same_ranking_is_a_stand_in_and_the_reverse_is_none():
    values = np.arange(10.0)
    columns = printed(a=values, b=values + np.tile([0, 1.5], 5))
    same = rank_agreements(constant(np.exp(values)), columns)
    assert same["a"].spearman == (1, 1, 1)
    assert {of.verdict for of in same.values()} == {STAND_IN}
    assert {of.verdict for of in rank_agreements(constant(-values), columns).values()} == {NO_STAND_IN}


@pytest.mark.parametrize(
    ("value", "p", "ceiling", "verdict"),
    [
        (0.31, 0.049, 0.6, STAND_IN),
        (0.31, 0.051, 0.6, OPEN),
        (0.29, 0.049, 0.6, NO_STAND_IN),
        (-0.5, 0.051, 0.6, OPEN),
        (0.9, None, 0.0, NO_CEILING),
        (0.9, None, None, NO_CEILING),
    ],
)
def test_the_rule_compares_the_coefficient_with_half_of_the_ceiling(value, p, ceiling, verdict):
    of_print = None if ceiling is None else Bounds(ceiling, -1, 1)
    bounds = Bounds(value, -1, 1)
    assert RankAgreement(9, 9, bounds, bounds, of_print, of_print, p).verdict == verdict


def test_one_printed_data_set_has_no_ceiling_and_no_row_for_all():
    found = rank_agreements(constant(np.arange(10.0)), printed(a=np.arange(10.0)))
    assert list(found) == ["a"]
    assert found["a"].spearman_ceiling is None
    assert found["a"].verdict == NO_CEILING


def test_each_data_set_counts_the_methods_that_it_has():
    values = np.arange(10.0)
    columns = printed(a=values, b=values[:7], c=values[:4])
    found = rank_agreements(constant(values), columns)
    assert {name: of.num_methods for name, of in found.items()} == {"a": 10, "b": 7, ALL: 7}


@pytest.mark.parametrize(("folds", "repeats"), [(4, 1), (4, 3), (1, 2)])
def test_drawn_means_vary_as_the_mean_does(folds, repeats):
    values = np.random.default_rng(0).normal(size=(folds, repeats))
    (drawn,) = resampled_means([values], 40_000, np.random.default_rng(1)).T
    spread = values.var(axis=1, ddof=1) if repeats > 1 else values.var(axis=0, ddof=1)
    assert drawn.mean() == pytest.approx(values.mean(), abs=0.02)
    assert drawn.var() == pytest.approx(spread.mean() / values.size, rel=0.05)


def test_folds_are_drawn_together_for_all_methods():
    folds = np.array([[0.0], [5.0], [10.0], [20.0]])
    drawn = resampled_means([folds, folds + 1], 50, np.random.default_rng(0))
    np.testing.assert_allclose(drawn[:, 1] - drawn[:, 0], 1)


def test_noisy_trainings_widen_the_interval():
    values, rng = np.arange(10.0), np.random.default_rng(0)
    columns = printed(a=values, b=values[::-1])
    noisy = {method: mean + 4 * rng.normal(size=(4, 3)) for method, mean in zip(METHODS, values)}
    noisy = {method: of - of.mean() + mean for (method, of), mean in zip(noisy.items(), values)}
    sharp, blurred = (rank_agreements(trainings, columns)["a"].spearman for trainings in (constant(values), noisy))
    assert sharp.value == blurred.value == 1
    assert blurred.low < sharp.low


def test_a_loss_and_its_variants_are_drawn_together():
    """Variants with equal figures add nothing, so the interval is that of the losses alone."""
    values, figures = np.arange(6.0), np.array([0.0, 2, 1, 4, 3, 5])

    def interval(variants):
        labels = [f"loss{place}{variant}" for place in range(6) for variant in variants]
        trainings = dict(zip(labels, (np.full((4, 1), value) for value in values.repeat(len(variants)))))
        found = rank_agreements(trainings, {"a": dict(zip(labels, figures.repeat(len(variants))))})["a"]
        assert (found.num_methods, found.num_losses) == (len(labels), 6)
        return found.spearman

    alone, whole = interval(["+gap"]), interval(["+gap", "+gsp", "+xbm+gap", "+distance+rho+gap", "+ccp+gap, fixed"])
    assert (whole.low, whole.high) == pytest.approx((alone.low, alone.high), abs=0.06)


def test_variants_of_few_losses_are_not_enough():
    labels = [f"loss{place}+{pooling}" for place in range(4) for pooling in ("gap", "gsp")]
    trainings = {label: np.full((4, 1), float(place)) for place, label in enumerate(labels)}
    assert rank_agreements(trainings, {"a": dict(zip(labels, range(8)))}) == {}


def test_verdicts_follow_holm_over_the_rows_of_a_table(monkeypatch):
    values, rng = np.arange(10.0), np.random.default_rng(10)
    columns = printed(**{name: values + 4 * rng.normal(size=10) for name in "abc"})
    together = rank_agreements(constant(values), columns)
    monkeypatch.setattr(study_agreement, "holm", list)
    alone = rank_agreements(constant(values), columns)
    assert [of.p for of in together.values()] == pytest.approx(holm([of.p for of in alone.values()]))
    assert (alone["a"].verdict, together["a"].verdict) == (STAND_IN, OPEN)


def test_other_numbers_of_folds_are_refused():
    trainings = {**constant(np.arange(10.0)), METHODS[3]: np.zeros((2, 1))}
    with pytest.raises(InvalidInput, match="2 and 4 folds"):
        rank_agreements(trainings, printed(a=np.arange(10.0)))
