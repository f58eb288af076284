"""The shape of the house: floors, sizes, docstrings, mirrored tests."""

import ast
import importlib
import inspect
import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent
PACKAGES = ("common", "gsp_dml", "ccp_dml", "experiments")
SOURCES = sorted(path for package in (*PACKAGES, "benchmarks") for path in (ROOT / package).rglob("*.py"))
ALL_FILES = sorted([*SOURCES, *(ROOT / "tests").rglob("*.py")])
MAX_FILE_LINES = 400
MAX_FUNCTION_LINES = 60
SHAPE = r"\[(?:\.{3}|[a-z])[\w ·+*/-]*(, [\w ·+*/-]+)*\]"  # named brackets: [batch, dim]

# What each floor may import of this project, besides itself. The longest matching prefix decides.
FLOORS = {
    "common.ops": (),
    "common.references": ("common.ops",),
    "common.miners": ("common.ops", "common.references"),
    "common.losses": ("common.ops", "common.references", "common.miners"),
    "common.pooling": ("common.ops",),
    "common.backbones": ("common.ops",),
    "common.data": ("common.ops",),
    "common.downloads": ("common.ops",),
    "common.retrieval": ("common.ops",),
    "common.training": ("common",),
    "common": (),
    "gsp_dml": ("common",),
    "ccp_dml": ("common",),
    "experiments": ("common", "gsp_dml", "ccp_dml"),
    "benchmarks": ("common", "gsp_dml", "ccp_dml", "experiments"),
}


def module_name(path: pathlib.Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def floor_of(module: str) -> str:
    return max((floor for floor in FLOORS if is_inside(module, floor)), key=len)


def is_inside(module: str, package: str) -> bool:
    return module == package or module.startswith(f"{package}.")


def imported_modules(tree: ast.AST) -> set[str]:
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative imports are refused"
            names.add(node.module)
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return {name for name in names if name.split(".")[0] in (*PACKAGES, "benchmarks", "tests")}


def forbidden_imports(module: str, tree: ast.AST) -> list[str]:
    floor = floor_of(module)
    allowed = (floor, *FLOORS[floor])
    return sorted(
        name
        for name in imported_modules(tree)
        if not any(is_inside(name, package) for package in allowed)
        # `from common import losses` names the package first; what counts is the part below it.
        and not any(is_inside(package, name) for package in allowed)
    )


def function_lengths(tree: ast.AST) -> dict[str, int]:
    functions = (node for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)))
    return {node.name: node.end_lineno - node.lineno + 1 for node in functions}


@pytest.mark.parametrize("path", SOURCES, ids=module_name)
def test_imports_only_point_down(path):
    assert forbidden_imports(module_name(path), ast.parse(path.read_text())) == []


@pytest.mark.parametrize(
    ("module", "line"),
    [
        ("common.losses.triplet", "from common.training import fit"),
        ("gsp_dml.layer", "import ccp_dml.proximal_term"),
        ("common.ops.distances", "from common.losses import Triplet"),
        ("common.data.glyphs", "import experiments.settings.build"),
    ],
)
def test_a_planted_violation_is_found(module, line):
    assert forbidden_imports(module, ast.parse(line)) != []


@pytest.mark.parametrize("path", ALL_FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_files_and_functions_are_short(path):
    text = path.read_text()
    assert text.count("\n") <= MAX_FILE_LINES
    too_long = {name: lines for name, lines in function_lengths(ast.parse(text)).items() if lines > MAX_FUNCTION_LINES}
    assert too_long == {}


def public_symbols() -> list[tuple[str, str]]:
    symbols = []
    for path in SOURCES:
        if path.name == "__init__.py" and module_name(path).split(".")[0] != "benchmarks":
            module = importlib.import_module(module_name(path))
            symbols += [(module.__name__, name) for name in getattr(module, "__all__", ())]
    return symbols


@pytest.mark.parametrize(("module", "name"), public_symbols())
def test_public_symbols_are_documented(module, name):
    symbol = getattr(importlib.import_module(module), name)
    if not (inspect.isclass(symbol) or inspect.isfunction(symbol)):
        return
    documentation = inspect.getdoc(symbol) or ""
    assert documentation.strip(), f"{module}.{name} has no docstring"
    if takes_arrays(symbol):
        assert re.search(SHAPE, with_inherited(symbol)), f"the docstring of {module}.{name} gives no shapes"


def with_inherited(symbol) -> str:
    """The docstrings of a symbol and of its base classes in this project (call arguments are described once there)."""
    bases = inspect.getmro(symbol) if inspect.isclass(symbol) else [symbol]
    return "\n".join(base.__doc__ or "" for base in bases if base.__module__.split(".")[0] in PACKAGES)


def takes_arrays(symbol) -> bool:
    """Whether the symbol is a layer, or a function with an argument that is named like an array."""
    if inspect.isclass(symbol):
        return "Layer" in {base.__name__ for base in inspect.getmro(symbol)}
    arrays = {"embeddings", "features", "labels", "images", "costs", "points", "x", "query_embeddings", "attributes"}
    return bool(arrays & set(inspect.signature(symbol).parameters))


@pytest.mark.parametrize("package", ["common.losses", "common.miners", "common.pooling", "gsp_dml"])
def test_every_public_file_has_its_test(package):
    folder = ROOT.joinpath(*package.split("."))
    tests = ROOT / "tests" / folder.relative_to(ROOT)
    missing = [
        path.name
        for path in folder.glob("*.py")
        if path.name != "__init__.py" and not (tests / f"{path.stem}_test.py").exists()
    ]
    assert missing == []


def flags_defined_by_import(tree: ast.Module) -> list[int]:
    """Lines that define a flag as soon as the module is imported: one command's flags would be every other's."""
    runs_by_import = [
        node
        for node in tree.body
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))
        and not (isinstance(node, ast.If) and "__main__" in ast.unparse(node.test))
    ]
    calls = [node for part in runs_by_import for node in ast.walk(part) if isinstance(node, ast.Call)]
    return [call.lineno for call in calls if "DEFINE_" in ast.unparse(call.func)]


@pytest.mark.parametrize("path", ALL_FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_an_import_defines_no_flags(path):
    assert flags_defined_by_import(ast.parse(path.read_text())) == []


def test_a_planted_flag_is_found():
    at_import, inside = 'flags.DEFINE_bool("x", 1, "")', 'if __name__ == "__main__":\n    flags.DEFINE_bool("y", 1, "")'
    planted = f"import absl\n{at_import}\n{inside}\n"
    assert flags_defined_by_import(ast.parse(planted)) == [2]


STUDY_HEADER = ("Regenerates:", "Command:", "Expected:", "Cost:")


def study_files() -> list[pathlib.Path]:
    return [path for path in (ROOT / "experiments").glob("*.py") if "__main__" in path.read_text()]


@pytest.mark.parametrize("path", study_files(), ids=lambda path: path.name)
def test_every_command_says_what_it_regenerates(path):
    documentation = ast.get_docstring(ast.parse(path.read_text()))
    assert [word for word in STUDY_HEADER if word not in documentation] == []
