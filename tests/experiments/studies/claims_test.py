import csv
import json
import subprocess
import sys

import numpy as np
import pytest
import scipy.stats

from common.errors import InvalidInput
from experiments.reports import claim_verdict, summary_over_sets
from experiments.rows.store import RECORDED, ROWS, StudyRows
from experiments.studies.claims import claims_table, held_claims, recorded_studies
from experiments.studies.planned import CLAIMS
from tests.experiments.rows.ranked_study import record_ranked
from tests.support.command_line import run_study_here

C2, MEMORY, CCP, FIXED = "c2+gap", "c2+xbm+gap", "c2+ccp+gap", "c2+ccp+gap, fixed members"
ALTERNATION = "alternation with C2"


def edit_rows(folder, edit):
    """Rewrite a study's rows after `edit(row)`."""
    rows = [json.loads(line) for line in (folder / ROWS).read_text().splitlines()]
    for row in rows:
        edit(row)
    (folder / ROWS).write_text("".join(json.dumps(row) + "\n" for row in rows))


def fill(row):
    """Add what lets a study count: features below the method, a late start, two converged problems."""
    row["validation"], row["untrained"] = {"MAP@R": 0.5}, {"MAP@R": 0.001}
    row["extras"]["closed_form"] = {"whitening": {"MAP@R": 0.002}}
    if row["label"] == MEMORY:
        row["configuration"]["memory_start"] = 100
        row["extras"]["validation_curve"] = [[50, 0.3], [100, 0.46], [150, 0.6]]
    elif "ccp" in row["label"]:
        problem = {"start_step": 100, "best_before": 0.45, "outcome": "converged"}
        row["extras"]["problems"] = [problem, problem, {**problem, "outcome": None}]


def study(folder, means, **arguments):
    record_ranked(folder, means, **{"noise": 0.2, **arguments})
    edit_rows(folder, fill)


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """Six studies of five data sets, where emoji count once, and one whose baselines have learned nothing."""
    folder = tmp_path_factory.mktemp("checkout") / RECORDED
    means = {C2: 20, MEMORY: 21, CCP: 24}
    study(folder / "planned_emoji", {**means, FIXED: 25}, dataset="emoji")
    study(folder / "planned_emoji_clutter_32", {**means, CCP: 22}, dataset="emoji_clutter_32")
    study(folder / "planned_cars196", {C2: 10, MEMORY: 9}, dataset="cars196")
    for name in ("mnist", "cub200", "inshop"):
        study(folder / f"planned_{name}", {C2: 20, MEMORY: 19}, dataset=name)
    floor = {C2: 0.4, MEMORY: 4, "c1+gap": 0.4, "c1+ccp+gap": 4}
    study(folder / "planned_floor", floor, noise=0.02, class_spread=0.3, dataset="sop")
    record_ranked(folder / "other", {C2: 10, MEMORY: 5})
    return folder


def table(folder, name="table_claims_planned"):
    with (folder / f"{name}.csv").open() as file:
        return {next(iter(row.values())): row for row in csv.DictReader(file)}


