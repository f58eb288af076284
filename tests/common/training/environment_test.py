"""The record of where a figure was made."""

import builtins
import json
import os

import numpy as np
import pytest
import tensorflow as tf

from common.training.environment import environment
from tests.command_line import run_program


def test_versions_and_hardware():
    found = environment()
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    assert (found["tensorflow"], found["numpy"]) == (tf.__version__, np.__version__)
    assert found["stack"] == f"TensorFlow {tf.__version__}, Keras {found['keras']}"
    assert found["keras"][0] in "23"
    assert found["cores"] == len(os.sched_getaffinity(0))
    with open("/proc/meminfo") as file:
        assert found["memory_gb"] == pytest.approx(int(file.readline().split()[1]) * 1024 / 1e9, rel=0.05)
    assert all(isinstance(name, str) for name in found["gpus"])
    assert found["deterministic_ops"] is False


def test_what_cannot_be_found_out_is_none(monkeypatch):
    original = builtins.open

    def refuse(path, *arguments, **settings):
        if str(path).startswith("/proc"):
            raise FileNotFoundError(path)
        return original(path, *arguments, **settings)

    monkeypatch.setattr(builtins, "open", refuse)
    monkeypatch.setattr("platform.processor", lambda: "")
    monkeypatch.delattr(os, "sysconf")
    assert (environment()["cpu"], environment()["memory_gb"]) == (None, None)


def test_determinism_is_recorded_where_the_flag_is_given():
    program = (
        "import json\nfrom experiments import flags\nfrom common.training import environment\n"
        "flags.define_session_flags()\n"
        "flags.run_command(lambda: print(json.dumps(environment()['deterministic_ops'])))\n"
    )
    finished = run_program(["-c", program, "--deterministic"])
    assert finished.returncode == 0, finished.stderr
    assert finished.stdout.strip() == "true"
