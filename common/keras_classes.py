"""Let Keras find the classes of saved models after any order of imports.

Keras looks up a class by its registered name, and importing the class' module registers it. So when Keras is imported,
each name gets a placeholder. The placeholder imports the module of its class when a file has the name.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import pathlib
import re
import sys
import types
from collections.abc import Callable, Iterator, Sequence

_KERAS = ("keras", "tf_keras")  # the second is Keras 2 beside TensorFlow 2.16 or newer
_PACKAGES = ("common", "gsp_dml", "ccp_dml", "milbich_dml")
_REGISTERED = re.compile(r'^@keras\.utils\.register_keras_serializable\(package="(\w+)"\)\nclass (\w+)', re.MULTILINE)


def register_with_keras() -> None:
    """Register placeholders of all classes now, or when Keras is imported."""
    for name in _KERAS:
        if name in sys.modules:
            _register(sys.modules[name])
    sys.meta_path.insert(0, _AfterImport(_KERAS, _register))


def _register(keras: types.ModuleType) -> None:
    known = keras.utils.get_custom_objects()
    for name, module, class_name in _registered_classes():
        known.setdefault(name, _placeholder(module, class_name))


def _registered_classes() -> Iterator[tuple[str, str, str]]:
    """Yield the (Keras name, module, class) of each, without importing anything."""
    root = pathlib.Path(__file__).parent.parent
    for path in sorted(path for package in _PACKAGES for path in (root / package).rglob("*.py")):
        module = ".".join(path.relative_to(root).with_suffix("").parts)
        for package, name in _REGISTERED.findall(path.read_text(encoding="utf-8")):
            yield f"{package}>{name}", module, name


def _placeholder(module: str, name: str) -> type:
    """Return a stand-in for a class until its module is imported."""

    def from_config(config: dict, *args: object, **kwargs: object) -> object:
        return getattr(importlib.import_module(module), name).from_config(config, *args, **kwargs)

    return type(name, (), {"__module__": module, "from_config": staticmethod(from_config)})


class _AfterImport(importlib.abc.MetaPathFinder):
    """Calls a function with each of the given modules after its import."""

    def __init__(self, names: Sequence[str], call: Callable[[types.ModuleType], None]) -> None:
        self.names, self.call, self.asks_others = names, call, False

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Return the other finders' spec, with the call after its execution."""
        del path, target
        if fullname not in self.names or self.asks_others:
            return None
        self.asks_others = True
        try:
            spec = importlib.util.find_spec(fullname)
        finally:
            self.asks_others = False
        if spec is None or spec.loader is None:
            return spec
        execute = spec.loader.exec_module

        def exec_module(module: types.ModuleType) -> None:
            execute(module)
            self.call(module)

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]  # the loader is of this module alone
        return spec
