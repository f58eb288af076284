import json
import shutil

import numpy as np
import pytest

from common.data import load_image_folder
from experiments.recipes import resolve
from experiments.recipes.small_images import CIFAR
from experiments.rows.store import StudyRows
from tests.support.command_line import (
    ONE_EVALUATION,
    SMALL_PHOTOGRAPHS,
    done_here,
    done_small_here,
    run_here,
)
from tools.documents.comparisons import refined_metrics

MODULE = "experiments.fair_eval"


@pytest.fixture(scope="module")
def finished(image_folder, tmp_path_factory):
    folder = tmp_path_factory.mktemp("fair_eval")
    shutil.copytree(image_folder, folder / "photos")
    tested = load_image_folder(str(folder / "photos")).test.paths[0]
    shutil.copy(tested, f"{tested}.copy.png")
    arguments = [
        *SMALL_PHOTOGRAPHS,
        *ONE_EVALUATION,
        f"--data_dir={folder / 'photos'}",
        f"--cache_dir={folder / 'cache'}",
        f"--runs_dir={folder / 'runs'}",
        "--loss=pnca",
        "--pooling=gap,gsp",
        "--num_folds=2",
        "--noexport_model",
    ]
    first = done_small_here(MODULE, *arguments)
    return folder, arguments, first


@pytest.mark.slow
def test_all_folds_of_all_methods_finish_and_are_reported(finished):
    folder, _, first = finished
    files = {path.name for path in folder.rglob("*") if path.is_file()}
    assert {"config.json", "metrics.jsonl", "result.json", "test_embeddings.npz", "untrained.json"} <= files
    assert "checkpoint.npz" not in files
    assert len(list(folder.rglob("result.json"))) == 4
    assert "pnca+gap" in first.stdout
    assert "pnca+gsp" in first.stdout
    assert "2 test images have a byte-identical copy among those they search" in first.stdout
    assert max(len(line) for line in first.stdout.splitlines() if str(folder) not in line) <= 100
    assert "untrained" in first.stdout
    assert first.stderr.startswith("Device: ")
    assert first.stderr.count("before training, the backbone's average features on the test set: P@1") == 4
    pictures = list((folder / "runs").rglob("*.png"))
    assert {path.name for path in pictures} == {"validation_curves.png", "classes.png"}
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in pictures)


@pytest.mark.slow
def test_a_second_run_only_reports(finished):
    _, arguments, first = finished
    again = run_here(MODULE, *arguments, "--decoded_images_mb=0", "--details")  # no part of a configuration
    assert again.returncode == 0
    assert again.stdout.endswith(first.stdout)
    details = again.stdout.removesuffix(first.stdout)
    assert "not comparable" in details
    assert "single minus pnca+gap MAP@R" in details
    assert "| method | runs | R@1 |" in details
    assert "step" not in again.stderr


@pytest.mark.slow
def test_refined_metrics_of_finished_runs_are_recorded(finished, tmp_path):
    folder, arguments, _ = finished
    places = [argument for argument in arguments if argument.startswith(("--data_dir", "--cache_dir"))]
    (method,) = folder.glob("runs/fair/folder/pnca+gap-*")
    shutil.copytree(method, tmp_path / method.name)
    study = tmp_path / "study"
    options = ["--restraint=D", "--ratio=0.5", "--draws=2", f"--record={study}"]
    done_small_here("experiments.posterior_refinement", f"--run={tmp_path / method.name}", *places, *options)
    rows = [row for row in StudyRows(study).rows if row["kind"] == "training"]
    assert rows[0]["command"].startswith(
        f"python -m experiments.posterior_refinement --run={method.name} --restraint=D"
    )
    kept = [row["extras"]["posterior_refinement"]["matrices"] for row in rows]
    for row, matrices in zip(rows, kept):
        assert matrices[0]["scores"]["normalised"]["MAP@R"] == pytest.approx(row["test"]["MAP@R"], abs=1e-3)
    assert "D(0.5)" in refined_metrics(StudyRows(study)).as_markdown()


@pytest.mark.slow
def test_methods_can_be_given_by_their_names_and_are_compared_with_the_first(finished):
    folder, arguments, _ = finished
    others = [argument for argument in arguments if not argument.startswith(("--loss", "--pooling"))]
    done_here(MODULE, *others, "--methods=pnca+gsp,pnca+gap", "--report_only")
    (report,) = [path for path in folder.rglob("report.csv") if "minus pnca+gsp" in path.read_text()]
    rows = [line.split(",") for line in report.read_text().splitlines()]
    values = {(row[0], row[1], row[2]): float(row[3]) for row in rows[1:]}
    for kind, size in (("single", 16), ("concatenated", 32)):
        difference = values["pnca+gap", f"{kind} minus pnca+gsp", "MAP@R"]
        figures = [values[method, f"{kind} {size}-D", "MAP@R"] for method in ("pnca+gap", "pnca+gsp")]
        assert difference == pytest.approx(figures[0] - figures[1], abs=1e-4)


