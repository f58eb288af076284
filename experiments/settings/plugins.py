"""Plug-ins: modules with custom losses, poolings, backbones and data sets.

A plug-in is a module with a function `register(registry)`. It comes from `--plugin=my_module` (importable),
`--plugin=path/to/my_module.py`, or an installed distribution's entry point in the group `deep_metric_learning.plugins`,
whose value is the module.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.metadata
import importlib.util
import pathlib
import sys
import traceback
import types
from collections.abc import Sequence
from typing import Any

from common.errors import InvalidInput, invalid
from experiments.settings.provided import PROVIDERS, Provider
from experiments.settings.registry import Registry

GROUP = "deep_metric_learning.plugins"


def load_plugins(names: Sequence[str]) -> list[Provider]:
    """Import installed and named plug-ins, and call their `register`.

    Args:
        names: values of `--plugin`: modules, or paths of .py files.

    Raises:
        InvalidInput: a plug-in is not found, is named twice, fails, or registers something invalid.
    """
    installed = {entry.value: entry for entry in importlib.metadata.entry_points(group=GROUP)}
    providers = [
        _registered(_imported(module, f"entry point {entry.name} of {_distribution(entry)}"), _version(entry))
        for module, entry in installed.items()
    ]
    for name in names:
        module = _imported_file(name) if name.endswith(".py") else _imported(name, f"--plugin={name}")
        if module.__name__ not in installed:
            providers.append(_registered(module, ""))
    return providers


def check_stored_plugins(stated: object, folder: str) -> None:
    """Refuse a run's configuration if its plug-ins are missing or changed.

    Args:
        stated: `plugins` of `config.json`; None for a run without any.
        folder: the run directory, for the error.

    Raises:
        InvalidInput: names `--plugin`.
    """
    for kind, provider in stated.items() if isinstance(stated, dict) else ():
        name = provider.get("plugin")
        known = next((each for each in PROVIDERS.values() if each.plugin == name), None)
        if known is None:
            raise invalid(
                f"plug-ins for {folder}",
                received=", ".join(sorted({each.plugin for each in PROVIDERS.values()})) or "none",
                expected=f"{name}, which gives this run its {kind}",
                fix=f"Add --plugin={name}, if that module can be imported, or --plugin=FOLDER/{name}.py.",
            )
        if known.as_dict() != provider:
            raise InvalidInput(
                f"{folder} was run with another version of the plug-in {known.plugin}: its source was "
                f"{str(provider.get('source'))[:19]}, that of --plugin is {known.source[:19]}. Give --plugin the "
                "former source, or run it again."
            )


def _registered(module: types.ModuleType, version: str) -> Provider:
    register = getattr(module, "register", None)
    if not callable(register):
        raise invalid(f"plug-in {module.__name__}", received="no function register", expected="register(registry)")
    provider = Provider(module.__name__, version, _digest(module))
    if any(each.plugin == provider.plugin for each in PROVIDERS.values()):
        raise invalid("--plugin", received=f"{provider.plugin} more than once", expected="every plug-in once")
    try:
        register(Registry(provider))
    except InvalidInput as error:
        raise InvalidInput(f"The plug-in {provider.plugin} cannot be used: {error}") from error
    except (Exception, SystemExit) as error:
        raise _failure(f"The plug-in {provider.plugin} cannot register", error) from error
    return provider


def _imported(name: str, told_by: str) -> types.ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            raise invalid(
                told_by.partition("=")[0],
                received=name,
                expected="a module that can be imported, or the path of a .py file",
                fix="Run the command in the module's folder, or put that folder into PYTHONPATH.",
            ) from error
        raise _failure(f"{told_by} cannot be imported", error) from error
    except (Exception, SystemExit) as error:
        raise _failure(f"{told_by} cannot be imported", error) from error


def _imported_file(path: str) -> types.ModuleType:
    file, name = pathlib.Path(path), pathlib.Path(path).stem
    if not file.is_file():
        raise invalid("--plugin", received=path, expected="a .py file that exists, or a module that can be imported")
    if not name.isidentifier() or name in sys.modules or name in sys.stdlib_module_names:
        fix = "Rename the file, or name it once."
        raise invalid("--plugin", received=path, expected="a file whose name is that of no other module", fix=fix)
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise invalid("--plugin", received=path, expected="a file of Python source")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        raise _failure(f"--plugin={path} cannot be imported", error) from error
    return module


def _failure(what: str, error: BaseException) -> InvalidInput:
    """Return one line on a plug-in's error, with its place."""
    if isinstance(error, SyntaxError):
        place = f"{error.filename}, line {error.lineno}"
    else:
        frame = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{frame.filename}, line {frame.lineno}"
    message = " ".join(str(error).split())
    return InvalidInput(f"{what}: {type(error).__name__}: {message} ({place}).")


def _digest(module: types.ModuleType) -> str:
    """Return the SHA-256 of a module, or of a package's Python files."""
    file = pathlib.Path(module.__file__ or "")
    if file.name != "__init__.py":
        return f"sha256:{hashlib.sha256(file.read_bytes()).hexdigest()}"
    digest = hashlib.sha256()
    for source in sorted(file.parent.rglob("*.py")):
        content = hashlib.sha256(source.read_bytes()).hexdigest()
        digest.update(f"{source.relative_to(file.parent).as_posix()} {content}\n".encode())
    return f"sha256:{digest.hexdigest()}"


def _distribution(entry: Any) -> str:
    return entry.dist.name if entry.dist is not None else "an unknown distribution"


def _version(entry: Any) -> str:
    return entry.dist.version if entry.dist is not None else ""
