"""The nets hold: the present code gives the values that `python -m tests.nets --write` has stored."""

import subprocess
import sys

import pytest

from tests.nets import __main__ as nets, exports
from tests.support.served_process import ROOT


@pytest.mark.release  # a minute; `python -m tests.nets` has them before each landing
def test_hashes_refusals_and_explained_values_are_as_stored_and_come_without_tensorflow():
    command = [sys.executable, "-m", "tests.nets", "--settings"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.default_stack
def test_exported_names_and_signatures_are_as_stored():
    now = exports.exported()
    assert exports.unlisted_removals(nets.stored("exports"), now) == []
    assert nets.differing("exports", nets.stored("exports"), now) == []


def test_a_name_that_is_gone_has_to_be_listed(monkeypatch):
    assert exports.unlisted_removals({"photo_search.index.Gone": [], "gsp_dml.kept": []}, {"gsp_dml.kept": []}) != []
    monkeypatch.setattr(exports, "REMOVED", ("photo_search.index.",))
    assert exports.unlisted_removals({"photo_search.index.Gone": [], "gsp_dml.gone": []}, {}) == ["gsp_dml.gone"]
