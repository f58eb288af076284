import importlib
import json
import sys

import pytest

from common.lazy_names import import_when_used
from tests.support.command_line import run_program

PACKAGES = [
    *(f"common.{name}" for name in ("backbones", "data", "deployment", "diagnostics", "downloads", "files", "losses")),
    *(f"common.{name}" for name in ("miners", "pooling", "records", "references", "retrieval", "training")),
    *("ccp_dml", "gsp_dml", "milbich_dml", "deep_metric_learning", "experiments.reports", "photo_search.index"),
]
PACKAGE = '''"""A package."""

from typing import TYPE_CHECKING

from common.lazy_names import import_when_used

if TYPE_CHECKING:
    from planted_package.first import first as first, other as other
    from planted_package.second import Second as Second

import_when_used(__name__)
'''


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package with a module `first` that defines `first`, and one that cannot be imported."""
    folder = tmp_path / "planted_package"
    folder.mkdir()
    (folder / "__init__.py").write_text(PACKAGE)
    (folder / "first.py").write_text("def first(): return 1\nother = 2\n")
    (folder / "second.py").write_text("raise RuntimeError('second is imported')\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield importlib.import_module("planted_package")
    for name in [name for name in sys.modules if name.startswith("planted_package")]:
        del sys.modules[name]


def test_a_name_is_imported_when_it_is_used(package):
    assert "planted_package.first" not in sys.modules
    assert package.other == 2
    assert "planted_package.first" in sys.modules
    with pytest.raises(RuntimeError, match="second is imported"):
        _ = package.Second
    with pytest.raises(AttributeError, match=r"module 'planted_package' has no attribute 'third'"):
        _ = package.third
    assert {"Second", "first", "other"} <= set(dir(package))
    assert package.__all__ == ["Second", "first", "other"]


@pytest.mark.parametrize("module_first", [True, False])
def test_a_function_wins_over_the_module_of_its_name(package, module_first):
    if module_first:
        importlib.import_module("planted_package.first")
    assert package.first() == 1
    importlib.import_module("planted_package.first")
    assert package.first() == 1
    from planted_package import first

    assert first() == 1


def test_a_package_without_source_is_refused(package):
    package.__spec__.loader = None
    with pytest.raises(ImportError, match=r"names of planted_package are read from its source.*install it with that"):
        import_when_used("planted_package")


@pytest.mark.parametrize("package", PACKAGES)
def test_every_public_name_is_there(package):
    module = importlib.import_module(package)
    assert all(hasattr(module, name) for name in module.__all__)


def test_packages_import_no_tensorflow():
    program = f"""
import importlib, json, sys
for package in {PACKAGES}:
    importlib.import_module(package)
print(json.dumps(sorted({{"keras", "numpy", "tensorflow"}} & sys.modules.keys())))
"""
    finished = run_program(["-c", program], fresh="the server has imported TensorFlow")
    assert json.loads(finished.stdout) == []