def test_sets_are_averaged_and_the_thesis_stands_beside(results, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(results.parents[2])
    run_study_here("table", "--id=claims", f"--runs_dir={tmp_path}")
    folder, shown = tmp_path / "tables" / "claims", capsys.readouterr().out
    assert f"Not yet run: {len(CLAIMS) - 4} of {len(CLAIMS)} planned comparisons." in shown.replace("\n    ", " ")
    rows = table(folder)
    memory = rows["memory with C2"]
    assert memory["thesis"] == "+1.9 to +5.8"
    names = {"emoji": 5, "cluttered emoji": 5, "half of Cars196": -10, "mnist": -5, "cub200": -5, "inshop": -5}
    of_sets = {name: float(memory[name].split()[0]) for name in names}
    np.testing.assert_allclose(list(of_sets.values()), list(names.values()), atol=1.5)
    of_emoji = of_sets.pop("emoji"), of_sets.pop("cluttered emoji")
    sets = (np.mean(of_emoji), *of_sets.values())
    bounds = scipy.stats.t.interval(0.95, 4, np.mean(sets), scipy.stats.sem(sets))
    mean, low, high = (float(part.strip("[],")) for part in memory["mean"].split())
    np.testing.assert_allclose([mean, low, high], [np.mean(sets), *bounds], atol=0.8)
    assert (memory["sets"], memory["verdict"]) == ("5", "undecided")
    ccp = rows["CCP with C2"]
    assert (ccp["half of Cars196"], ccp["verdict"]) == ("-", "undecided")
    assert "CCP with multi-similarity" not in rows
    only_at_floor = rows["CCP with C1"]
    assert only_at_floor["floor"].startswith("(+")
    assert only_at_floor["floor"].endswith(") a")
    assert (only_at_floor["mean"], only_at_floor["verdict"]) == ("-", "undecided")
    assert memory["floor"].startswith("(+")
    assert "a: the baseline has a MAP@R below 1 %" in shown.replace("\n    ", " ")
    assert "*" in table(folder, "table_claims_planned_differences")["CCP with C2"]["difference, MAP@R"]
    assert (folder / "table_claims_planned.png").stat().st_size > 10_000
    assert max(map(len, shown.splitlines()[:-1])) <= 100


def claim(held, text):
    (found,) = [of for of in held if of.claim.text == text]
    return found


def test_a_verdict_needs_five_sets_and_names_the_study_it_hangs_on(tmp_path):
    sets = {"emoji": 25, "emoji_on_photographs": 24, "cars196": 25, "mnist": 24, "cub200": 25, "inshop": 24}
    for name, mean in sets.items():
        study(tmp_path / f"planned_{name}", {C2: 20, CCP: mean}, dataset=name)
    studies = recorded_studies(tmp_path)
    row, *_ = claims_table(held_claims(studies)).rows
    assert row[1:3] == ["holds", "5"]
    others = "; undecided without ".join(["", "half of Cars196", "cub200", "inshop", "mnist"])
    assert row[4] == f"holds 2 of 6{others}"  # without one of two studies emoji are still a set
    fewer = claim(held_claims(studies[:-1]), "CCP with C2")
    assert (fewer.verdict(), fewer.summary().low > 0) == ("undecided", True)


def before(**figures):
    return {name: {"MAP@R": value} for name, value in figures.items()}


@pytest.mark.parametrize(
    ("label", "edit", "objections"),
    [
        ("", lambda row: None, ""),
        (FIXED, lambda row: row.update(untrained={"MAP@R": 0.26}), "a"),
        (FIXED, lambda row: row["extras"].update(closed_form=before(whitening=0.26)), "a"),
        (FIXED, lambda row: row["extras"].update(closed_form={}), "a"),  # unknown
        (FIXED, lambda row: row["extras"].update(validation_before=before(untrained=0.1, whitening=0.6)), "a"),
        (FIXED, lambda row: row["extras"].update(validation_before=before(untrained=0.6, whitening=0.1)), "a"),
        (
            FIXED,
            lambda row: (
                row.update(untrained={"MAP@R": 0.26}),
                row["extras"].update(validation_before=before(untrained=0.1, whitening=0.1)),
            ),
            "",
        ),
        (C2, lambda row: row["fold"] or row["validation"].update({"MAP@R": 0.51}), "b"),  # one run is enough
        (
            CCP,
            lambda row: row["extras"].update(
                problems=[{**row["extras"]["problems"][0], "best_before": 0.1}] * 2,
                validation_curve=[[10, 0.1], [20, 0.3], [40, 0.2], [60, 0.3], [80, 0.25], [100, 0.1], [200, 0.9]],
            ),
            "",
        ),
        (
            CCP,
            lambda row: row["extras"].update(
                problems=[{**row["extras"]["problems"][0], "best_before": 0.1}] * 2,
                validation_curve=[[10, 0.1], [20, 0.2], [40, 0.2], [60, 0.3], [80, 0.25], [100, 0.1], [200, 0.1]],
            ),
            "b",
        ),
        (CCP, lambda row: row["fold"] or row["extras"]["problems"].pop(0), "c"),  # here, too
        (CCP, lambda row: row["extras"].update(problems=[]), "bc"),
    ],
)
def test_a_study_counts_by_its_baseline_its_start_and_its_problems(label, edit, objections, tmp_path):
    folder = tmp_path / "planned_emoji"
    study(folder, {C2: 20, CCP: 24, FIXED: 25}, dataset="emoji")
    edit_rows(folder, lambda row: edit(row) if row["label"] == label else None)
    held = held_claims([StudyRows(folder)])
    assert claim(held, ALTERNATION).found[0].objections == objections
    page = tmp_path / "claims.md"
    page.write_text(claims_table(held).as_markdown())
    assert rebuilt(page, tmp_path).returncode == 0


@pytest.mark.parametrize(
    ("start", "curve", "objections"),
    [(50, [[100, 0.5]], "b"), (100, [[100, 0.45]], ""), (100, [[100, 0.44], [200, 0.5]], "b"), (100, [], "b")],
)
def test_a_memory_counts_by_the_validations_before_its_start(start, curve, objections, tmp_path):
    folder = tmp_path / "planned_emoji"
    study(folder, {C2: 20, MEMORY: 24}, dataset="emoji")

    def edit(row):
        if row["label"] == MEMORY:
            row["configuration"]["memory_start"], row["extras"]["validation_curve"] = start, curve

    edit_rows(folder, edit)
    assert claim(held_claims([StudyRows(folder)]), "memory with C2").found[0].objections == objections


def test_each_claim_is_between_rows_of_the_planned_table():
    from experiments.plans.study import StudyOptions
    from experiments.studies.planned import planned_comparisons

    sets = ("emoji", "emoji_clutter_32")
    labels = {label for name in sets for label in planned_comparisons(StudyOptions(name, "smoke")).rows}
    assert {name for claim in CLAIMS for name in claim.methods} <= labels


def test_arms_are_judged_apart_and_count_by_their_problems(tmp_path):
    arms = {C2: 20, CCP: 24, f"{CCP}, one problem": 23, f"{CCP}, random members": 22}
    for name in ("emoji", "mnist"):
        study(tmp_path / f"arms_{name}", arms, dataset=name)
    edit_rows(tmp_path / "arms_mnist", lambda row: row["fold"] or row["extras"].get("problems", [0]).pop(0))
    studies = f"{tmp_path}/arms_emoji,{tmp_path}/arms_mnist"
    run_study_here("table", "--id=claims", f"--study={studies}", f"--runs_dir={tmp_path}")
    rows = table(tmp_path / "tables" / "claims", "table_claims_arms")
    assert list(rows) == [f"{of} with C2, converged" for of in ("CCP", "alternation", "k-center")]
    assert [row["emoji"][:2] for row in rows.values()] == ["+2", "+4", "+9"]
    assert [row["mnist"][-1] for row in rows.values()] == ["c"] * 3
    assert {row["sets"] for row in rows.values()} == {"1"}
    page = tmp_path / "claims.md"
    page.write_text(claims_table(held_claims(recorded_studies(tmp_path, "arms"), "arms")).as_markdown())
    finished = rebuilt(page, tmp_path)
    assert finished.returncode == 0, finished.stdout


def test_wrong_studies_and_flags_are_named(results, tmp_path):
    with pytest.raises(InvalidInput, match="No planned comparison can be made: received .*nowhere"):
        run_study_here("table", "--id=claims", f"--study={tmp_path / 'nowhere'}", f"--runs_dir={tmp_path}")
    with pytest.raises(InvalidInput, match="--repeats would have no effect"):
        run_study_here("table", "--id=claims", f"--study={results / 'planned_emoji'}", "--repeats=2")


@pytest.mark.parametrize(
    ("differences", "smallest", "verdict"),
    [
        ([0.10, 0.11, 0.12, 0.10, 0.11], 0.02, "holds"),
        ([0.10, 0.11, 0.12, 0.10], 0.02, "undecided"),  # too few sets
        ([0.10, 0.01, 0.30, 0.0, -0.05], 0.02, "undecided"),
        (
            [-0.10, -0.01, 0.0, 0.0, 0.2],
            0.02,
            "undecided",
        ),  # a gain of the thesis' size is possible
        ([0.010, 0.011, 0.012, 0.010, 0.011], 0.05, "fails"),
        ([-0.010, -0.011, -0.012, -0.010, -0.011], -0.1, "fails"),
    ],
)
def test_a_claim_is_judged_by_the_interval_over_sets(differences, smallest, verdict):
    assert claim_verdict(summary_over_sets(differences), smallest) == verdict


def rebuilt(page, results):
    command = [sys.executable, "tools/rebuild_claims.py", str(page), str(results)]
    return subprocess.run(command, capture_output=True, text=True)


def test_figures_are_rebuilt_by_other_code(results, tmp_path):
    page = tmp_path / "claims.md"
    held = held_claims(recorded_studies(results))
    page.write_text(claims_table(held).as_markdown())
    finished = rebuilt(page, results)
    assert finished.returncode == 0, finished.stdout + finished.stderr
    text = page.read_text()
    assert "+5." in text
    page.write_text(text.replace("+5.", "+4."))
    assert rebuilt(page, results).returncode == 1
    assert rebuilt(page, tmp_path / "nowhere").returncode == 1
    done = subprocess.run([sys.executable, "tools/rebuild_claims.py"], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "Every figure was rebuilt.\n")  # of this repository's page
