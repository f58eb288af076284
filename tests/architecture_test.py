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

# Rooms of experiments/ and those that each may import, besides itself. Commands, at the top, may import all of them.
ROOMS = {
    "process": (),
    "settings": ("process",),
    "reports": ("settings",),
    "units": ("settings",),
    "launch": (),
    "preparation": ("settings",),
    "protocols": ("settings", "reports", "units"),
    "analyses": ("settings", "reports", "units"),
    "deployment": ("settings", "reports", "units", "protocols"),
    "evidence": ("settings", "reports", "units", "protocols", "analyses"),
    "site": ("settings", "reports", "units", "protocols", "analyses"),
    "photo_search": ("settings", "site"),
    "tuning": ("settings", "reports", "units"),
    "photo_page": ("reports", "photo_search"),
    "studies": ("settings", "launch", "reports", "units", "protocols", "analyses", "evidence"),
    "blocks": ("settings", "reports", "units", "protocols", "analyses", "evidence", "studies"),
}
MAX_ROOM_FLOORS = 7
LIBRARIES = ("common", "gsp_dml", "ccp_dml")

# What each floor may import of this project, besides itself. The longest matching prefix decides.
FLOORS = {
    "common.errors": (),
    "common.progress": (),
    "common.lazy_names": (),
    "common.files": ("common.errors",),
    "common.ops": ("common.errors",),
    "common.references": ("common.errors", "common.ops"),
    "common.miners": ("common.errors", "common.ops", "common.references"),
    "common.losses": ("common.errors", "common.ops", "common.references", "common.miners"),
    "common.pooling": ("common.errors", "common.ops"),
    "common.backbones": ("common.errors", "common.ops"),
    "common.data": ("common.errors", "common.files", "common.ops", "common.progress"),
    "common.downloads": ("common.errors", "common.ops", "common.progress"),
    "common.retrieval.search": ("common.errors", "common.ops"),
    "common.retrieval": ("common.errors", "common.ops"),
    "common.diagnostics": ("common.errors", "common.ops", "common.retrieval"),
    "common.records": ("common.errors", "common.files", "common.__version__"),
    "common.training": (
        *("common.__version__", "common.errors", "common.files", "common.records", "common.diagnostics"),
        "common.progress",
        *("common.ops", "common.references", "common.miners", "common.losses", "common.pooling"),
        *("common.backbones", "common.data", "common.downloads", "common.retrieval"),
    ),
    "common.index": ("common.errors", "common.files", "common.ops", "common.retrieval"),
    "common.deployment": ("common",),
    "common": (),
    "gsp_dml": ("common",),
    "ccp_dml": ("common",),
    **{
        f"experiments.{room}": (*LIBRARIES, *(f"experiments.{other}" for other in below))
        for room, below in ROOMS.items()
    },
    "experiments": LIBRARIES,
    "benchmarks": (*LIBRARIES, "experiments"),
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


ANYWHERE = ("common.lazy_names",)  # what every floor may import


def forbidden_imports(module: str, tree: ast.AST) -> list[str]:
    floor = floor_of(module)
    allowed = (floor, *FLOORS[floor], *ANYWHERE)
    return sorted(
        name
        for name in imported_modules(tree)
        if not any(is_inside(name, package) for package in allowed)
        # `from common import losses` names the package first; what counts is the part below it.
        and not any(is_inside(package, name) for package in allowed)
    )


def room_of(module: str) -> str:
    """The room of a module of experiments/, or nothing for what is at its top."""
    return next((room for room in ROOMS if is_inside(module, f"experiments.{room}")), "")


def imports_between_rooms() -> dict[str, set[str]]:
    imports = {room: set() for room in ROOMS}
    for path in SOURCES:
        room = room_of(module_name(path))
        if room:
            reached = {room_of(name) for name in imported_modules(ast.parse(path.read_text()))}
            imports[room] |= reached - {room, ""}
    return imports


def floors_of(imports: dict[str, set[str]]) -> list[set[str]]:
    """Rooms from the ground up, each above all that it imports; a `ValueError` names rooms of a circle."""
    floors, placed = [], set()
    while len(placed) < len(imports):
        floor = {room for room, below in imports.items() if room not in placed and below <= placed}
        if not floor:
            raise ValueError(f"a circle among {', '.join(sorted(set(imports) - placed))}")
        floors.append(floor)
        placed |= floor
    return floors


def commands() -> list[pathlib.Path]:
    return [path for path in sorted((ROOT / "experiments").glob("*.py")) if path.name != "__init__.py"]


def is_command(tree: ast.Module) -> bool:
    return any(isinstance(node, ast.If) and ast.unparse(node.test) == "__name__ == '__main__'" for node in tree.body)


def strings_that_name(package: str, tree: ast.AST) -> list[str]:
    """Strings with a module of a package, as `python -m` takes them; documentation may name what it likes."""
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    documentation = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, documented) and ast.get_docstring(node) is not None
    }
    texts = (
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documentation
    )
    return [text for text in texts if re.search(rf"\b{package}\.\w", text)]


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
        ("common.errors", "from common.ops.shapes import InputShape"),
        ("common.files.arrays", "from common.records import RunDirectory"),
        ("common.ops.distances", "from common.losses import TripletLoss"),
        ("common.retrieval.search.candidates", "from common.retrieval.labels import class_codes"),
        ("common.retrieval.evaluator", "from common.diagnostics import diagnose"),
        ("common.records.training_cost", "from common.training.callbacks import RecordMetrics"),
        ("common.training.fit", "from common.deployment import load_embedder"),
        ("common.data.glyphs", "import experiments.settings.build"),
        ("common.index.embedding_index", "from common.data import load_manifest"),
        ("experiments.process.exit_code", "from experiments.settings import flags"),
        ("experiments.settings.build", "from experiments.units.splits import split_of"),
        ("experiments.reports.tables", "from experiments.units import unit"),
        ("experiments.units.unit", "from experiments import reports"),
        ("experiments.preparation.pretraining", "from experiments.units.unit_runs import UnitRuns"),
        ("experiments.protocols.fair", "from experiments.evidence.recording import record_finished"),
        ("experiments.analyses.attention", "from experiments.protocols import fair"),
        ("experiments.evidence.extras", "from experiments.studies.token_selection import SETTINGS"),
        ("experiments.site.pages", "from experiments.evidence import store"),
        ("experiments.site.pages", "from experiments.photo_search import strips"),
        ("experiments.tuning.search", "from experiments.protocols import fair"),
        ("experiments.photo_search.actions", "from experiments.photo_page.gallery import Gallery"),
        ("experiments.studies.agreement", "from experiments.blocks.builders import markdown_of"),
        ("experiments.blocks.builders", "from experiments.site import charts"),
        ("experiments.studies.poolings", "from experiments import pooling_comparison"),
        ("experiments.studies.external_figures", "import benchmarks.gsp_layer"),
    ],
)
def test_a_planted_violation_is_found(module, line):
    assert forbidden_imports(module, ast.parse(line)) != []


