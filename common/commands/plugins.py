"""Plug-ins: modules with custom losses, methods, samplers, networks, data sets and other parts.

A plug-in is a module with a function `register(registry)`. It comes from `--plugin=my_module` (importable),
`--plugin=path/to/my_module.py`, or an installed distribution's entry point in the group `deep_metric_learning.plugins`,
whose value is the module.
"""

from __future__ import annotations

import ast
import hashlib
import importlib
import importlib.metadata
import importlib.util
import pathlib
import re
import sys
import traceback
import types
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

from absl import flags

from common.commands.command_line import with_home
from common.commands.exit_code import exit_code_of
from common.errors import InvalidInput, invalid

flags.disclaim_key_flags()  # they belong to the command that asks for them, whose --help lists them

GROUP = "deep_metric_learning.plugins"
# With one of these words, a file's parts may depend on each other without naming each other.
_UNSEEN = re.compile(r"\b(eval|exec|globals|locals|vars|modules|metaclass|__name__|__subclasses__|__init_subclass__)\b")


class Provider(NamedTuple):
    """A plug-in, as a run's configuration identifies it."""

    plugin: str  # the module's name, the value of `--plugin` without a path
    version: str  # of its installed distribution; empty for your own file or folder
    source: str  # `sha256:` and the digest of its source files, or of what one part needs of them
    files: str = ""  # of one part: the digest of all files, as runs of version 0.2.0 state it

    def as_dict(self) -> dict[str, str]:
        """Return JSON values; without a version if there is none."""
        return {name: value for name, value in self._asdict().items() if value and name != "files"}

    def states(self, stored: object) -> bool:
        """Check whether a run states the part's source, or all of its files."""
        return stored in (self.as_dict(), self._replace(source=self.files).as_dict())

    def of_part(self, name: str) -> Provider:
        """Return the identity of one part, whatever other parts of its file are."""
        module = sys.modules.get(self.plugin)
        source = module and _source_of_part(module, name)
        digest = f"sha256:{hashlib.sha256(source.encode()).hexdigest()}" if source else self.source
        return self._replace(source=digest, files=self.source)

    def __str__(self) -> str:
        return f"plug-in {self.plugin}{f' {self.version}' if self.version else ''} ({self.source[:19]})"


RegistryOf: TypeAlias = Callable[[Provider], object]


def define_plugin_flag(registry_of: RegistryOf) -> None:
    """Define `--plugin` and import its modules; exit if that fails.

    Args:
        registry_of: returns the registry that the plug-in of this identity gets.
    """
    _define()
    code = exit_code_of(lambda: _load(sys.argv, registry_of))
    if code:
        sys.exit(code)


def _define(values: flags.FlagValues = flags.FLAGS) -> None:
    flags.DEFINE_multi_string(
        "plugin",
        [],
        "Module, or path of a .py file, with losses, methods, poolings, miners, samplers, optimisers, augmentations, "
        "trackers, backbones or data sets of your own; may be given several times. Its flags appear in separate "
        "sections of --help.",
        flag_values=values,
    )


def _load(arguments: list[str], registry_of: RegistryOf) -> None:
    values = flags.FlagValues()
    _define(values)
    values.set_gnu_getopt(True)  # what follows flags that are not known yet
    try:
        values(arguments, known_only=True)
    except flags.Error as error:
        raise InvalidInput(f"{error}. See --help for all flags.") from error
    if "" in values.plugin:
        raise invalid("--plugin", received="", expected="a module, or the path of a .py file")
    load_plugins(with_home(values.plugin), registry_of)


def load_plugins(names: Sequence[str], registry_of: RegistryOf) -> list[Provider]:
    """Import installed and named plug-ins, and call their `register`.

    Raises:
        InvalidInput: a plug-in is not found, is named twice, fails, or registers something invalid.
    """
    installed = {entry.value: entry for entry in importlib.metadata.entry_points(group=GROUP)}
    providers = []
    for place, entry in installed.items():
        owner, version = (entry.dist.name, entry.dist.version) if entry.dist else ("an unknown distribution", "")
        providers.append(_registered(_imported(place, f"entry point {entry.name} of {owner}"), version, registry_of))
    for name in names:
        module = _imported_file(name) if name.endswith(".py") else _imported(name, f"--plugin={name}")
        if module.__name__ not in installed:
            providers.append(_registered(module, "", registry_of))
    return providers


