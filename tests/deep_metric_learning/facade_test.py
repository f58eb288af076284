"""The package that has the names of all others."""

import ast
import importlib
import pathlib

import pytest

import ccp_dml
import common
import deep_metric_learning
import gsp_dml
import milbich_dml
from common import losses, miners, pooling, retrieval

PATH = pathlib.Path(deep_metric_learning.__file__)
ROOT = PATH.parents[1]
NOT_PARTS_OF_NETWORKS = {"data", "downloads", "files", "index", "records"}  # reading, writing and search


def sources():
    """The packages whose names it has."""
    nodes = [node for node in ast.walk(ast.parse(PATH.read_text())) if isinstance(node, ast.ImportFrom)]
    return [node.module for node in nodes if node.names[0].name == "*"]


def test_it_has_every_name_of_every_package_with_layers():
    lazy = {path.parent.name for path in (ROOT / "common").glob("*/__init__.py") if "__all__" in path.read_text()}
    expected = {"ccp_dml", "gsp_dml", "milbich_dml", *(f"common.{name}" for name in lazy - NOT_PARTS_OF_NETWORKS)}
    assert set(sources()) == expected
    for package in (ccp_dml, gsp_dml, milbich_dml, losses, miners, pooling, retrieval):
        assert set(package.__all__) <= set(deep_metric_learning.__all__)
    assert "import_module" not in deep_metric_learning.__all__


def test_each_name_means_one_thing():
    for module in map(importlib.import_module, sources()):
        for name in module.__all__:
            assert getattr(deep_metric_learning, name) is getattr(module, name), name


def test_version_and_errors():
    assert deep_metric_learning.__version__ == common.__version__
    with pytest.raises(AttributeError, match=r"'deep_metric_learning' has no attribute 'NoLoss'"):
        _ = deep_metric_learning.NoLoss
