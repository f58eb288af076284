"""Constructors with signature and docstring from source, imported only when called."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import inspect
import pathlib
from collections.abc import Callable, Iterator
from typing import Any

from common.lazy_names import module_of


def late_constructor(package: str, name: str) -> Callable[..., Any]:
    """Return a stand-in for a class that imports it when called.

    Args:
        package: a lazily importing one, such as `common.losses`.
        name: of a class in it, whose own `__init__` has only literal defaults.

    Raises:
        ValueError: a default is no literal.
    """
    module = module_of(package, name)
    definition = _class(module, name)

    def construct(*arguments: Any, **settings: Any) -> Any:
        return getattr(importlib.import_module(module), name)(*arguments, **settings)

    parameters = list(_parameters(definition))
    construct.__name__ = construct.__qualname__ = name
    construct.__module__ = module
    construct.__doc__ = ast.get_docstring(definition)
    construct.__annotations__ = {each.name: each.annotation for each in parameters if each.annotation != each.empty}
    vars(construct)["__signature__"] = inspect.Signature(parameters)
    return construct


def _class(module: str, name: str) -> ast.ClassDef:
    spec = importlib.util.find_spec(module)
    source = pathlib.Path(spec.origin).read_text(encoding="utf-8") if spec and spec.origin else ""
    return next(each for each in ast.parse(source).body if isinstance(each, ast.ClassDef) and each.name == name)


def _parameters(definition: ast.ClassDef) -> Iterator[inspect.Parameter]:
    """Yield the parameters of `__init__` except `self`; annotations are strings."""
    functions = (each for each in definition.body if isinstance(each, ast.FunctionDef))
    stated = next(each for each in functions if each.name == "__init__").args
    first = [*stated.posonlyargs, *stated.args]
    defaults = [None] * (len(first) - len(stated.defaults)) + list(stated.defaults)
    kinds = inspect.Parameter
    for argument, default in list(zip(first, defaults))[1:]:
        yield _parameter(argument, kinds.POSITIONAL_OR_KEYWORD, default)
    if stated.vararg:
        yield _parameter(stated.vararg, kinds.VAR_POSITIONAL)
    for argument, default in zip(stated.kwonlyargs, stated.kw_defaults):
        yield _parameter(argument, kinds.KEYWORD_ONLY, default)
    if stated.kwarg:
        yield _parameter(stated.kwarg, kinds.VAR_KEYWORD)


def _parameter(argument: ast.arg, kind: Any, default: ast.expr | None = None) -> inspect.Parameter:
    value = inspect.Parameter.empty if default is None else ast.literal_eval(default)
    annotation = ast.unparse(argument.annotation) if argument.annotation else inspect.Parameter.empty
    return inspect.Parameter(argument.arg, kind, default=value, annotation=annotation)