@pytest.mark.slow
def test_runs_have_the_recalls_of_their_data_set_also_if_they_did_not_measure_them(image_folder, tmp_path):
    """Stanford Online Products prints R@1, R@10, R@100 and R@1000: here 19 test classes of four mixed images."""
    root = tmp_path / "Stanford_Online_Products"
    root.mkdir()
    (root / "photos").symlink_to(image_folder)
    for part, classes in (("train", range(5)), ("test", range(5, 24))):
        lines = [f"1 {1 + c} 1 photos/class{(c + 5 * i) % 24:02d}/{i}.png" for c in classes for i in range(4)]
        (root / f"Ebay_{part}.txt").write_text("\n".join(["image_id class_id super_class_id path", *lines]) + "\n")
    arguments = [*SMALL_PHOTOGRAPHS, *ONE_EVALUATION, f"--data_dir={tmp_path}", f"--cache_dir={tmp_path / 'cache'}"]
    arguments += ["--dataset=sop", "--loss=c2", "--num_folds=2", "--fold=0", f"--runs_dir={tmp_path / 'runs'}"]
    arguments += ["--classes_per_batch=2", "--noexport_model"]
    first = done_small_here(MODULE, *arguments)
    (result_path,) = tmp_path.rglob("result.json")
    result, arrays = json.loads(result_path.read_text()), np.load(result_path.with_name("test_embeddings.npz"))
    distances = np.linalg.norm(arrays["queries"][:, None] - arrays["queries"][None], axis=-1) + 9 * np.eye(76)
    same = arrays["query_labels"][:, None] == arrays["query_labels"][None]
    hits = np.take_along_axis(same, np.argsort(distances, axis=1), axis=1)
    expected = {f"R@{k}": hits[:, :k].any(axis=1).mean() for k in (1, 10, 100, 1000)}
    assert expected["R@1"] < expected["R@10"] < 1
    assert {name: result["test"][name] for name in expected} == pytest.approx(expected)
    header, line = next(tmp_path.rglob("report_recall.csv")).read_text().splitlines()
    assert header == "method,runs,R@1,R@10,R@100,R@1000"
    assert line == ",".join(["c2+gap", "1", *(f"{100 * value:.2f}" for value in expected.values())])
    assert "R@1 to R@1000: " in first.stdout
    assert ["R@1", "R@10", "R@100", "R@1000"] in [printed.split()[2:] for printed in first.stdout.splitlines()]
    for name in ("result.json", "result.copy.json"):
        if result_path.with_name(name).exists():
            older = {k: value for k, value in result["test"].items() if k in ("P@1", "MAP@R", "P@R", "R@1", "R@2")}
            result_path.with_name(name).write_text(json.dumps({**result, "test": older}))
    again = run_here(MODULE, *arguments, "--report_only", f"--record={tmp_path / 'rows'}")
    assert again.stdout == first.stdout
    (row,) = StudyRows(tmp_path / "rows").rows
    assert row["command"].startswith("python -m experiments.fair_eval --dataset=folder ")
    assert str(tmp_path) not in row["command"]
    assert {name: row["test"][name] for name in expected} == pytest.approx(expected)
    scored = run_here("experiments.evaluate", f"--embeddings={result_path.parent}")
    assert [text.split()[:2] for text in scored.stdout.splitlines() if text.startswith("R@")] == [
        [name, f"{100 * value:.2f}"] for name, value in expected.items()
    ]


DIVA = "margin+distance+shared+intra+dance+gap"
GIVEN = [a for a in SMALL_PHOTOGRAPHS if not a.startswith("--samples_per_class")]
GIVEN += ["--samples_per_class=4", "--max_steps=4", "--steps_per_evaluation=2", "--noexport_model"]
GIVEN += ["--train_fraction=0.7"]


@pytest.mark.slow
def test_names_of_features_and_pads_are_trained_and_reported(image_folder, tmp_path):
    methods = f"--methods={DIVA},margin+pads+gap"
    places = [f"--data_dir={image_folder}", f"--cache_dir={tmp_path / 'cache'}", f"--runs_dir={tmp_path / 'runs'}"]
    pads = ["--fold=0", "--num_folds=2"]
    finished = done_small_here("experiments.fair_eval", *GIVEN, *places, *pads, methods)
    results = {path.parts[-3].rsplit("-", 1)[0]: json.loads(path.read_text()) for path in tmp_path.rglob("result.json")}
    assert sorted(results[DIVA]["features"]) == ["concatenated", "dance", "disc", "intra", "shared"]
    (features,) = tmp_path.rglob("features.md")
    assert f"Features, each on its own: {features}" in finished.stdout
    assert results["margin+pads+gap"]["sampling"]["decisions"] == 2
    (record,) = tmp_path.rglob("sampling.npz")
    assert np.load(record)["probabilities"].shape == (2, 30)
    assert f"{DIVA}, dance" in features.read_text()
    assert "Sampling distribution over steps: " in finished.stdout
    assert len(list(tmp_path.rglob("sampling.png"))) == 1


@pytest.mark.parametrize("dataset", [name for name in CIFAR if "collage" not in name])
def test_photographs_are_shifted_and_mirrored(dataset):
    assert resolve(dataset, "pnca", "gap", "thesis", "full", {}).crop == "shift_flip"