def _registered(module: types.ModuleType, version: str, registry_of: RegistryOf) -> Provider:
    register = getattr(module, "register", None)
    if not callable(register):
        raise invalid(f"plug-in {module.__name__}", received="no function register", expected="register(registry)")
    provider = Provider(module.__name__, version, _digest(module))
    registry = registry_of(provider)
    try:
        register(registry)
    except InvalidInput as error:
        raise InvalidInput(f"The plug-in {provider.plugin} cannot be used: {error}") from error
    except (Exception, SystemExit) as error:
        raise failure(f"The plug-in {provider.plugin} cannot register", error) from error
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
        raise failure(f"{told_by} cannot be imported", error) from error
    except (Exception, SystemExit) as error:
        raise failure(f"{told_by} cannot be imported", error) from error


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
        raise failure(f"--plugin={path} cannot be imported", error) from error
    return module


def failure(what: str, error: BaseException, plugin: str = "") -> InvalidInput:
    """Return one line on a plug-in's error, with its place.

    That is the last line of the plug-in's file on the way to the error, else where it was raised.
    """
    if isinstance(error, SyntaxError):
        place = f"{error.filename}, line {error.lineno}"
    else:
        frames = traceback.extract_tb(error.__traceback__)
        file = getattr(sys.modules.get(plugin), "__file__", None)
        frame = next((each for each in reversed(frames) if each.filename == file), frames[-1])
        place = f"{frame.filename}, line {frame.lineno}"
    message = " ".join(str(error).split())
    return InvalidInput(f"{what}: {type(error).__name__}: {message} ({place}).")


def _source_of_part(module: types.ModuleType, part: str) -> str | None:
    """Return the source that a part may depend on; None: all of it.

    It has the statements of `register` for this part, all statements of the module that may change something else, and
    the definitions of each name in these, also in texts, and in what they name in turn.
    """
    file = pathlib.Path(module.__file__ or "")
    if file.suffix != ".py" or file.name == "__init__.py":
        return None
    text = importlib.util.decode_source(file.read_bytes())
    body = ast.parse(text).body
    register = next((each for each in body if isinstance(each, ast.FunctionDef) and each.name == "register"), None)
    if register is None or len(register.args.args) != 1 or _UNSEEN.search(text):
        return None
    wanted = [each for each in register.body if not _adds_another(each, register.args.args[0].arg, part)]
    own = {name for each in body if not isinstance(each, (ast.Import, ast.ImportFrom)) for name in _bound(each)}
    definitions: dict[str, list[ast.stmt]] = {}
    for each in body:
        decorators = getattr(each, "decorator_list", ())
        if not _bound(each) or not own.isdisjoint(name for one in decorators for name in _named(one)):
            wanted.append(each)
        for name in _bound(each) - {"register"}:
            definitions.setdefault(name, []).append(each)
    kept: set[ast.stmt] = set()
    while wanted:
        if (each := wanted.pop()) not in kept:
            kept.add(each)
            wanted += [one for name in _named(each) for one in definitions.get(name, ())]
    lines = text.split("\n")  # `splitlines` knows further ends of lines than `ast`
    places = sorted(
        (min([each.lineno, *(one.lineno for one in getattr(each, "decorator_list", ()))]), each.end_lineno)
        for each in kept
    )
    return "\n".join(line for first, last in places for line in lines[first - 1 : last])


def _adds_another(statement: ast.stmt, registry: str, part: str) -> bool:
    """Return whether a statement is `registry.KIND("NAME", ...)` of another name, or a docstring."""
    match statement:
        case ast.Expr(ast.Constant()):
            return True
        case ast.Expr(ast.Call(ast.Attribute(ast.Name(id)), [ast.Constant(str(name)), *others], keywords)):
            return id == registry and name != part and not any(map(_calls, [*others, *keywords]))
    return False


def _bound(statement: ast.stmt) -> set[str]:
    """Return the names that a statement defines; none if it may do something else."""
    match statement:
        case ast.FunctionDef(name, args) | ast.AsyncFunctionDef(name, args):
            return set() if any(map(_calls, [*args.defaults, *filter(None, args.kw_defaults)])) else {name}
        case ast.ClassDef(name, body=body):
            return {name} if all(_bound(each) or isinstance(each, ast.Pass) for each in body) else set()
        case ast.Import(aliases) | ast.ImportFrom(names=aliases):
            return {each.asname or each.name.partition(".")[0] for each in aliases} - {"*"}
        case ast.Expr(ast.Constant()):
            return {""}  # a docstring
        case ast.Assign([ast.Name(name)], value) | ast.AnnAssign(ast.Name(name), value=value):
            return set() if value and _calls(value) else {name}
    return set()


def _calls(node: ast.AST) -> bool:
    return any(isinstance(each, ast.Call) for each in ast.walk(node))


def _named(node: ast.AST) -> set[str]:
    """Return the names and the words of texts in a piece of source."""
    found = [getattr(one, kind, "") for one in ast.walk(node) for kind in ("id", "attr", "value")]
    return {word for text in found if isinstance(text, str) for word in re.findall(r"\w+", text)}


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
