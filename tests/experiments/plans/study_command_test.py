import json
import re
import shlex

import pytest

from common import backbones
from common.downloads import file_digest
from common.errors import InvalidInput
from experiments.preparation.converted_weights import convert
from experiments.runs import unit_runs
from experiments.settings import build
from experiments.studies.figures import FIGURES
from experiments.studies.sweeps import CONDITIONS
from experiments.studies.tables import TABLES
from tests.experiments.tiny_network import tiny_network
from tests.support.command_line import (
    ONE_EVALUATION,
    SMALL_PHOTOGRAPHS,
    done_here,
    run_study_here,
)

NO_SMALL_CELL = ("5.2", "5.5", "5.9", "milbich_2.2", "milbich_2.3")  # no training, own data, or they vary what is small
COMMANDS = [
    *(("figure", study_id) for study_id in FIGURES if study_id not in (*NO_SMALL_CELL, *CONDITIONS)),
    *(("table", study_id) for study_id in TABLES),
]
VARIED = {"3.8": "per_", "4.2": "embedding_dim", "4.3": "embedding_dim", "4.4": "embedding_dim"}
VARIED |= {
    **dict.fromkeys(("3.2a", "3.2b", "5.2a", "5.2b"), "embedding_dim"),
    **dict.fromkeys(("planned", "all_losses"), "learning_rate"),
}
OF_THEIR_OWN = {  # what a run of a few steps on a dozen classes needs
    **dict.fromkeys(("3.2a", "3.2b", "5.2a", "5.2b"), ["--held_out_fraction=0.25"]),
    "5.6": ["--gsp_memory_size=32"],
    **dict.fromkeys(("planned", "all_losses"), ["--loss=c2"]),  # the small network has no output stride
    # Tasks within a class need three of its images.
    **dict.fromkeys(("milbich_4.2", "milbich_4.3", "milbich_4.4"), ["--samples_per_class=4", "--classes_per_batch=2"]),
}
ONE_CELL = ("3.3", "4.2", "4.3", "4.4")
# A row is known when all of its trials are finished; they select after some steps.
TRIALS_FIRST = ("planned", "all_losses")
# Each of a class that no other of these trains. Cells of the others are units like any, and `study_test` draws them.
ALWAYS = [*(("figure", study_id) for study_id in ("3.3", "4.2", "5.4", "5.6")), ("table", "planned")]
ALWAYS += [("table", "milbich_3.6")]
# The others draw when a row, or the first points of a search, are complete.
DRAWN_FROM_ONE = ("3.3", "3.6", "3.7", "3.8", "4.2", "4.3", "4.4", "5.4", "5.6", "5.8", "5.10", "5.11", "5.12")


def arguments_of(kind, study_id, image_folder, runs_dir):
    places = [f"--runs_dir={runs_dir}", f"--cache_dir={runs_dir}", "--checkpoint_seconds=600", f"--id={study_id}"]
    if (kind, study_id) == ("figure", "5.4"):
        return [*places, *ONE_EVALUATION, "--budget=smoke", "--gsp_memory_size=128"]
    small = [flag for flag in SMALL_PHOTOGRAPHS if study_id not in VARIED or VARIED[study_id] not in flag]
    small += [] if study_id.startswith("3.") or study_id in TRIALS_FIRST else ONE_EVALUATION
    return [*places, *small, f"--data_dir={image_folder}", *OF_THEIR_OWN.get(study_id, [])]


pytestmark = pytest.mark.usefixtures("tiny_network", "functions_run_eagerly")


