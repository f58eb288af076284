import ast
import pathlib
import re

import pytest

from experiments.settings.parts import all_settings
from tests.command_line import run_here

ROOT = pathlib.Path(__file__).resolve().parents[2]
COMMANDS = sorted(path.stem for path in (ROOT / "experiments").glob("*.py") if path.stem[0] != "_")
DOCUMENTS = sorted(path for pattern in ("*.md", "*/*.md", "docs/*/*.md") for path in ROOT.glob(pattern))
FLAG = re.compile(r"(?<![\w-])--(?:no(?=[a-z_]+\b))?([a-z][a-z0-9_]*)")
OF_GIT = {"error", "name", "short"}
OF_SLURM = {"noheader", "array", "states", "user", "name"}
OF_OTHER_PROGRAMS = {"query", "format", "upgrade", "curve", "logdir"}  # of nvidia-smi, pip, benchmarks.gsp_layer, ...
PLACEHOLDERS = {"flags", "no"}  # "only --flags", "--no{name}"


@pytest.fixture(scope="module")
def listed():
    """The flags that each command's `--help` lists."""
    found = {}
    for command in COMMANDS:
        result = run_here(f"experiments.{command}", "--help")
        assert result.returncode == 0, (command, result.stderr)
        found[command] = set(re.findall(r"^  --(?:\[no\])?(\w+):", result.stdout, flags=re.MULTILINE)) | {"help"}
    return found


def flags_in(text):
    """Names in a text, each as it is written and without a `no` before it."""
    return [(match[0][2:], match[1]) for match in FLAG.finditer(text)]


def commands_of(text):
    """(command, arguments) of every `python -m experiments.COMMAND ...`, also as `dml`, with lines that continue."""
    joined = re.sub(r"\\\n\s*", " ", text)
    return re.findall(r"(?:python -m experiments\.|(?<!as )\bdml )(\w+)([^`\n#|]*)", joined)


def test_every_command_lists_its_flags(listed):
    assert len(COMMANDS) >= 18
    assert all(len(flags) > 2 for flags in listed.values()), {name: len(flags) for name, flags in listed.items()}


@pytest.mark.parametrize("command", ["fair_eval", "conventional_eval", "revisiting_eval", "table", "collage_study"])
def test_help_lists_every_setting_and_nothing_of_other_packages(command, listed):
    missing = {each.name for each in all_settings()} - listed[command]
    assert missing <= {"method", "protocol", "pooling"}
    assert "runs_dir" in listed[command]
    assert not listed[command] & {"logtostderr", "test_srcdir"}


def test_documents_name_flags_that_their_commands_have(listed):
    wrong, seen = [], 0
    for path in DOCUMENTS:
        for command, arguments in commands_of(path.read_text(encoding="utf-8")):
            if command not in (*COMMANDS, "NAME", "documents"):
                wrong.append(f"{path.relative_to(ROOT)}: {command}")
            for written, bare in flags_in(arguments):
                seen += 1
                if not {written, bare} & listed.get(command, {"help"}):
                    wrong.append(f"{path.relative_to(ROOT)}: {command} --{written}")
    assert wrong == []
    assert seen > 300


def test_messages_and_docstrings_name_flags_that_a_command_has(listed):
    known = set().union(*listed.values(), OF_GIT, OF_SLURM, OF_OTHER_PROGRAMS, PLACEHOLDERS)
    wrong, seen = [], 0
    for package in ("common", "gsp_dml", "ccp_dml", "experiments"):
        for path in (ROOT / package).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Constant) and isinstance(node.value, str):
                    for written, bare in flags_in(node.value):
                        seen += 1
                        if not {written, bare} & known:
                            wrong.append(f"{path.relative_to(ROOT)}:{node.lineno}: --{written}")
    assert wrong == []
    assert seen > 300
