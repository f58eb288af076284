"""Packages that import a name on its first use, without loading TensorFlow before.

The `__init__` of such a package states its names once, for readers, type checkers and this module:

    if TYPE_CHECKING:
        from common.losses.triplet import TripletLoss as TripletLoss

    import_when_used(__name__)

`as` tells type checkers that the name is public. `from common.losses import *` stands for all names of a package.
"""

from __future__ import annotations

import ast
import importlib
import importlib.abc
import importlib.util
import sys
import types
from collections.abc import Iterator

_PLACES = "__places_of_names__"


def import_when_used(package: str) -> None:
    """Import each `if TYPE_CHECKING:` name of a package on its first use.

    Args:
        package: `__name__` of the `__init__` that is being imported.

    Raises:
        ImportError: the source of the package is missing.
    """
    module = sys.modules[package]
    loader = module.__spec__.loader if module.__spec__ else None
    source = loader.get_source(package) if isinstance(loader, importlib.abc.InspectLoader) else None
    if source is None:
        raise ImportError(f"The names of {package} are read from its source, which is not there: install it with that.")
    vars(module)[_PLACES] = dict(_imports_for_types(ast.parse(source)))
    vars(module)["__all__"] = sorted(vars(module)[_PLACES])
    module.__class__ = _LazyPackage


def module_of(package: str, name: str) -> str:
    """Return the module that has a package's name, without importing it."""
    spec = importlib.util.find_spec(package)
    if spec is None or spec.submodule_search_locations is None:
        return package
    return vars(importlib.import_module(package)).get(_PLACES, {}).get(name, package)


def _imports_for_types(source: ast.Module) -> Iterator[tuple[str, str]]:
    """Yield the (name, module) of each import under `if TYPE_CHECKING:`."""
    for node in source.body:
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            imports = [each for each in node.body if isinstance(each, ast.ImportFrom) and each.module]
            yield from ((name, str(each.module)) for each in imports for name in _names_of(each))


def _names_of(node: ast.ImportFrom) -> list[str]:
    """Return the names that an import brings."""
    names = [alias.name for alias in node.names]
    return list(importlib.import_module(str(node.module)).__all__) if names == ["*"] else names


class _LazyPackage(types.ModuleType):
    """A package that fetches a missing name from its defining module."""

    def __getattr__(self, name: str) -> object:
        places = vars(self)[_PLACES]
        if name not in places:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}", name=name, obj=self)
        return self._imported(name)

    def __setattr__(self, name: str, value: object) -> None:
        """Set an attribute, unless importing a module would hide its namesake.

        A module may have the name of the object that it defines; the package's name then belongs to the object.
        """
        if name in vars(self)[_PLACES] and value is sys.modules.get(f"{self.__name__}.{name}"):
            self._imported(name)
        else:
            super().__setattr__(name, value)

    def _imported(self, name: str) -> object:
        value = getattr(importlib.import_module(vars(self)[_PLACES][name]), name)
        vars(self)[name] = value
        return value

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *vars(self)[_PLACES]})
