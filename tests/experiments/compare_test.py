import numpy as np
import pytest

from common.errors import InvalidInput
from common.retrieval import evaluate_retrieval
from experiments.protocols import run_pairs
from experiments.rows.run_folders import collect
from experiments.runs.unit_runs import UnitRuns
from tests.support.command_line import check_clean_failure, run_here

COMPARE, RERUN = "experiments.compare", "experiments.rerun"


@pytest.fixture
def sides(tiny):
    """Folders of average and of generalised sum pooling."""
    return sorted(rows[0].folder.parent for rows in collect(tiny.folder))


def test_two_configurations_differ_in_what_the_rows_say(sides, tiny, tmp_path):
    done = run_here(COMPARE, *map(str, sides), f"--output={tmp_path / 'out'}")
    assert done.returncode == 0, done.stderr
    settings, figures, classes, queries = done.stdout.split("\n\n")[:4]
    assert ["pooling", "gap", "gsp"] in [line.split() for line in settings.splitlines()]
    rows = [run_pairs.runs_of(str(side)) for side in sides]
    means = [100 * np.mean([row["test"]["MAP@R"] for row in of]) for of in rows]
    (line,) = [line for line in figures.splitlines() if line.startswith("MAP@R")]
    assert line.split()[2:5] == [f"{means[0]:.2f}", f"{means[1]:.2f}", f"{means[1] - means[0]:+.2f}"]
    gains = [float(line.split()[4]) for line in classes.splitlines() if line.startswith("class ")]
    assert f"{sum(gain > 0 for gain in gains)} of {len(rows[0][0].scored().labels)} gain" in classes
    assert gains == sorted(gains, reverse=True)
    hits = []
    for of in rows:
        found = [row.test_embeddings() for row in of]
        found = [evaluate_retrieval(each["queries"], each["query_labels"]).per_query["P@1"] for each in found]
        hits.append(np.sum(found, axis=0))
    assert f"{(hits[1] > hits[0]).sum()} of {len(hits[0])} queries do better with pnca+gsp" in queries
    assert f"{(hits[1] < hits[0]).sum()} with pnca+gap" in queries
    written = (tmp_path / "out" / "queries.csv").read_text().splitlines()
    assert written[0] == "query,pnca+gap,pnca+gsp"
    assert [line.split(",")[1:] for line in written[1:]] == [[f"{a:.0f}", f"{b:.0f}"] for a, b in zip(*hits)]
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"comparison.md", "curves.png", "queries.csv"}


def test_recorded_rows_are_compared_without_queries(recorded):
    done = run_here(COMPARE, f"{recorded}#pnca+gap", f"{recorded}#pnca+gsp")
    assert done.returncode == 0, done.stderr
    assert "MAP@R by test class" in done.stdout
    assert "Nearest neighbour" not in done.stdout


def test_only_folds_of_both_sides_are_compared(sides):
    first, second = run_pairs.paired(
        run_pairs.runs_of(str(sides[0])), run_pairs.runs_of(str(sides[1] / "fold1-repeat0"))
    )
    assert [row.place for row in (*first, *second)] == [(1, 0), (1, 0)]
    with pytest.raises(InvalidInput, match="a fold and repeat that both have"):
        run_pairs.paired(first, [row for row in run_pairs.runs_of(str(sides[1])) if row.place == (0, 0)])


@pytest.mark.parametrize(
    ("module", "places", "phrases"),
    [
        (COMPARE, ["{first}"], ["two"]),
        (COMPARE, ["{first}", "nothing"], ["'nothing'", "STUDY#LABEL"]),
        (COMPARE, ["{study}", "{first}"], ["#LABEL with one of: pnca+gap; pnca+gsp"]),
        (RERUN, [], ["one: of the run"]),
        (RERUN, ["{study}#pnca+gap", "--fold=7"], ["one of: fold 0 repeat 0, fold 1 repeat 0"]),
    ],
)
def test_wrong_places_are_named(module, places, phrases, sides, recorded):
    named = [place.format(first=sides[0], study=recorded) for place in places]
    check_clean_failure(run_here(module, *named), *phrases)


def test_a_recorded_run_is_trained_again(tmp_path, glyph_cache, tiny_network, monkeypatch):
    places = [f"--runs_dir={tmp_path / 'runs'}", f"--cache_dir={glyph_cache}"]
    study = tmp_path / "study"
    wanted = ["--dataset=glyphs", "--loss=c2", "--pooling=gap", "--budget=smoke", "--fold=1", f"--record={study}"]
    done = run_here("experiments.fair_eval", *wanted, *places)
    assert done.returncode == 0, done.stderr
    for kind in ("md", "tex"):  # a report of one fold has its figures
        (report,) = (tmp_path / "runs").rglob(f"report.{kind}")
        assert "gap fold 1 repeat 0: P@1" in report.read_text()
    again = [str(study), f"--runs_dir={tmp_path / 'again'}", places[1]]
    done = run_here(RERUN, *again)
    assert done.returncode == 0, done.stderr
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("MAP@R")]
    assert line.split()[2] == line.split()[3]
    assert line.split()[4] == "+0.00"
    assert "All figures are equal in every digit." in done.stdout
    (result,) = (tmp_path / "again").rglob("result.json")
    assert result.parent.name == "fold1-repeat0"
    (tmp_path / "run.flags").write_text(run_here(RERUN, *again, "--print_flags").stdout)
    same = run_here("experiments.fair_eval", f"--flagfile={tmp_path / 'run.flags'}", "--fold=1", *again[1:])
    assert same.returncode == 0, same.stderr
    assert [*(tmp_path / "again").rglob("result.json")] == [result]
    monkeypatch.setattr(UnitRuns, "fingerprint", "of others")
    check_clean_failure(run_here(RERUN, *again), "received 'of others'", "as recorded", "--data_dir")
