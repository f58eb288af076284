"""What runs on one stack alone has nothing to do with the stack."""

import ast
import pathlib

import numpy as np
import pytest

from tests.stack_independence import ROOT, is_independent, modules_behind

SOURCES = sorted(
    path for package in ("common", "gsp_dml", "ccp_dml", "experiments") for path in ROOT.glob(f"{package}/**/*.py")
)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("import numpy as np", True),
        ("from common.diagnostics import evaluate_clustering", True),  # its package has what imports TensorFlow, too
        ("import tensorflow as tf", False),
        ("def test():\n    from tensorflow import keras", False),
        ("from common.losses import ContrastiveLoss", False),
        ("from common.retrieval import evaluate_retrieval", False),
        ("import common.losses", False),
        ("from common import losses", False),
        ("from tests.command_line import run_module", False),
        ("import subprocess", False),
        ("import importlib", False),
        ("exec('import tensorflow')", False),
    ],
)
def test_it_is_seen_from_the_imports(tmp_path, line, expected):
    path = tmp_path / "planted_test.py"
    path.write_text(f"{line}\n")
    assert is_independent(path) == expected


def test_fixtures_count(tmp_path):
    (tmp_path / "a_test.py").write_text("import numpy\n")
    (tmp_path / "conftest.py").write_text("import tensorflow\n")
    assert is_independent(tmp_path / "a_test.py")
    assert not is_independent(tmp_path / "a_test.py", (tmp_path / "conftest.py",))


def test_a_name_of_a_package_leads_to_its_definition(tmp_path):
    (tmp_path / "a.py").write_text("from common.data import MnistMissing, load_mnist\nimport os.path\n")
    assert modules_behind(tmp_path / "a.py") == {"common.data", "common.data.mnist", "os.path"}


def test_packages_only_hand_names_on():
    """Else what a package's own code does would not be seen."""
    for path in SOURCES:
        if path.name == "__init__.py":
            body = ast.parse(path.read_text()).body
            assert {type(node) for node in body} <= {ast.Expr, ast.Import, ast.ImportFrom, ast.Assign, ast.If}, path
            branches = [node for node in body if isinstance(node, ast.If)]
            late = [node for node in branches if ast.unparse(node.test) == "TYPE_CHECKING"]
            assert all(isinstance(node, (ast.Import, ast.ImportFrom)) for branch in late for node in branch.body), path
            inside = [inner for node in branches if node not in late for inner in ast.walk(node)]
            assert not any(isinstance(node, (ast.Import, ast.ImportFrom)) for node in inside), path


def names_of_numpy(tree: ast.Module) -> set[str]:
    """Dotted names below `np`, such as `random.default_rng`."""
    texts = {ast.unparse(node) for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    return {
        text.removeprefix("np.") for text in texts if text.startswith("np.") and text.replace(".", "").isidentifier()
    }


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_what_is_used_of_numpy_is_in_this_stacks_numpy(path: pathlib.Path):
    """The thesis stack has an older NumPy, and tests of pure NumPy code do not run there."""
    assert [name for name in names_of_numpy(ast.parse(path.read_text())) if not _is_there(name)] == []


def test_a_planted_name_is_not_there():
    assert names_of_numpy(ast.parse("np.random.default_rng(0)\nnp.no_such_name(1)")) >= {
        "no_such_name",
        "random.default_rng",
    }
    assert not _is_there("no_such_name")


def _is_there(dotted: str) -> bool:
    found = np
    for name in dotted.split("."):
        if not hasattr(found, name):
            return False
        found = getattr(found, name)
    return True
