"""Every public function and method of the library packages says what it takes and what it gives."""

import ast
import pathlib

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent
PACKAGES = ("common", "gsp_dml", "ccp_dml")
SOURCES = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))

PLANTED = '''
class Loss:
    def __init__(self, margin=0.2):
        self.margin = margin

    @property
    def terms(self):
        return 2

    @staticmethod
    def of(self: int) -> int:
        return self

    def _hidden(self, anything):
        return anything

def distance(x: float, /, y, *others, axis: int = 0, **options: str) -> float:
    def helper(anything):
        return anything
    return x

async def complete(x: float) -> None:
    """Has everything."""

class _Private:
    def method(self, anything):
        return anything
'''


def public_functions(tree: ast.AST, prefix: str = "") -> list[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef, bool]]:
    """Name, node and whether it is a method, of what can be called from outside: constructors and operators, too."""
    found = []
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.ClassDef) and is_public(node.name):
            found += public_functions(node, f"{prefix}{node.name}.")
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and is_public(node.name):
            decorators = {ast.unparse(decorator) for decorator in node.decorator_list}
            found.append((prefix + node.name, node, bool(prefix) and "staticmethod" not in decorators))
        elif not isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            found += public_functions(node, prefix)  # below an `if` or a `try`
    return found


def is_public(name: str) -> bool:
    return not name.startswith("_") or (name.startswith("__") and name.endswith("__"))


def annotations(tree: ast.AST) -> dict[str, bool]:
    """Whether each argument (but `self` and `cls`) and each return of the public functions has an annotation."""
    found = {}
    for name, function, is_method in public_functions(tree):
        arguments = function.args
        taken = [*arguments.posonlyargs, *arguments.args][1 if is_method else 0 :]
        taken += [*arguments.kwonlyargs, *filter(None, (arguments.vararg, arguments.kwarg))]
        found |= {f"{name}({argument.arg})": argument.annotation is not None for argument in taken}
        found[f"{name} ->"] = function.returns is not None
    return found


@pytest.mark.parametrize("package", PACKAGES)
def test_all_arguments_and_returns_are_annotated(package):
    found = {}
    for path in SOURCES:
        place = path.relative_to(ROOT)
        if place.parts[0] == package:
            found |= {f"{place}: {what}": has for what, has in annotations(ast.parse(path.read_text())).items()}
    assert len(found) > 100
    missing = [what for what, has in found.items() if not has]
    share = 1 - len(missing) / len(found)
    assert share == 1.0, f"{share:.2%} of {len(found)} are annotated, all but: {', '.join(missing)}"


def test_what_lacks_annotations_is_found():
    found = annotations(ast.parse(PLANTED))
    assert [what for what, has in found.items() if not has] == [
        "Loss.__init__(margin)",
        "Loss.__init__ ->",
        "Loss.terms ->",
        "distance(y)",
        "distance(others)",
    ]
    assert len(found) == 13
