"""Another package or module named `common`, which hides this project's."""

import os
import subprocess
import sys

import pytest

import common
from tests.support.command_line import environment

PACKAGES = ("gsp_dml", "ccp_dml", "milbich_dml", "deep_metric_learning", "experiments", "photo_search")
FOLDERS = [(each, "common/__init__.py") for each in PACKAGES]


def run(folder, *arguments):
    settings = {"cwd": folder, "env": environment(), "capture_output": True, "text": True, "timeout": 120}
    return subprocess.run([sys.executable, *arguments], **settings)


@pytest.mark.parametrize(
    ("package", "file"), [(each, "common/__init__.py") for each in PACKAGES] + [("gsp_dml", "common.py")]
)
def test_what_hides_ours_is_named_with_a_remedy(package, file, tmp_path):
    hiding = tmp_path / file
    hiding.parent.mkdir(exist_ok=True)
    hiding.write_text('__version__ = "7"\n')
    finished = run(tmp_path, "-c", f"import {package}")
    assert finished.returncode == 1
    assert "hides that of deep-metric-learning: rename it" in finished.stderr
    assert f"cannot import name 'PROJECT' from 'common' ({hiding})" in finished.stderr


def test_a_folder_that_is_no_package_hides_nothing(tmp_path):
    os.mkdir(tmp_path / "common")
    versions = ", ".join(f"{package}.__version__" for package in PACKAGES)
    finished = run(tmp_path, "-c", f"import {', '.join(PACKAGES)}; print({{{versions}}})")
    assert finished.stdout.strip() == str({common.__version__}), finished.stderr
