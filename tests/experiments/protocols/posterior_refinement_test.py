import json
import pathlib
import types

import numpy as np
import pytest

from common.errors import InvalidInput
from common.records import RunDirectory
from common.retrieval import evaluate_retrieval
from common.training import EmbeddingHead
from experiments.protocols.posterior_refinement import (
    DRAWN,
    METRICS,
    kept,
    mean_over_runs,
    notes_on,
    parse_ratios,
    refinements,
    runs_in,
    write_report,
)
from experiments.recipes import resolve
from experiments.rows.run_folders import run_row
from experiments.runs.trained_model import TrainedModel, load_trained_model
from experiments.runs.trunk import trunk_of
from experiments.settings import build
from experiments.settings.splits import split_of
from tests.experiments.patterned_images import noisy_pictures
from tests.experiments.written_results import finished_result
from tests.support.command_line import check_clean_failure, run_here

OVERRIDES = {"embedding_dim": 4, "image_size": 16, "num_folds": 2}


def noisy_dataset(**gallery):
    """Twelve training classes and five test classes of six noisy images."""
    return noisy_pictures("glyphs", 12, 5, noise=120, copies=6, deviations=("noise",), **gallery)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run directory of an untrained network, its data, and the embeddings of its test set and its gallery."""
    dataset = noisy_dataset(gallery_copies=4)
    config = resolve("glyphs", "pnca", "gap", "thesis", "smoke", OVERRIDES)
    identity = {**config.identity(build.data_fingerprint(dataset)), "fold": 1, "repeat": 0}
    directory = RunDirectory(tmp_path_factory.mktemp("run"), identity)
    model = build.build_model(config, dataset, 6)
    batch = next(iter(build.build_inputs(config, dataset)(dataset.train.subset(np.arange(2)))))
    model.build_from_batch(batch, np.arange(2))
    parts = (dataset.test, dataset.gallery)
    embeddings = [model.embed(build.build_inputs(config, dataset)(examples)) for examples in parts]
    directory.write_result({"test": {"P@1": 0.5}}, {"queries": embeddings[0]}, model.get_weights())
    return directory.path, dataset, embeddings


@pytest.fixture(scope="module")
def trunk(run):
    return trunk_of(load_trained_model(run[0], dataset=run[1]))


def test_the_trunk_and_its_neck_make_the_embeddings(run, trunk):
    _, dataset, (queries, gallery) = run
    for features, embeddings in ((trunk.queries, queries), (trunk.gallery, gallery)):
        projected = features @ trunk.neck
        projected /= np.linalg.norm(projected, axis=1, keepdims=True)
        np.testing.assert_allclose(projected, embeddings, atol=2e-5)
    training = split_of(dataset, trunk.config, 1, 0).training
    assert len(trunk.training) == len(training) == 36
    assert trunk.neck.shape == (trunk.queries.shape[1], 4)


@pytest.mark.parametrize("with_gallery", [True, False])
def test_the_trained_row_is_the_run_and_the_identity_its_raw_features(run, trunk, with_gallery):
    trunk = trunk if with_gallery else trunk._replace(gallery=None, gallery_labels=None)
    queries, gallery = run[2]
    others = (gallery, trunk.gallery_labels) if with_gallery else ()
    rows = refinements(trunk, ["identity"], [0.5], draws=2, seed=0)
    assert [row.label.split(",")[0] for row in rows] == ["as trained", "identity", "PCA of the trunk", "random axes"]
    expected = evaluate_retrieval(queries, trunk.query_labels, *others).as_dict()
    assert rows[0].scores["normalised"]["MAP@R"] == [pytest.approx(expected["MAP@R"], abs=1e-3)]
    others = (trunk.gallery, trunk.gallery_labels) if with_gallery else ()
    raw = evaluate_retrieval(trunk.queries, trunk.query_labels, *others, similarity="inner_product").as_dict()
    assert rows[1].scores["as it is"]["MAP@R"] == [pytest.approx(raw["MAP@R"])]
    channels = trunk.queries.shape[1]
    assert [row.properties.rank for row in rows] == [4, channels, 4, 4]
    assert [len(row.scores["normalised"]["P@1"]) for row in rows] == [1, 1, 1, 2]


def test_a_neck_that_leaves_nothing_out_has_no_control_of_its_size(trunk):
    channels = trunk.queries.shape[1]
    wide = trunk._replace(neck=np.random.default_rng(0).normal(size=(channels, channels + 3)))
    rows = refinements(wide, ["identity"], [0.5], draws=1, seed=0)
    assert [row.label for row in rows] == [
        f"as trained, {channels} of {channels} dimensions",
        f"identity, all {channels}",
    ]
    assert "would be the identity" in notes_on(wide, 1)[0]
    assert "would be the identity" not in notes_on(trunk, 1)[0]


def test_the_report_has_every_ratio_and_a_picture_a_metric_and_mode(trunk, tmp_path):
    rows = refinements(trunk, ["D", "R"], [0.0, 0.5, 1.0], draws=2, seed=0)
    labels = ["D(0)", "D(0.5)", "D(1)", "R(0)", "R(0.5)", "R(1)"]
    assert [row.label for row in rows[1:-2]] == labels
    assert [len(row.scores["normalised"]["MAP@R"]) for row in rows[1:-2]] == [1, 2, 1, 1, 2, 1]
    assert rows[1].scores == rows[0].scores
    assert rows[3].properties.trace == 0 > rows[3].properties.smallest_eigenvalue
    printed = write_report(trunk, rows, tmp_path, draws=2)
    stored = json.loads((tmp_path / "posterior_refinement.json").read_text())
    assert [row["ratio"] for row in stored["rows"]] == [None, 0.0, 0.5, 1.0, 0.0, 0.5, 1.0, None, None]
    mean = 100 * np.mean(rows[5].scores["as it is"]["P@R"])
    *_, line = (line for line in printed.splitlines() if line.startswith("R(0.5)"))  # of the last block of columns
    assert line.endswith(f"{mean:.2f}")
    pictures = sorted(path.name for path in tmp_path.glob("*.png"))
    names = [f"{metric}_{mode}" for metric in ("MAP@R", "P@1") for mode in ("as_it_is", "normalised", "unit_features")]
    assert pictures == [f"posterior_refinement_{name}.png" for name in names]
    assert str(tmp_path / pictures[0]) in printed
    assert "mean of 2 draws" in " ".join(printed.split())


def test_a_row_keeps_means_of_the_draws_and_the_class_sums_behind_them(trunk):
    rows = refinements(trunk, ["D"], [0.5], draws=3, seed=0)
    row_of_run = kept(run_row(pathlib.Path(), 0, 0, {}, {}), rows, draws=3)
    values, arrays = row_of_run["extras"]["posterior_refinement"], row_of_run.arrays
    assert values["draws"] == 3
    assert [of["label"] for of in values["matrices"]] == [row.label for row in rows]
    for place, (row, stored) in enumerate(zip(rows, values["matrices"])):
        assert stored["trace"] == row.properties.trace
        for metric in DRAWN:
            mean = np.mean(row.scores["normalised"][metric])
            assert stored["scores"]["normalised"][metric] == pytest.approx(mean, abs=1e-6)
            sums = arrays[f"refined {metric}"]
            assert sums.shape == (4, 5)
            assert sums.dtype == np.float32
            assert sums[place].sum() / len(trunk.query_labels) == pytest.approx(mean, abs=1e-6)
    assert json.loads(json.dumps(values)) == values


def test_the_print_is_named_where_it_has_the_loss_and_the_data(trunk):
    assert not any("prints" in note for note in notes_on(trunk, 1))
    cars = trunk._replace(config=resolve("cars196", "pnca", "gap", "thesis", "smoke", {}))
    note = next(note for note in notes_on(cars, 1) if "prints" in note)
    assert "(MAP@R / P@1 / P@R; BN-Inception, mean of four folds)" in note
    assert "as trained 18.85 / 73.91 / 29.43; identity 18.43 / 80.10 / 28.27; best" in note
    assert "best restraint 19.58 / 79.82 / 29.76" in note


def test_several_runs_are_one_table_of_means(run, trunk, tmp_path):
    rows = refinements(trunk, ["D"], [0.5], draws=2, seed=0)
    other = trunk._replace(neck=np.random.default_rng(5).normal(size=trunk.neck.shape))
    others = refinements(other, ["D"], [0.5], draws=2, seed=0)
    merged = mean_over_runs([rows, others])
    assert [row.label for row in merged] == [row.label for row in rows]
    for row, first, second in zip(merged, rows, others):
        assert row.properties == first.properties
        for metric in METRICS:
            expected = [*first.scores["normalised"][metric], *second.scores["normalised"][metric]]
            assert row.scores["normalised"][metric] == expected
    printed = write_report(trunk, merged, tmp_path, draws=2, num_runs=2)
    assert "mean of 2 runs" in printed
    trained = np.mean([rows[0].scores["normalised"]["MAP@R"], others[0].scores["normalised"]["MAP@R"]])
    assert f"{100 * trained:.2f}" in next(line for line in printed.splitlines() if line.startswith("as trained"))
    assert mean_over_runs([rows]) == rows


def test_a_folder_of_a_method_stands_for_its_finished_runs(tmp_path):
    assert runs_in(tmp_path / "nowhere") == [tmp_path / "nowhere"]
    assert runs_in(tmp_path) == [tmp_path]
    for fold in (3, 0, 1):
        folder = tmp_path / f"pnca+gap-0123456789/fold{fold}-repeat0"
        folder.mkdir(parents=True)
        (folder / "config.json").write_text("{}")
        if fold:
            (folder / "result.json").write_text(json.dumps(finished_result({"P@1": 0.7, "MAP@R": 0.5}, fold)))
    method = tmp_path / "pnca+gap-0123456789"
    assert runs_in(method) == [method / "fold1-repeat0", method / "fold3-repeat0"]
    assert runs_in(method / "fold0-repeat0") == [method / "fold0-repeat0"]


def test_a_head_that_projects_first_has_no_metric_matrix(trunk):
    head = EmbeddingHead(build.POOLINGS["gap"](None), 4, project_first=True)
    trained = TrainedModel(trunk.config, None, types.SimpleNamespace(head=head, feature_sizes=None), None, None)
    with pytest.raises(InvalidInput, match="--run: received one with --pooling=gap, which projects before it pools"):
        trunk_of(trained)


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (["0", "1.5"], r"--ratio: received 1.5, expected a number in \[0, 1\]"),
        (["nan"], "--ratio: received nan"),
        (["half"], r"--ratio: received \['half'\], expected numbers"),
        ([], "--ratio: received an empty list"),
    ],
)
def test_bad_ratios_are_named(texts, message):
    with pytest.raises(InvalidInput, match=message):
        parse_ratios(texts)
    assert parse_ratios(["1", "0.25", "1.0"]) == [0.25, 1.0]


def test_a_folder_that_is_no_run_ends_the_command(tmp_path):
    finished = run_here("experiments.posterior_refinement", f"--run={tmp_path}", "--restraint=D", "--ratio=0.5")
    check_clean_failure(finished, f"{tmp_path} is no run directory")


def test_features_side_by_side_have_no_metric_matrix(tmp_path):
    dataset = noisy_dataset()
    config = resolve("glyphs", "margin+shared", "gap", "thesis", "smoke", OVERRIDES)
    model = build.build_model(config, dataset, 6)
    with pytest.raises(InvalidInput, match="received one with --loss=margin.shared, whose features are brought"):
        trunk_of(TrainedModel(config, dataset, model, dataset.train, None))
