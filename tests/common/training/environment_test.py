"""What a result says of the place where it was made."""

import pathlib
import subprocess

import pytest

from common.training import environment

ROOT = pathlib.Path(__file__).resolve().parents[3]


def test_the_commit_is_that_of_the_checkout_and_says_whether_files_differ():
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    commit = environment()["commit"]
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert head.startswith(commit.rstrip("+"))
    assert len(commit.rstrip("+")) >= 12


def test_threads_and_vector_instructions_are_stated(monkeypatch):
    monkeypatch.setenv("TF_NUM_INTRAOP_THREADS", "3")
    monkeypatch.setenv("TF_ENABLE_ONEDNN_OPTS", "0")
    found = environment()
    assert (found["threads"], found["onednn"]) == (3, "0")
    assert all(isinstance(name, str) for name in found["vector_instructions"] or [])
    monkeypatch.setenv("TF_NUM_INTRAOP_THREADS", "many")
    assert environment()["threads"] is None
