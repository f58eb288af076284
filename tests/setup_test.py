"""What pyproject.toml asks for, beside the files of requirements, the sources and this environment."""

import ast
import sys

import pytest
from packaging.requirements import Requirement

from tests.support.sources import PACKAGES, ROOT

DISTRIBUTIONS = {  # where modules have another name
    **{"PIL": "pillow", "absl": "absl-py", "jinja2": "Jinja2", "sklearn": "scikit-learn"},
    "python_multipart": "python-multipart",
}
OF_AN_EXTRA = {f"photo_search/page/{name}.py": "serve" for name in ("app", "guards")}  # imported once it is checked
BROUGHT = {"threadpoolctl": "scikit-learn", "ml_dtypes": "tensorflow"}  # by a distribution that is asked for
BROUGHT_BY_TENSORFLOW = {"requirements.txt": set(), "constraints/thesis.txt": {"keras", "tensorboard"}}


tomllib = pytest.importorskip("tomllib", reason="tomllib comes with Python 3.11")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = PROJECT["optional-dependencies"]


def required(lines) -> dict[str, Requirement]:
    requirements = [Requirement(text) for line in lines if (text := line.partition("#")[0].strip())]
    return {requirement.name: requirement for requirement in requirements}


def lines_of(name: str) -> list[str]:
    return (ROOT / name).read_text(encoding="utf-8").splitlines()


@pytest.mark.parametrize(("file", "brought"), BROUGHT_BY_TENSORFLOW.items())
def test_both_stacks_have_what_the_package_asks_for(file, brought):
    wanted, stack = required(PROJECT["dependencies"]), required(lines_of(file))
    assert set(wanted) - set(stack) == brought
    for name, requirement in stack.items():
        lowest = [each.version for each in requirement.specifier if each.operator in ("==", ">=")]
        assert all(wanted[name].specifier.contains(version) for version in lowest if name in wanted), name


def test_the_container_has_all_that_is_installed():
    lines = (ROOT / "Dockerfile").read_text(encoding="utf-8").splitlines()
    steps = [line.split() for line in lines if line and line[0] != "#"]
    copied = [source for step in steps if step[0] == "COPY" for source in step[1:-1]]
    assert all(list(ROOT.glob(source)) for source in copied)
    assert {*PACKAGES, "setup.py", "pyproject.toml", "README.md", "LICENSE"} == set(copied)
    version = lines_of("requirements.txt")[1].partition("==")[2]
    assert ["ARG", f"TENSORFLOW={version}"] in steps
    assert ["FROM", "tensorflow/tensorflow:${TENSORFLOW}-gpu"] in steps
    assert steps[-1] == ["ENTRYPOINT", '["dml"]']


def test_what_the_packages_import_is_asked_for():
    for path in sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py")):
        imported = set()
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.Import):
                imported |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                imported.add(node.module.partition(".")[0])
        others = imported - set(PACKAGES) - set(sys.stdlib_module_names)
        distributions = {DISTRIBUTIONS.get(module, BROUGHT.get(module, module)) for module in others}
        extra = EXTRAS.get(OF_AN_EXTRA.get(path.relative_to(ROOT).as_posix()), [])
        assert distributions - set(required([*PROJECT["dependencies"], *extra])) == set(), path