def test_every_folder_of_experiments_is_a_room():
    assert {path.parent.name for path in (ROOT / "experiments").glob("*/*.py")} == set(ROOMS)


def test_rooms_have_no_circle_and_few_floors():
    floors = floors_of(imports_between_rooms())
    assert len(floors) <= MAX_ROOM_FLOORS
    assert floors_of({room: set(below) for room, below in ROOMS.items()}) == floors


def test_the_map_in_contributing_has_the_floors():
    rows = re.findall(r"^\| (\d) \| `(\w+)/` \|", (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"), re.MULTILINE)
    floors = floors_of(imports_between_rooms())
    assert sorted(rows) == sorted((str(number), room) for number, floor in enumerate(floors, 1) for room in floor)


def test_a_planted_circle_is_found():
    imports = imports_between_rooms()
    imports["settings"].add("protocols")
    with pytest.raises(ValueError, match="a circle among .*protocols.*settings"):
        floors_of(imports)


@pytest.mark.parametrize("path", commands(), ids=lambda path: path.stem)
def test_every_module_at_the_top_of_experiments_is_a_command(path):
    assert is_command(ast.parse(path.read_text())), "what commands share belongs into a room"


def test_a_module_that_nobody_can_run_is_no_command():
    assert is_command(ast.parse('if __name__ == "__main__":\n    main()'))
    assert not is_command(ast.parse('"""Is run when __name__ is __main__."""\ndef main(): pass'))


@pytest.mark.parametrize("path", SOURCES, ids=module_name)
def test_nothing_imports_a_command(path):
    names = {f"experiments.{command.stem}" for command in commands()}
    assert sorted(names & imported_modules(ast.parse(path.read_text()))) == []


RUN_BY_NAME = []  # known exceptions: who mends one takes it off this list


def test_nothing_below_benchmarks_runs_them_by_name():
    found = [
        str(path.relative_to(ROOT))
        for path in SOURCES
        if not is_inside(module_name(path), "benchmarks")
        and strings_that_name("benchmarks", ast.parse(path.read_text()))
    ]
    assert found == RUN_BY_NAME


def test_a_planted_name_is_found():
    planted = '"""As benchmarks.gsp_layer does."""\nmodule = "benchmarks.gsp_layer"\nfolder = "benchmarks/README.md"\n'
    assert strings_that_name("benchmarks", ast.parse(planted)) == ["benchmarks.gsp_layer"]


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
