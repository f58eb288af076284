"""Packages whose names are imported when they are used, so that to import a package costs no TensorFlow.

The `__init__` of such a package states its names once, for readers, type checkers and this module:

    if TYPE_CHECKING:
        from common.losses.triplet import TripletLoss

    __all__ = ["TripletLoss"]
    import_when_used(__name__)
"""

from __future__ import annotations

import ast
import importlib
import importlib.abc
import sys
import types
from collections.abc import Iterator

_PLACES = "__places_of_names__"


def import_when_used(package: str) -> None:
    """From now on a name that the package imports under `if TYPE_CHECKING:` is imported when it is first used.

    Args:
        package: that is being imported: `__name__` of its `__init__`.

    Raises:
        ImportError: the source of the package is not there.
    """
    module = sys.modules[package]
    loader = module.__spec__.loader if module.__spec__ else None
    source = loader.get_source(package) if isinstance(loader, importlib.abc.InspectLoader) else None
    if source is None:
        raise ImportError(f"The names of {package} are read from its source, which is not there: install it with that.")
    vars(module)[_PLACES] = dict(_imports_for_types(ast.parse(source)))
    module.__class__ = _LazyPackage


def module_of(package: str, name: str) -> str:
    """The module in which a name of such a package is defined; nothing is imported but the package.

    Args:
        package: its full name.
        name: one of its public names.
    """
    return vars(importlib.import_module(package))[_PLACES][name]


def _imports_for_types(source: ast.Module) -> Iterator[tuple[str, str]]:
    """(name, module) of each import under `if TYPE_CHECKING:`."""
    for node in source.body:
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            imports = [each for each in node.body if isinstance(each, ast.ImportFrom) and each.module]
            yield from ((alias.name, str(each.module)) for each in imports for alias in each.names)


class _LazyPackage(types.ModuleType):
    """A package that looks for a name which it does not have yet in the module that defines it."""

    def __getattr__(self, name: str) -> object:
        places = vars(self)[_PLACES]
        if name not in places:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        return self._imported(name)

    def __setattr__(self, name: str, value: object) -> None:
        """Where a module is called as what it defines, its import leaves the package's name to the latter."""
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