@pytest.fixture(scope="module")
def runs_dir(tmp_path_factory):
    """One folder for all studies, as a user has it: what one has trained is there for the next."""
    return tmp_path_factory.mktemp("runs")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "study_id"),
    [pytest.param(*each, marks=() if each in ALWAYS else pytest.mark.release) for each in COMMANDS],
)
def test_one_cell_is_trained_and_drawn(kind, study_id, image_folder, runs_dir, capsys):
    arguments = arguments_of(kind, study_id, image_folder, runs_dir)
    run_study_here(kind, *arguments)
    before = capsys.readouterr().out
    if " cells: 0 done" in before:
        num_results = len(list(runs_dir.rglob("result.json")))
        run_study_here(kind, *arguments, "--run", "--max_cells=1")
        shown = capsys.readouterr()
        assert "[1/" in shown.err
        assert len(list(runs_dir.rglob("result.json"))) == num_results + 1
        before = shown.out
    if not (kind == "figure" and study_id in ONE_CELL):
        done, missing = (int(count) for count in re.search(r"\d+ cells: (\d+) done, (\d+) missing", before).groups())
        assert min(done, missing) >= 1
    (folder,) = {line.rpartition(": ")[2] for line in before.splitlines() if line.startswith("Folder (")}
    name = f"{kind}_{study_id.replace('.', '_')}{'_trials' if study_id in TRIALS_FIRST else ''}"
    written = {path.name for path in runs_dir.joinpath(folder).iterdir()}
    assert {f"{name}.md", f"{name}.csv"} <= written
    if kind == "figure" and study_id in DRAWN_FROM_ONE:
        assert any(path.startswith(name) and path.endswith(".png") for path in written)


@pytest.mark.slow
def test_a_study_is_finished_in_pieces_and_then_only_drawn(image_folder, runs_dir, capsys):
    arguments = arguments_of("figure", "3.6", image_folder, runs_dir)
    run_study_here("figure", *arguments)
    if "0 done" in capsys.readouterr().out:
        run_study_here("figure", *arguments, "--run", "--max_cells=1")
        assert "1 done" in capsys.readouterr().out
    written = {path: path.read_bytes() for path in runs_dir.rglob("result.json")}
    run_study_here("figure", *arguments, "--run")
    finished = capsys.readouterr()
    assert len(list(runs_dir.rglob("result.json"))) == len(written) + 1
    assert all(path.read_bytes() == content for path, content in written.items())
    assert "[2/2]" in finished.err
    assert "[1/2]" not in finished.err
    assert "missing" not in finished.out
    run_study_here("figure", *arguments)
    listed = capsys.readouterr().out
    assert listed.count("1 done, 0 missing") == 2
    assert listed.endswith(finished.out)


def test_a_study_is_counted_by_method_and_the_last_line_says_how_to_train_it(tmp_path, capsys):
    arguments = ["--id=5.1", "--dataset=glyphs", "--budget=demo", f"--runs_dir={tmp_path}", f"--cache_dir={tmp_path}"]
    run_study_here("table", *arguments)
    *lines, last = capsys.readouterr().out.splitlines()
    assert [line.split() for line in lines if "pnca+gsp" in line] == [["pnca+gsp", "0", "done,", "4", "missing"]]
    assert len(lines) < 20
    assert last.startswith("60 cells: 0 done, 60 missing, about")
    assert "--run trains" in last


def test_cells_are_listed_without_the_data(tmp_path, capsys):
    run_study_here("figure", "--id=3.8", "--dataset=cub200", f"--runs_dir={tmp_path}", "--details")
    listed = capsys.readouterr()
    assert "32 cells: 0 done, 32 missing, about" in listed.out
    assert "RTX 2080 Ti" in listed.out
    assert listed.out.count("python -m experiments.fair_eval --dataset=cub200") == 32
    assert "CUB_200_2011" in listed.err
    assert list(tmp_path.iterdir()) == []


def commands_in(listed):
    return [line.strip() for line in listed.splitlines() if line.strip().startswith("python -m ")]


def test_commands_name_weights_and_data_and_the_listing_says_how_both_are_made(tmp_path, capsys):
    run_study_here("table", "--id=5.1", "--dataset=cars196", f"--runs_dir={tmp_path}", "--details")
    listed = capsys.readouterr().out
    commands = commands_in(listed)
    assert len(commands) == listed.count("missing  ") >= 60
    assert all("--weights=bn_inception.npz" in command and "--data_dir=data" in command for command in commands)
    conversion = "python -m experiments.convert_weights --backbone=bn_inception --output=bn_inception.npz"
    assert listed.count(conversion) == 1
    assert listed.count("python -m experiments.prepare_data --dataset=cars196 --data_dir=data") == 1


