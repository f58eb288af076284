import os
import subprocess
import sys

import pytest

import ccp_dml
import common
import experiments
import gsp_dml
from tests.support.command_line import ROOT, environment

COPIES = ("gsp_dml", "ccp_dml", "milbich_dml", "experiments/process")


def run(folder, *arguments):
    settings = {"cwd": folder, "env": environment(), "capture_output": True, "text": True, "timeout": 120}
    return subprocess.run([sys.executable, *arguments], **settings)


def test_the_packages_have_one_version():
    assert common.__version__ == gsp_dml.__version__ == ccp_dml.__version__ == experiments.__version__


def test_the_copies_are_alike():
    assert len({(ROOT / folder / "own_common.py").read_text() for folder in COPIES}) == 1


@pytest.mark.parametrize("package", ["gsp_dml", "ccp_dml", "milbich_dml", "experiments"])
@pytest.mark.parametrize("file", ["common/__init__.py", "common.py"])
def test_what_hides_ours_is_named_with_a_remedy(package, file, tmp_path):
    hiding = tmp_path / file
    hiding.parent.mkdir(exist_ok=True)
    hiding.write_text('__version__ = "7"\n')
    finished = run(tmp_path, "-c", f"import {package}")
    assert finished.returncode == 1
    found = hiding if file == "common.py" else hiding.parent
    last = finished.stderr.strip().splitlines()[-1]
    assert last.startswith(
        f"ImportError: {package} needs the package `common` of deep-metric-learning: received {found},"
    )
    assert last.endswith(
        f"expected {ROOT / 'common'}. Rename {found}, or put {ROOT} first in sys.path before anything imports `common`."
    )


def test_a_folder_that_is_no_package_hides_nothing(tmp_path):
    os.mkdir(tmp_path / "common")
    finished = run(tmp_path, "-c", "import experiments; print(experiments.__version__)")
    assert finished.stdout.strip() == common.__version__, finished.stderr
