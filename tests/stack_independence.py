"""Which test files mean the same on either stack: nothing that they depend on imports TensorFlow or starts a process.

Followed are the `import` statements of a test file, at its top and inside of its functions, and of what they lead to
in this project. Packages only hand names on, so `from common.data import MNIST` leads to the module that defines it.
"""

from __future__ import annotations

import ast
import functools
import pathlib

ROOT = pathlib.Path(__file__).resolve().parents[1]
PACKAGES = ("common", "gsp_dml", "ccp_dml", "experiments", "benchmarks", "tests")
# What may depend on the stack: the stack itself, other processes, and what an import statement does not tell.
DEPENDENT = ("tensorflow", "keras", "tensorflow_addons", "subprocess", "importlib", "runpy")


def is_independent(path: pathlib.Path, fixtures: tuple[pathlib.Path, ...] = ()) -> bool:
    """Whether neither a test file nor a file of fixtures that it uses depends on the stack."""
    return not any(reaches_the_stack(start) for start in (path, *fixtures))


@functools.cache
def reaches_the_stack(path: pathlib.Path) -> bool:
    seen, todo = {path}, [path]
    while todo:
        current = todo.pop()
        if _runs_text(current):
            return True
        for module in modules_behind(current):
            package = module.split(".")[0]
            if package in DEPENDENT:
                return True
            file = _file_of(module) if package in PACKAGES else None
            if file is not None and file not in seen:
                seen.add(file)
                todo.append(file)
    return False


def modules_behind(path: pathlib.Path) -> set[str]:
    """Modules that a file imports; for a name out of a package of this project, the module that defines it."""
    found = set()
    for node in ast.walk(_tree(path)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found |= {_definition(node.module, alias.name) for alias in node.names}
    return found


def _definition(module: str, name: str) -> str:
    if _file_of(f"{module}.{name}") is not None:
        return f"{module}.{name}"
    file = _file_of(module)
    if file is not None and file.name == "__init__.py":
        for node in handed_on(_tree(file)):
            if name in {alias.asname or alias.name for alias in node.names}:
                original = next(alias.name for alias in node.names if (alias.asname or alias.name) == name)
                return _definition(node.module, original)
    return module


def handed_on(package: ast.Module) -> list[ast.ImportFrom]:
    """The imports of an `__init__`, also those that come true when a name is first used (`common.lazy_names`)."""
    late = [
        node.body for node in package.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
    ]
    found = [node for body in (package.body, *late) for node in body if isinstance(node, ast.ImportFrom)]
    return [node for node in found if node.module]


def _runs_text(path: pathlib.Path) -> bool:
    calls = (node.func for node in ast.walk(_tree(path)) if isinstance(node, ast.Call))
    return any(isinstance(function, ast.Name) and function.id in ("exec", "eval", "__import__") for function in calls)


@functools.cache
def _tree(path: pathlib.Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def _file_of(module: str) -> pathlib.Path | None:
    place = ROOT.joinpath(*module.split("."))
    if module.split(".")[0] not in PACKAGES:
        return None
    return next((file for file in (place.with_suffix(".py"), place / "__init__.py") if file.is_file()), None)
