import ast
import functools
import pathlib
import re

import pytest

from common.errors import check_choice
from experiments.__main__ import commands, module_of
from experiments.parts.registry import choices_of_method
from experiments.parts.setting import check_value
from experiments.preparation.pretrain_settings import GLYPHS
from experiments.settings import build
from experiments.settings.parts import all_settings
from experiments.settings.run_settings import BUDGETS
from tests.support.command_line import run_here
from tests.support.sources import PACKAGES

ROOT = pathlib.Path(__file__).resolve().parents[2]
COMMANDS = sorted(commands())
HISTORY = ROOT / "CHANGELOG.md"  # names what was
DOCUMENTS = sorted(path for pattern in ("*.md", "*/*.md", "docs/*/*.md") for path in ROOT.glob(pattern))
FLAG = re.compile(r"(?<![\w-])--(?:no(?=[a-z_]+\b))?([a-z][a-z0-9_]*)")
OF_ABSL = {"help", "flagfile"}
OF_GIT = {"error", "name", "short"}
OF_SLURM = {"noheader", "array", "states", "user", "name"}
OF_OTHER_PROGRAMS = {"upgrade", "curve", "logdir"}  # of pip, figure 5.9, ...
PLACEHOLDERS = {"flags", "no"}  # "only --flags", "--no{name}"


@pytest.fixture(scope="module")
def listed():
    """The flags that each command's `--help` lists."""
    found = {}
    for command in COMMANDS:
        result = run_here(module_of(command), "--help=all")
        assert result.returncode == 0, (command, result.stderr)
        found[command] = set(re.findall(r"^  --(?:\[no\])?(\w+):", result.stdout, flags=re.MULTILINE)) | OF_ABSL
    return found


def flags_in(text):
    """Names in a text, each as it is written and without a `no` before it."""
    return [(match[0][2:], match[1]) for match in FLAG.finditer(text)]


def commands_of(text):
    """(command, arguments) of every `python -m experiments.COMMAND ...`, also as `dml`, with lines that continue."""
    text = re.sub(r"<sub>From rows:.*", "", text)  # commands of their time
    joined = re.sub(r"\\\n\s*", " ", text)
    return re.findall(r"(?:python -m (?:experiments|photo_search)\.|(?<!as )\bdml )(\w+)([^`\n#|]*)", joined)


def test_every_command_lists_its_flags(listed):
    assert len(COMMANDS) >= 18
    assert all(len(flags) > 2 for flags in listed.values()), {name: len(flags) for name, flags in listed.items()}


@pytest.mark.parametrize("command", ["fair_eval", "conventional_eval", "revisiting_eval", "table", "figure"])
def test_help_lists_every_setting_and_nothing_of_other_packages(command, listed):
    missing = {each.name for each in all_settings()} - listed[command]
    assert missing <= {"method", "protocol", "pooling"}
    assert "runs_dir" in listed[command]
    assert not listed[command] & {"logtostderr", "test_srcdir"}


def test_documents_name_flags_that_their_commands_have(listed):
    wrong, seen = [], 0
    for path in [path for path in DOCUMENTS if path != HISTORY]:
        for command, arguments in commands_of(path.read_text(encoding="utf-8")):
            if command not in (*COMMANDS, "NAME"):
                wrong.append(f"{path.relative_to(ROOT)}: {command}")
            for written, bare in flags_in(arguments):
                seen += 1
                if not {written, bare} & listed.get(command, {"help"}):
                    wrong.append(f"{path.relative_to(ROOT)}: {command} --{written}")
    assert wrong == []
    assert seen > 300


def values_in(text):
    """Each `--flag=value` that a page writes as code, without places that a reader fills in."""
    code = re.findall(
        r"`([^`\n]+)`|^ {4}(.*)$", re.sub(r"\\\n\s*|^<sub>.*$", " ", text, flags=re.MULTILINE), flags=re.MULTILINE
    )
    lines = [one or other for one, other in code if "--plugin=" not in one + other]
    found = re.findall(r"(?<![\w-])--([a-z]\w*)=([^\s\"'\]]+)", " ".join(lines))
    return [(name, value) for name, value in found if not re.search(r"[A-Z]{3}|^[A-Z]$|\.\.\.|…|[<>{}$|]", value)]


def check_setting(name, value):
    (setting,) = (each for each in all_settings() if each.name == name)
    value = setting.kind(value) if setting.kind is not bool else value in ("true", "false")
    check_value(name, value, {"within": None, "choices": (), **setting.metadata})


REFUSED = {("budget", "short"), ("image_size", "0")}  # which a page gives as mistakes
OF_PLUGINS = {("dataset", "omniglot_0"), ("dataset", "omniglot_1"), ("method", "spread")}
NAMED = {  # flags of names, and what accepts one
    "loss": build.check_loss_name,
    "pooling": lambda name: check_choice("pooling", name, build.POOLINGS),
    "backbone": lambda name: name.startswith("kerashub:") or check_choice("backbone", name, build.BACKBONES),
    "dataset": lambda name: name == GLYPHS or check_choice("dataset", name, build.DATASETS),
    "budget": lambda name: check_choice("budget", name, BUDGETS),
    "method": lambda name: check_choice("method", name, choices_of_method()),
}


def test_values_of_flags_in_documents_are_taken():
    settings = {each.name for each in all_settings()} - {"copies", "precision"}  # names that other commands share
    wrong, seen = [], 0
    for path in [path for path in DOCUMENTS if path != HISTORY]:
        for name, given in values_in(path.read_text(encoding="utf-8")):
            check = NAMED.get(name) or (functools.partial(check_setting, name) if name in settings else None)
            for value in given.split(",") if check and (name, given) not in REFUSED | OF_PLUGINS else ():
                seen += 1
                try:
                    check(value)
                except ValueError as error:
                    wrong.append(f"{path.relative_to(ROOT)}: --{name}={value}: {str(error)[:90]}")
    assert wrong == []
    assert seen > 100


def test_modules_and_files_that_documents_name_exist():
    wrong, seen = [], 0
    for path in [path for path in DOCUMENTS if path != HISTORY]:
        text = path.read_text(encoding="utf-8")
        names = re.findall(
            r"`((?:common|gsp_dml|ccp_dml|experiments|photo_search|tests|benchmarks|tools|docs)/(?!(?:[a-z]+/)*x(?:_\w+)?\.py)[\w./-]+)`",
            text,
        )
        for place in [ROOT / name for name in names]:
            seen += 1
            if not place.exists():
                wrong.append(f"{path.relative_to(ROOT)}: {place}")
    assert wrong == []
    assert seen > 15


def test_messages_and_docstrings_name_flags_that_a_command_has(listed):
    known = set().union(*listed.values(), OF_GIT, OF_SLURM, OF_OTHER_PROGRAMS, PLACEHOLDERS)
    wrong, seen = [], 0
    for package in PACKAGES:
        for path in (ROOT / package).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Constant) and isinstance(node.value, str):
                    for written, bare in flags_in(node.value):
                        seen += 1
                        if not {written, bare} & known:
                            wrong.append(f"{path.relative_to(ROOT)}:{node.lineno}: --{written}")
    assert wrong == []
    assert seen > 300
