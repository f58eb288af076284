import itertools
import shutil

import pytest

from common.errors import InvalidInput
from experiments.launch import launch_flags
from experiments.launch.launch_flags import READ_BY, check_launch, check_slurm

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


@pytest.mark.parametrize("text", ["account", "a=1,a=2", "=1"])
def test_options_of_slurm_are_names_with_values(text):
    with pytest.raises(InvalidInput, match="--slurm_options"):
        launch_flags.slurm_options(text.split(","))
    assert launch_flags.slurm_options(["account=vision", "qos=a=b"]) == {"account": "vision", "qos": "a=b"}