def test_commands_name_nothing_that_is_not_needed(official_cars, tmp_path, capsys):
    run_study_here("table", "--id=5.2b", "--dataset=sop", f"--runs_dir={tmp_path}", "--details")
    listed = capsys.readouterr().out
    assert "--weights" not in listed  # Keras fetches those of ResNet-50
    assert "--data_dir=data" in listed
    places = [f"--runs_dir={tmp_path}", f"--cache_dir={tmp_path}", "--details"]
    run_study_here("table", "--id=5.1", "--dataset=glyphs", *places)
    listed = capsys.readouterr().out
    assert "--weights" not in listed
    assert "--data_dir" not in listed
    given = [f"--data_dir={official_cars}", "--weights=none", f"--runs_dir={tmp_path}", "--details"]
    run_study_here("table", "--id=5.1", "--dataset=cars196", *given)
    listed = capsys.readouterr().out
    assert "note: " not in listed
    assert all(f"--data_dir={official_cars}" in command for command in commands_in(listed))
    assert all("--weights=none" in command for command in commands_in(listed))


@pytest.mark.slow
def test_a_printed_command_runs_as_it_is_printed_and_the_study_counts_it(official_cars, tmp_path, capsys, monkeypatch):
    def small_inception(input_channels=3, *, weights="none", frozen_batch_norm=True, **others):
        return tiny_network(input_channels, weights=weights, frozen_batch_norm=frozen_batch_norm)

    monkeypatch.setitem(build.BACKBONES, "bn_inception", small_inception)
    monkeypatch.setattr(backbones, "bn_inception", small_inception)
    backbones.save_parameters(small_inception(), tmp_path / "source.npz")
    convert("bn_inception", str(tmp_path / "source.npz"), str(tmp_path / "bn_inception.npz"))
    places = [f"--{name}={tmp_path / name}" for name in ("runs_dir", "cache_dir")]
    small = ["--loss=c2", "--budget=smoke", "--classes_per_batch=4", "--frozen_backbone", "--image_size=64"]
    small += ONE_EVALUATION
    arguments = ["--id=5.1", "--dataset=cars196", f"--data_dir={official_cars}", *small, *places]
    run_study_here("table", *arguments, "--details")
    printed = commands_in(capsys.readouterr().out)[0]
    assert "--weights=bn_inception.npz" in printed
    python, _, module, *flags = shlex.split(printed)
    assert python == "python"
    done_here(module, *flags, cwd=tmp_path)
    (result,) = tmp_path.rglob("result.json")
    config = json.loads((result.parent / "config.json").read_text())
    assert config["weights_source"] == file_digest(str(tmp_path / "source.npz"))
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "bn_inception.npz").rename(tmp_path / "elsewhere" / "mine.npz")
    run_study_here("table", *arguments, f"--weights={tmp_path / 'elsewhere' / 'mine.npz'}")
    assert " 1 done" in capsys.readouterr().out


def test_run_refuses_before_any_cell_is_trained(official_cars, tmp_path):
    arguments = ["--id=5.1", "--dataset=cars196", f"--data_dir={official_cars}", "--run"]
    places = [f"--{name}={tmp_path / name}" for name in ("runs_dir", "cache_dir")]
    with pytest.raises(InvalidInput, match="convert_weights --backbone=bn_inception"):
        run_study_here("table", *arguments, *places)
    with pytest.raises(InvalidInput, match="classes_per_batch: received 32, expected at most .*, 9"):
        run_study_here("table", *arguments, *places, "--weights=none")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("arguments", "count"), [([], 54), (["--repeats=1"], 18), (["--budget=demo", "--fold=2"], 9)])
def test_tuning_has_the_thesis_repeats_at_the_full_budget(arguments, count, tmp_path, capsys):
    run_study_here("table", "--id=5.4", "--dataset=cub200", f"--runs_dir={tmp_path}", "--details", *arguments)
    listed = capsys.readouterr().out
    assert f"\n{count} cells: 0 done" in listed
    assert listed.count(f"--fold={2 if '--fold=2' in arguments else 0}") == count
    assert "thesis section 5.3.4.1: one split, 3 runs." in listed


def test_units_are_given_the_budget_of_decoded_images(image_folder, tmp_path, monkeypatch):
    def refusing_unit(*arguments):
        raise InvalidInput(f"a unit with {arguments[-1].decoded_images_mb} MB")

    monkeypatch.setattr(unit_runs, "Unit", refusing_unit)
    arguments = arguments_of("table", "3.3", image_folder, tmp_path)
    with pytest.raises(InvalidInput, match="a unit with 7 MB"):
        run_study_here("table", *arguments, "--run", "--max_cells=1", "--decoded_images_mb=7")
