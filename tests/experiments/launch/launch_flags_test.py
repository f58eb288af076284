import itertools
import shutil

import pytest

from common.errors import InvalidInput
from experiments.launch import launch_flags
from experiments.launch.launch_flags import READ_BY, check_launch, check_slurm
from tests.support.command_line import check_clean_failure, run_here

NEVER = "--report_only trains nothing. Remove one of them"


@pytest.mark.parametrize(("launch", "name"), itertools.product((None, "local", "slurm"), READ_BY))
def test_every_flag_is_refused_without_a_launch_that_reads_it(launch, name):
    if launch in READ_BY[name]:
        check_launch(launch, [name], True, NEVER)
    else:
        with pytest.raises(InvalidInput, match=rf"--{name} would have no effect without --launch={READ_BY[name][0]}"):
            check_launch(launch, [name], True, NEVER)


def test_slurm_needs_submitit_and_its_programs(monkeypatch):
    monkeypatch.setattr(launch_flags.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(InvalidInput, match=r"needs submitit, which is missing\. Install it: pip install submitit"):
        check_slurm()
    monkeypatch.setattr(launch_flags.importlib.util, "find_spec", lambda name: name)
    monkeypatch.setattr(shutil, "which", lambda name: None if name == "sbatch" else name)
    with pytest.raises(InvalidInput, match=r"needs Slurm's sbatch, which this machine does not have.*--launch=local"):
        check_slurm()
    monkeypatch.setattr(shutil, "which", lambda name: name)
    check_slurm()


@pytest.mark.parametrize(
    ("module", "arguments", "phrases"),
    [
        ("fair_eval", ["--launch=lokal"], ["--launch", "'lokal'", "local, slurm"]),
        ("fair_eval", ["--launch=local", "--report_only"], ["--launch=local", "--report_only"]),
        ("fair_eval", ["--workers=2"], ["--workers", "--launch=local"]),
        ("fair_eval", ["--launch=local", "--workers=0"], ["--workers"]),
        ("table", ["--id=3.3", "--launch=local"], ["--launch=local", "--run"]),
        ("table", ["--id=claims", "--launch=local"], ["--launch", "trains nothing"]),
        ("figure", ["--id=5.2", "--run", "--launch=local"], ["--launch", "no effect"]),
        ("conventional_eval", ["--launch=local"], ["no units to launch", "experiments.fair_eval"]),
    ],
)
def test_commands_refuse_before_anything_starts(module, arguments, phrases, tmp_path):
    finished = run_here(f"experiments.{module}", *arguments, cwd=tmp_path)
    check_clean_failure(finished, *phrases)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("text", ["account", "a=1,a=2", "=1"])
def test_options_of_slurm_are_names_with_values(text):
    with pytest.raises(InvalidInput, match="--slurm_options"):
        launch_flags.slurm_options(text.split(","))
    assert launch_flags.slurm_options(["account=vision", "qos=a=b"]) == {"account": "vision", "qos": "a=b"}
