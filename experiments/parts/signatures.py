"""Signatures of constructors: parameters with types, ranges, defaults and help.

A constructor is a class or a function, or where to find one: `"common.losses:TripletLoss"`. Such a one is read from
its source, without importing its module, and with it TensorFlow.
"""

from __future__ import annotations

import ast
import functools
import importlib
import importlib.util
import inspect
import pathlib
import re
import typing
from collections.abc import Callable
from typing import Any, NamedTuple

from common.errors import invalid
from common.lazy_names import module_of
from common.parameters import Hint, hint_of

Constructor = Callable[..., Any] | str
REQUIRED = inspect.Parameter.empty


class Parameter(NamedTuple):
    """A parameter of a constructor."""

    name: str
    hint: Hint
    annotation: str  # as written, for messages
    default: Any  # or `REQUIRED`
    help_text: str  # its entry under `Args:`, as one line without a full stop; else its name


class Signature(NamedTuple):
    """What a constructor takes."""

    title: str  # the docstring's first words
    parameters: dict[str, Parameter]  # without *args and **kwargs


def constructor_of(constructor: Constructor) -> Callable[..., Any]:
    """Return the constructor itself, importing it if needed."""
    if not isinstance(constructor, str):
        return constructor
    module, _, name = constructor.partition(":")
    return getattr(importlib.import_module(module), name)


def constructor_name(constructor: Constructor) -> str:
    """Return the name of the class or function."""
    return constructor.partition(":")[2] if isinstance(constructor, str) else constructor.__name__


@functools.cache
def signature_of(constructor: Constructor) -> Signature:
    """Read a signature."""
    if isinstance(constructor, str):
        return _of_source(*constructor.split(":"))
    is_class = inspect.isclass(constructor)
    function = constructor.__init__ if is_class else constructor
    parameters = [*inspect.signature(function).parameters.values()][is_class:]
    named = [each for each in parameters if each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD)]
    namespace = getattr(inspect.unwrap(function), "__globals__", {})
    texts = described(inspect.getdoc(constructor))
    return Signature(
        _title(inspect.getdoc(constructor) or getattr(constructor, "__name__", "")),
        {
            each.name: Parameter(
                each.name,
                hint_of(None if each.annotation is REQUIRED else each.annotation, namespace),
                "no type" if each.annotation is REQUIRED else inspect.formatannotation(each.annotation),
                each.default,
                texts.get(each.name, each.name),
            )
            for each in named
        },
    )


def _of_source(module: str, name: str) -> Signature:
    """Read a signature from a module's source, following lazy packages."""
    place = module_of(module, name)
    source = _parsed(place)
    node = next((each for each in source.body if getattr(each, "name", None) == name), None)
    if isinstance(node, ast.FunctionDef):
        return Signature(_title(ast.get_docstring(node)), _parameters(node.args, ast.get_docstring(node)))
    if not isinstance(node, ast.ClassDef):
        raise invalid("constructor", received=f"{module}:{name}", expected=f"a class or function of {place}")
    init = next((each for each in node.body if isinstance(each, ast.FunctionDef) and each.name == "__init__"), None)
    if init is None:
        base = ast.unparse(node.bases[0])
        inherited = _of_source(_place_of_base(source, place, base), base).parameters
        texts = described(ast.get_docstring(node))
        own = {each.name: each._replace(help_text=texts.get(each.name, each.help_text)) for each in inherited.values()}
        return Signature(_title(ast.get_docstring(node)), own)
    parameters = _parameters(init.args, ast.get_docstring(node))
    parameters.pop("self")
    return Signature(_title(ast.get_docstring(node)), parameters)


def _place_of_base(source: ast.Module, place: str, name: str) -> str:
    imports = [each for each in source.body if isinstance(each, ast.ImportFrom)]
    return next((str(one.module) for one in imports if name in {alias.name for alias in one.names}), place)


@functools.cache
def _parsed(module: str) -> ast.Module:
    spec = importlib.util.find_spec(module)
    if spec is None or spec.origin is None:
        raise invalid("constructor", received=module, expected="a module with source")
    return ast.parse(pathlib.Path(spec.origin).read_text(encoding="utf-8"))


def _parameters(arguments: ast.arguments, docstring: str | None) -> dict[str, Parameter]:
    texts = described(docstring)
    listed = [*arguments.posonlyargs, *arguments.args]
    defaults = [*[None] * (len(listed) - len(arguments.defaults)), *arguments.defaults]
    pairs = [*zip(listed, defaults), *zip(arguments.kwonlyargs, arguments.kw_defaults)]
    found = {}
    for each, default in pairs:
        text = ast.unparse(each.annotation) if each.annotation else None
        value = REQUIRED if default is None else _value(default)
        hint = hint_of(text, {}) if text else Hint(None)
        found[each.arg] = Parameter(each.arg, hint, text or "no type", value, texts.get(each.arg, each.arg))
    return found


def _value(node: ast.expr) -> Any:  # noqa: ANN401
    """Return a default: a literal, or its text for what needs the module."""
    try:
        return ast.literal_eval(node)
    except ValueError:
        return ast.unparse(node)


def described(docstring: str | None) -> dict[str, str]:
    """Return a docstring's text on each parameter under `Args:`, as one line."""
    section = re.search(r"^Args:\n((?:    .*\n|\n)*)", f"{docstring or ''}\n", re.MULTILINE)
    entries = re.findall(r"^    ([\w, ]+): (.*\n(?:     .*\n)*)", section[1] if section else "", re.MULTILINE)
    return {
        name: " ".join(text.split()).rstrip(".")
        for names, text in entries
        for name in typing.cast(str, names).split(", ")
    }


def _title(docstring: str | None) -> str:
    return re.split(r"[:,.(]| on | over ", (docstring or "").partition("\n")[0])[0].strip()
