import csv
import subprocess
import sys

import numpy as np
import pytest
import scipy.stats

from common.errors import InvalidInput
from experiments.reports import claim_verdict, summary_over_sets
from experiments.studies.claims import held_claims, recorded_studies
from experiments.studies.planned import CLAIMS
from tests.command_line import run_study_here
from tests.experiments.rows.ranked_study import record_ranked

C2, MEMORY, CCP, FIXED = "c2+gap", "c2+xbm+gap", "c2+ccp+gap", "c2+ccp+gap, fixed members"


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """Four studies of three data sets, where emoji count once, and one whose baselines have learned nothing."""
    folder = tmp_path_factory.mktemp("checkout") / "results"
    means = {C2: 20, MEMORY: 21, CCP: 24}
    record_ranked(folder / "planned_emoji", {**means, FIXED: 25}, noise=0.2, dataset="emoji")
    record_ranked(folder / "planned_clutter", {**means, CCP: 22}, noise=0.2, dataset="emoji_clutter_32")
    record_ranked(folder / "planned_cars", {C2: 10, MEMORY: 9}, noise=0.2, dataset="cars196")
    record_ranked(folder / "planned_digits", {C2: 20, MEMORY: 19}, noise=0.2, dataset="mnist")
    floor = {C2: 0.4, MEMORY: 4, "c1+gap": 0.4, "c1+ccp+gap": 4}
    record_ranked(folder / "planned_floor", floor, noise=0.02, class_spread=0.3, dataset="sop")
    record_ranked(folder / "other", {C2: 10, MEMORY: 5})
    return folder


def table(folder, name="table_claims"):
    with (folder / f"{name}.csv").open() as file:
        return {next(iter(row.values())): row for row in csv.DictReader(file)}


def test_sets_are_averaged_and_the_thesis_stands_beside(results, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(results.parent)
    run_study_here("table", "--id=claims", f"--runs_dir={tmp_path}")
    folder, shown = tmp_path / "tables" / "claims", capsys.readouterr().out
    assert f"Not yet run: {len(CLAIMS) - 4} of {len(CLAIMS)} planned comparisons." in shown.replace("\n    ", " ")
    rows = table(folder)
    memory = rows["C2 + memory"]
    assert memory["thesis (%)"] == "+1.9 to +5.8"
    of_sets = {name: float(memory[f"{name} (%)"].split()[0]) for name in ("emoji", "clutter", "cars", "digits")}
    np.testing.assert_allclose(list(of_sets.values()), [5, 5, -10, -5], atol=1.5)
    sets = (of_sets["emoji"] + of_sets["clutter"]) / 2, of_sets["cars"], of_sets["digits"]
    bounds = scipy.stats.t.interval(0.95, 2, np.mean(sets), scipy.stats.sem(sets))
    mean, low, high = (float(part.strip("[],")) for part in memory["mean over sets (%)"].split())
    np.testing.assert_allclose([mean, low, high], [np.mean(sets), *bounds], atol=0.8)
    assert memory["verdict"] == "fails"  # two sets of three have no gain
    ccp = rows["C2 + CCP"]
    assert (ccp["cars (%)"], ccp["verdict"]) == ("-", "undecided")
    assert "MS + CCP" not in rows
    only_at_floor = rows["C1 + CCP"]
    assert only_at_floor["floor (%)"].startswith("(+")
    assert only_at_floor["floor (%)"].endswith(")")
    assert (only_at_floor["mean over sets (%)"], only_at_floor["verdict"]) == ("-", "undecided")
    assert memory["floor (%)"].startswith("(+")
    assert "so the study does not count" in shown.replace("\n    ", " ")
    assert "*" in table(folder, "table_claims_differences")["c2+ccp+gap - c2+gap"]["difference, MAP@R"]
    assert (folder / "table_claims.png").stat().st_size > 10_000
    assert max(map(len, shown.splitlines()[:-1])) <= 100


def test_each_claim_is_between_rows_of_the_planned_table():
    from experiments.plans.study import StudyOptions
    from experiments.studies.planned import planned_comparisons

    sets = ("emoji", "emoji_clutter_32")
    labels = {label for name in sets for label in planned_comparisons(StudyOptions(name, "smoke")).rows}
    assert {name for claim in CLAIMS for name in claim.methods} <= labels


def test_wrong_studies_and_flags_are_named(results, tmp_path):
    with pytest.raises(InvalidInput, match="No planned comparison can be made: received .*nowhere"):
        run_study_here("table", "--id=claims", f"--study={tmp_path / 'nowhere'}", f"--runs_dir={tmp_path}")
    with pytest.raises(InvalidInput, match="--repeats would have no effect"):
        run_study_here("table", "--id=claims", f"--study={results / 'planned_emoji'}", "--repeats=2")


@pytest.mark.parametrize(
    ("differences", "loss", "smallest", "verdict"),
    [
        ([0.10, 0.11, 0.12], False, 0.02, "holds"),
        ([0.10, 0.11, 0.12], True, 0.02, "undecided"),
        ([0.10, 0.01, 0.30], False, 0.02, "undecided"),
        ([0.10, 0.0, 0.0], False, 0.02, "fails"),
        ([0.0, 0.0], False, 0.02, "undecided"),
        ([0.010, 0.011, 0.012], False, 0.05, "fails"),
    ],
)
def test_a_claim_is_judged_by_the_rule_of_the_plan(differences, loss, smallest, verdict):
    assert claim_verdict(summary_over_sets(differences), loss, smallest) == verdict


def test_figures_are_rebuilt_by_other_code(results, tmp_path):
    page = tmp_path / "claims.md"
    held = held_claims(recorded_studies(results))
    from experiments.studies.claims import claims_table, differences_table

    page.write_text("\n\n".join(of(held).as_markdown() for of in (claims_table, differences_table)))
    command = [sys.executable, "tools/rebuild_claims.py", str(page), str(results)]
    finished = subprocess.run(command, capture_output=True, text=True)
    assert finished.returncode == 0, finished.stdout + finished.stderr
    page.write_text(page.read_text().replace("+4.", "+5."))
    assert subprocess.run(command, capture_output=True).returncode == 1
