"""`python -m experiments.figure` and `experiments.table`, as a user runs them."""

import pytest

from tests.command_line import SMALL_PHOTOGRAPHS, check_clean_failure, run_module

FIGURES = ("3.4", "3.5", "3.6", "3.7", "3.8", "4.2", "4.3", "4.4", "5.7", "5.8", "5.10", "5.11", "5.12")
COMMANDS = [
    *(("figure", study_id) for study_id in FIGURES),
    *(("table", study_id) for study_id in ("3.1", "3.3", "5.1", "5.3", "5.4")),
]


def arguments_of(study_id, image_folder, tmp_path):
    varied = {"3.8": "per_", "4.2": "embedding_dim", "4.3": "embedding_dim", "4.4": "embedding_dim"}
    small = [flag for flag in SMALL_PHOTOGRAPHS if study_id not in varied or varied[study_id] not in flag]
    return [
        f"--id={study_id}",
        *small,
        f"--data_dir={image_folder}",
        f"--runs_dir={tmp_path}",
        f"--cache_dir={tmp_path}",
    ]


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "study_id"), COMMANDS)
def test_one_cell_is_trained_and_drawn(kind, study_id, image_folder, tmp_path):
    arguments = arguments_of(study_id, image_folder, tmp_path)
    first = run_module(f"experiments.{kind}", *arguments, "--run", "--max_cells=1")
    assert first.returncode == 0, first.stderr
    assert len(list(tmp_path.rglob("result.json"))) == 1
    if not study_id.startswith("4"):  # one training is all there is
        assert "1 done" in first.stdout
        assert first.stdout.count("missing  ") >= 1
    assert "Folder: " in first.stdout
    assert "[1/" in first.stderr
    assert len(list(tmp_path.rglob(f"{kind}_*.md"))) == 1
    if study_id in ("3.6", "3.7", "3.8", "4.2", "4.3", "4.4", "5.8", "5.10", "5.11", "5.12"):
        assert len(list(tmp_path.rglob("figure_*.png"))) >= 1


@pytest.mark.slow
def test_a_study_is_finished_in_pieces_and_then_only_drawn(image_folder, tmp_path):
    arguments = arguments_of("3.6", image_folder, tmp_path)
    assert run_module("experiments.figure", *arguments, "--run", "--max_cells=1").returncode == 0
    (first,) = tmp_path.rglob("result.json")
    written = first.read_bytes()
    finished = run_module("experiments.figure", *arguments, "--run")
    assert finished.returncode == 0, finished.stderr
    assert len(list(tmp_path.rglob("result.json"))) == 2
    assert first.read_bytes() == written
    assert "[2/2]" in finished.stderr
    assert "missing" not in finished.stdout
    listed = run_module("experiments.figure", *arguments)
    assert listed.returncode == 0
    assert listed.stdout.count("done     ") == 2
    assert listed.stdout.endswith(finished.stdout)


def test_cells_are_listed_without_the_data(tmp_path):
    listed = run_module("experiments.figure", "--id=3.8", "--dataset=cub200", f"--runs_dir={tmp_path}")
    assert listed.returncode == 0, listed.stderr
    assert "32 cells: 0 done, 32 missing, about" in listed.stdout
    assert "RTX 2080 Ti" in listed.stdout
    assert listed.stdout.count("python -m experiments.fair_eval --dataset=cub200") == 32
    assert "CUB_200_2011" in listed.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "phrases"),
    [
        ([], ["--id", "None", "3.5, 3.6, 3.7, 3.8"]),
        (["--id=5.5"], ["command of its own", "python -m experiments.collage_study"]),
        (["--id=5.7", "--pooling=gsp"], ["--pooling=gsp", "no effect"]),
        (["--id=3.4", "--loss=npair"], ["--loss", "npair"]),
        (["--id=5.8", "--transport_ratio=0.5"], ["--transport_ratio", "varies"]),
        (["--id=9.9"], ["--id", "'9.9'", "3.5"]),
        (["--id=3.6", "--method=ccp"], ["--method", "no effect"]),
        (["--id=3.6", "--pool_size=3"], ["--pool_size", "varies"]),
        (["--id=3.6", "--temperature=0.2"], ["--temperature", "no effect"]),
        (["--id=3.6", "--max_cells=2"], ["--max_cells", "--run"]),
        (["--id=3.6", "--loss=pnca"], ["pnca", "pair loss"]),
        (["--id=3.5", "--loss=c1,c2"], ["--loss", "one loss"]),
        (["--id=3.6", "--pooling=gap,gsp"], ["--pooling", "expected one"]),
        (["--id=3.6", "--budget=tiny"], ["--budget", "'tiny'", "smoke"]),
        (["--id=3.6", "--dataset=cub"], ["--dataset", "'cub'", "glyphs"]),
        (["--id=3.6", "--dataset=cub200", "--run"], ["CUB_200_2011", "--data_dir"]),
    ],
)
def test_bad_input_is_one_clear_line(arguments, phrases, tmp_path, glyph_cache):
    check_clean_failure(
        run_module("experiments.figure", *arguments, f"--runs_dir={tmp_path}", f"--cache_dir={glyph_cache}"), *phrases
    )
