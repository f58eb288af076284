"""The package that has the names of all others."""

import ast
import importlib
import pathlib
import re

import pytest

import common
import deep_metric_learning
from common import losses, pooling

PATH = pathlib.Path(deep_metric_learning.__file__)
ROOT = PATH.parents[1]
BASES = {"LossLayer", "ComponentLoss"}  # of classes of one's own
PAGES = ("README.md", "docs/keras.md", "docs/getting_started.md", "docs/losses_and_poolings.md", "ccp_dml/README.md")
OF_A_DISSERTATION = "milbich_dml"


def imports(source):
    """The (module, name) of each import of a text."""
    nodes = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.ImportFrom)]
    return [(node.module, alias.name) for node in nodes for alias in node.names]


@pytest.mark.parametrize("page", PAGES)
def test_it_has_the_names_of_a_page(page):
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)
    parts = [
        name
        for block in blocks
        for module, name in imports(block)
        if module.split(".")[0] in ("common", "ccp_dml", "gsp_dml", "photo_search", "deep_metric_learning")
    ]
    assert parts
    assert set(parts) <= set(deep_metric_learning.__all__)


def test_it_has_every_loss_and_every_pooling():
    names = [name for package in (losses, pooling) for name in package.__all__ if name.endswith(("Loss", "Pooling"))]
    assert set(names) - BASES <= set(deep_metric_learning.__all__)


def test_each_name_means_one_thing():
    stated = [(module, name) for module, name in imports(PATH.read_text()) if name in deep_metric_learning.__all__]
    assert len(stated) == len(deep_metric_learning.__all__)
    for module, name in stated:
        assert getattr(deep_metric_learning, name) is getattr(importlib.import_module(module), name), name


def test_version_and_errors():
    assert deep_metric_learning.__version__ == common.__version__
    with pytest.raises(AttributeError, match=r"'deep_metric_learning' has no attribute 'NoLoss'"):
        _ = deep_metric_learning.NoLoss
