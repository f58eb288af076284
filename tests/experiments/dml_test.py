import os
import re
import sys

import pytest

from experiments.__main__ import GROUPS, commands, listing, module_of
from tests.support.command_line import run_here, run_program


def test_every_command_is_listed_once_on_a_line_of_its_own():
    listed = re.findall(r"^  (\w+) +(\S.*)$", listing(), re.MULTILINE)
    assert dict(listed) == commands()  # none is cut off
    assert len(listed) == len(commands()) >= 21
    assert max(map(len, listing().splitlines())) <= 100
    grouped = [name for names in GROUPS.values() for name in names]
    assert len(grouped) == len(set(grouped))


def test_a_command_without_a_group_and_a_long_line(monkeypatch):
    monkeypatch.setattr("experiments.__main__.commands", lambda: {"search": "Short.", "mine": "A word. " * 20})
    *_, search, _, other, mine = listing().splitlines()
    assert (search, other) == ("  search  Short.", "Other:")
    assert mine.startswith("  mine    A word. A word.")
    assert mine.endswith(" ...")
    assert len(mine) <= 100


@pytest.mark.parametrize("arguments", [[], ["--help"], ["help"]])
def test_the_list_is_printed(arguments):
    finished = run_here("experiments", *arguments)
    assert (finished.returncode, finished.stdout) == (0, listing() + "\n")


@pytest.mark.parametrize(
    "arguments",
    [["table", "--help"], ["table", "--id=5.9"], ["fair_eval", "--loss=nosuch"], ["search", "nosuch"], ["evaluate"]],
    ids=" ".join,
)
def test_a_command_says_and_returns_what_its_module_does(arguments):
    expected, finished = run_here(module_of(arguments[0]), *arguments[1:]), run_here("experiments", *arguments)
    assert (finished.returncode, finished.stdout, finished.stderr) == (
        *(expected.returncode, expected.stdout, expected.stderr),
    )


def test_commands_of_photo_search_keep_their_old_modules_for_one_release():
    for name in GROUPS["Photos"]:
        assert run_here(f"experiments.{name}", "--help").stdout == run_here(f"photo_search.{name}", "--help").stdout


def test_nothing_near_is_named_for_nonsense():
    assert "Did you mean" not in run_here("experiments", "qqqqqqq").stderr


def test_plugins_beside_the_user_are_found(tmp_path):
    """By name, as of `python -m`; their names do not hide those of installed packages."""
    (tmp_path / "my_plugin.py").write_text("def register(registry):\n    print('registered')\n")
    (tmp_path / "absl.py").write_text("raise RuntimeError('hides absl')\n")
    program = f"import sys; sys.path[0] = {os.getcwd()!r}; from experiments.__main__ import main; main()"
    arguments = ["-c", program, "fair_eval", "--plugin=my_plugin", "--help"]
    finished = run_program(arguments, cwd=tmp_path, fresh="it must not have imported absl")
    assert finished.returncode == 0, finished.stderr
    assert finished.stdout.startswith("registered\nFair evaluation")
    assert sys.modules.get("my_plugin") is None
