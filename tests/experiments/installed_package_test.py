"""The package as a stranger gets it: built, installed elsewhere, and used from a folder in which there is nothing."""

import email
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tarfile
import zipfile

import pytest

import common
from tests.setup_test import EXTRAS
from tests.support.command_line import ONE_EVALUATION, ROOT
from tests.support.sources import PACKAGES

FOLDERS = (*PACKAGES, "tests", "benchmarks", "constraints", "docs", "tools")
SUFFIXES = (".md", ".cff", ".in", ".py", ".toml", ".txt", ".yml")
USE = """
import pathlib, runpy
import numpy as np
import ccp_dml, common, deep_metric_learning, experiments, gsp_dml, photo_search
from common.records import environment

for package in (ccp_dml, common, deep_metric_learning, experiments, gsp_dml, photo_search):
    assert pathlib.Path(package.__file__).parent.parent == pathlib.Path(SITE), package.__file__
    assert package.__version__ == VERSION
features = np.random.default_rng(0).normal(size=(2, 4, 4, 8)).astype("float32")
assert deep_metric_learning.GeneralizedSumPooling is gsp_dml.GeneralizedSumPooling
assert gsp_dml.GeneralizedSumPooling(4)(features).shape == (2, 8)
assert environment()["version"] == VERSION
assert environment()["commit"] is None
assert list(pathlib.Path().iterdir()) == []
runpy.run_module("experiments.fair_eval", run_name="__main__")
"""

pytestmark = pytest.mark.slow


def run(arguments, folder, **variables):
    """`python ARGUMENTS` there; what it says, after checking that it went well."""
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    env |= {"TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1", **variables}
    settings = {"cwd": folder, "env": env, "capture_output": True, "text": True, "timeout": 600}
    finished = subprocess.run([sys.executable, *map(str, arguments)], **settings)
    assert finished.returncode == 0, finished.stdout + finished.stderr
    return finished.stdout


@pytest.fixture(scope="module")
def source_archive(tmp_path_factory):
    """The source distribution, made of a copy: building leaves folders behind."""
    folder = tmp_path_factory.mktemp("sdist")
    copy = folder / "copy"
    ignored = shutil.ignore_patterns("__pycache__", "*.pyc")
    for name in FOLDERS:
        shutil.copytree(ROOT / name, copy / name, ignore=ignored)
    for path in ROOT.iterdir():
        if path.is_file() and (path.suffix in SUFFIXES or path.name in ("Dockerfile", "LICENSE", "Makefile")):
            shutil.copy(path, copy)
    run(["-c", f"from setuptools import build_meta; build_meta.build_sdist({str(folder)!r})"], copy)
    (archive,) = folder.glob("*.tar.gz")
    return archive


@pytest.fixture(scope="module")
def wheel(source_archive, tmp_path_factory):
    """The wheel, built of nothing but the source distribution."""
    folder = tmp_path_factory.mktemp("wheel")
    with tarfile.open(source_archive) as archive:
        archive.extractall(folder)  # of our own making; Python 3.11.2 has no filters
    (source,) = folder.iterdir()
    build = [
        "pip",
        "wheel",
        "--quiet",
        "--no-deps",
        "--no-build-isolation",
        "--no-index",
        "--wheel-dir",
        folder,
        source,
    ]
    run(["-m", *build], folder)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def site(wheel, tmp_path_factory):
    """Where it is installed; what it depends on is that of these tests."""
    folder = tmp_path_factory.mktemp("site")
    run(["-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target", folder, wheel], folder)
    return folder


@pytest.fixture
def empty(tmp_path):
    folder = tmp_path / "empty"
    folder.mkdir()
    return folder


def test_the_source_distribution_has_every_file_of_the_checkout(source_archive):
    with tarfile.open(source_archive) as archive:
        names = {pathlib.PurePath(*pathlib.PurePath(name).parts[1:]).as_posix() for name in archive.getnames()}
    assert {"Makefile", "requirements.txt", "tests/conftest.py", "benchmarks/gsp_layer.py", "docs/thesis.md"} <= names
    assert [name for name in names if "__pycache__" in name] == []
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout: which files it should have is not known")
    ask = ["git", "ls-files", "--cached", "--deduplicate"]
    known = subprocess.run(ask, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    expected = {name for name in known if not name.startswith(".") and (ROOT / name).is_file()}
    assert expected - names == set()


def test_the_wheel_has_the_five_packages_and_their_data(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        (metadata,) = [name for name in names if name.endswith(".dist-info/METADATA")]
        fields = email.message_from_bytes(archive.read(metadata))
    assert {name.split("/")[0] for name in names if ".dist-info/" not in name} == set(PACKAGES)
    assert {f"{package}/py.typed" for package in PACKAGES} <= names
    data = {
        str(path.relative_to(ROOT))
        for package in PACKAGES
        for path in (ROOT / package).rglob("*")
        if path.suffix in (".py", ".csv", ".css", ".html", ".js", ".jinja")
    }
    assert data - names == set()
    assert fields["Version"] == common.__version__
    assert any(value.startswith("tensorboard") for value in fields.get_all("Requires-Dist"))
    assert set(EXTRAS) == set(fields.get_all("Provides-Extra"))


def test_the_program_dml_is_installed(site, empty):
    program = site / "bin" / "dml"
    assert "\n  fair_eval " in run([program], empty, PYTHONPATH=str(site))
    (empty / "experiments.py").write_text("raise RuntimeError")  # of a stranger's project, and not ours
    assert "--training: " in run([program, "evaluate", "--help"], empty, PYTHONPATH=str(site))


@pytest.mark.release
def test_a_figure_that_another_module_measures_is_made(site, empty):
    said = run(["-m", "experiments.figure", "--id=5.9", "--budget=smoke", "--run"], empty, PYTHONPATH=str(site))
    assert "1 done, 0 missing" in said
    assert "autodiff ms" in said
    assert [path.read_bytes()[:4] for path in empty.rglob("picture.png")] == [b"\x89PNG"]


def test_layers_are_used_in_an_empty_folder_and_a_smoke_training_ends_with_its_table(site, empty):
    program = f"SITE, VERSION = {str(site)!r}, {common.__version__!r}\n{USE}"
    cell = ["--dataset=synthetic_tokens", "--loss=c2", "--pooling=gap", "--budget=smoke", "--fold=0", "--repeat=0"]
    cell += ONE_EVALUATION
    said = run(["-c", program, *cell], empty, PYTHONPATH=str(site))
    assert "c2+gap" in said
    (path,) = empty.rglob("result.json")
    made = json.loads(path.read_text())["environment"]
    assert (made["version"], made["commit"]) == (common.__version__, None)
    assert path.with_name("model.keras").exists()
