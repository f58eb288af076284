import pathlib

import pytest

from common.errors import InvalidInput
from experiments.studies import external_figures
from experiments.studies.external_figures import EXTERNAL_FIGURES
from experiments.studies.transport_time import make_parser
from tests.support.command_line import check_clean_failure, run_module, run_study_here


@pytest.mark.parametrize("study_id", EXTERNAL_FIGURES)
@pytest.mark.parametrize("budget", ["smoke", "demo", "full"])
def test_every_cell_is_listed_with_its_command(study_id, budget, tmp_path, capsys):
    run_study_here("figure", f"--id={study_id}", f"--budget={budget}", f"--runs_dir={tmp_path}")
    listed, figure = capsys.readouterr().out, EXTERNAL_FIGURES[study_id]
    count = len(figure.cells)
    assert f"{count} cells: 0 done, {count} missing, about" in listed
    assert listed.count(f"         python -m {figure.module} ") == len(figure.cells)
    for label, flag in figure.cells.items():
        assert f"missing  {label}" in listed
        assert flag in listed
    assert list(tmp_path.iterdir()) == []


def test_only_what_can_be_made_of_collages_of_photographs_is_listed(tmp_path, capsys):
    arguments = ["--id=5.5", "--dataset=cifar_collage", "--data_dir=cifar", f"--runs_dir={tmp_path}"]
    run_study_here("figure", *arguments)
    listed = capsys.readouterr().out
    assert "1 cells: 0 done, 1 missing, about 19.2 h on 2 CPU cores" in listed
    assert "Trained from scratch: the thesis starts from a CIFAR-100 classifier" in listed
    assert listed.count("python -m experiments.collage_study") == listed.count("--starts=scratch") == 1
    assert listed.count("it needs a trained network, --weights=FILE.npz") == 2
    run_study_here("figure", *arguments, "--weights=resnet20.npz")
    listed = capsys.readouterr().out
    assert "3 cells: 0 done, 3 missing" in listed
    assert listed.count("--weights=resnet20.npz") == 3
    assert "from scratch:" not in listed


def test_the_times_of_the_transport_read_their_command(tmp_path):
    command = EXTERNAL_FIGURES["5.9"].command("smoke", {}, tmp_path, next(iter(EXTERNAL_FIGURES["5.9"].cells)))
    arguments = make_parser().parse_args(command[1:])
    assert arguments.repeats == 2
    assert pathlib.Path(arguments.curve) == tmp_path / "picture.png"


def test_what_the_command_said_is_kept_with_its_flags(tmp_path, monkeypatch, capsys):
    commands = []
    monkeypatch.setattr(external_figures, "_output_of", lambda command: commands.append(command) or "the table\n")
    arguments = ["--id=3.2", "--budget=smoke", "--data_dir=digits", f"--runs_dir={tmp_path}"]
    run_study_here("figure", *arguments, "--run")
    first = capsys.readouterr().out
    assert commands == [["experiments.mnist_study", "--budget=smoke", "--data_dir=digits", f"--runs_dir={tmp_path}"]]
    assert "2 cells: 2 done, 0 missing." in first
    assert "the table" in first
    run_study_here("figure", *arguments, "--run")
    run_study_here("figure", *arguments)
    assert capsys.readouterr().out == 2 * first
    assert len(commands) == 1
    run_study_here("figure", *arguments, "--seed=4")
    assert "0 done, 2 missing" in capsys.readouterr().out


def test_a_flag_that_the_command_does_not_have_is_refused(tmp_path):
    with pytest.raises(InvalidInput, match="--loss would have no effect.*experiments.studies.transport_time"):
        run_study_here("figure", "--id=5.9", "--loss=c2", f"--runs_dir={tmp_path}")


def test_what_changes_no_result_is_passed_on_or_refused(tmp_path, capsys):
    session = ["--checkpoint_seconds=5", "--deterministic"]
    for study_id in ("3.2", "5.5"):
        run_study_here("figure", f"--id={study_id}", *session, f"--runs_dir={tmp_path}")
        listed = capsys.readouterr().out
        assert listed.count("--deterministic") == listed.count("--checkpoint_seconds=5") == listed.count("python -m")
    budget = "--decoded_images_mb=9"
    run_study_here("figure", "--id=5.5", budget, f"--runs_dir={tmp_path}")
    listed = capsys.readouterr().out
    assert listed.count(budget) == listed.count("python -m")
    with pytest.raises(InvalidInput, match="--decoded_images_mb would have no effect"):
        run_study_here("figure", "--id=3.2", budget, f"--runs_dir={tmp_path}")
    for flag in (*session, budget):
        for study_id in ("5.2", "5.9"):
            with pytest.raises(InvalidInput, match=f"{flag.partition('=')[0]} would have no effect"):
                run_study_here("figure", f"--id={study_id}", flag, f"--runs_dir={tmp_path}")


def test_the_message_of_the_command_is_the_only_one(tmp_path):
    finished = run_module(
        "experiments.figure", "--id=3.2", "--run", f"--data_dir={tmp_path / 'nowhere'}", f"--runs_dir={tmp_path}"
    )
    check_clean_failure(finished, "nowhere", "--data_dir")
    assert list(tmp_path.rglob("*.txt")) == []
