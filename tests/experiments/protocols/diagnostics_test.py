import numpy as np
import pytest

from common.diagnostics import diagnose, spectral_decay
from common.files import write_arrays, write_json
from common.retrieval import evaluate_retrieval
from experiments.protocols.diagnostics import correlation_table, points_of, runs_table
from experiments.rows.run_folders import collect
from tests.experiments.written_results import finished_result
from tests.support.command_line import check_clean_failure, run_here


def write_run(folder, method, fold, noise):
    """A finished unit whose embeddings are clusters with some noise."""
    rng = np.random.default_rng([len(method), fold])
    labels = np.repeat(np.arange(8), 5)
    embeddings = rng.normal(size=(8, 6))[labels] + noise * rng.normal(size=(40, 6))
    path = folder / "fair" / "glyphs" / f"{method}-0123456789" / f"fold{fold}-repeat0"
    write_arrays(path / "test_embeddings.npz", {"queries": embeddings, "query_labels": labels})
    test = evaluate_retrieval(embeddings, labels).as_dict()
    write_json(path / "result.json", finished_result(test, fold))
    return embeddings, labels, test


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    noises = {"pnca+gap": 0.2, "c2+gap": 0.6, "ms+gap": 1.0, "triplet+gsp": 1.6, "panchor+gmp": 2.4}
    found = {
        (method, fold): write_run(folder, method, fold, noise) for method, noise in noises.items() for fold in range(2)
    }
    return [row for rows in collect(folder, "fair", "glyphs") for row in rows], found


def test_every_run_is_a_point_with_its_own_diagnostics(runs):
    rows, found = runs
    points = points_of(rows, None, clustering=False)
    assert len(points) == 10
    for point in points:
        embeddings, labels, test = found[point.label.split(" fold ")[0], int(point.label.split()[2])]
        assert point.scores == {"MAP@R": test["MAP@R"], "P@1": test["P@1"]}
        assert point.figures == diagnose(embeddings, labels).figures
    table = correlation_table(points, "glyphs")
    assert table.title == "Diagnostics and retrieval on glyphs: 10 runs of 5 methods"
    cells = {row[0]: row for row in table.rows}
    assert float(cells["pi_intra"][2].split()[0]) < -0.8  # noise inside of classes, and nothing else, is what differs
    assert not any(cell.endswith("*") for row in table.rows for cell in row)
    assert any(note.startswith("Methods with one run per fold: 5.") for note in table.notes)
    few = correlation_table(points[:8], "glyphs")
    assert any(note.startswith("4 methods are too few") for note in few.notes)
    text = runs_table(points).as_csv().splitlines()
    assert len(text) == 11
    assert text[0].startswith("run,MAP@R (%),P@1 (%),rho,rho@2,pi_intra")


def test_intervals_without_zero_are_marked_where_every_method_has_repeats(runs):
    points = points_of(runs[0], None, clustering=False)
    repeated = [point._replace(fold=0) for point in points]  # two runs of fold 0 each
    table = correlation_table(repeated, "glyphs")
    assert {row[0]: row for row in table.rows}["pi_intra"][2].endswith("]*")
    assert any(note.startswith("* the interval excludes zero") for note in table.notes)
    one_without = [*repeated[:-1], repeated[-1]._replace(fold=1)]
    assert any(
        note.startswith("Methods with one run per fold: 1.") for note in correlation_table(one_without, "glyphs").notes
    )


def test_training_embeddings_and_the_gap_come_beside(runs):
    rng = np.random.default_rng(0)
    embeddings, labels = rng.normal(size=(20, 6)), np.repeat(np.arange(4), 5)
    of_training = {"figures": diagnose(embeddings, labels).as_dict(), "scores": {"MAP@R": 0.5, "P@1": 0.75}}
    points = points_of(runs[0], lambda row: of_training, clustering=False)
    assert points[0].figures["training rho"] == pytest.approx(spectral_decay(embeddings), rel=1e-6)
    assert "generalisation gap of MAP@R (share),generalisation gap of P@1 (share)" in runs_table(points).as_csv()
    assert points[0].figures["generalisation gap of P@1"] == pytest.approx(points[0].scores["P@1"] - 0.75)
    cells = {row[0]: row for row in correlation_table(points, "glyphs").rows}
    assert cells["training rho"][2:] == ["does not vary", "does not vary"]
    assert cells["generalisation gap of MAP@R"][2].startswith("+1.00")


def test_too_few_methods_end_the_command_and_what_is_left_out_is_named(tmp_path):
    write_run(tmp_path, "pnca+gap", 0, 0.2)
    (damaged,) = tmp_path.rglob("result.json")
    damaged.write_text("{")
    finished = run_here("experiments.figure", "--id=milbich_2.4", f"--runs_dir={tmp_path}")
    assert f"warning: {damaged} is damaged" in finished.stderr
    check_clean_failure(finished, "--runs_dir", "with 0 method(s)", "fair/glyphs", "python -m experiments.fair_eval")


@pytest.mark.parametrize(
    ("arguments", "phrases"),
    [
        (["--seed=3", "--data_dir=data"], ["--data_dir, --seed would have no effect", "--training"]),
        (["--protocol=fold"], ["--protocol", "'fold'", "fair, conventional, held_out"]),
    ],
)
def test_what_the_command_would_not_read_is_refused(arguments, phrases, tmp_path):
    check_clean_failure(
        run_here("experiments.figure", "--id=milbich_2.4", f"--runs_dir={tmp_path}", *arguments), *phrases
    )
