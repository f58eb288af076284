"""Every Python block of README.md and docs/ runs, and prints what the block of text behind it says."""

import pathlib
import re
from typing import NamedTuple

import pytest

import experiments.settings.build as build  # also brings TensorFlow, so that these tests run on both stacks
from common.training.devices import IS_KERAS_3
from experiments.__main__ import commands

ROOT = pathlib.Path(__file__).resolve().parents[1]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
OTHERS = [ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *sorted(ROOT.glob("*/README.md"))]  # links alone
_BLOCK = re.compile(
    r"^(?:<!-- not run: (?P<reason>[^\n]+) -->\n)?```python\n(?P<code>.*?)^```\n(?:```text\n(?P<printed>.*?)^```\n)?",
    re.MULTILINE | re.DOTALL,
)
NOT_RUN = 3  # blocks that need data; who adds one writes `<!-- not run: REASON -->` above it and counts it here, unless
# the reason begins with "Keras 2 ": it is run on Keras 3


class Block(NamedTuple):
    """A block of Python: its code, what it prints (None: not said), and why it is not run (None: it is)."""

    code: str
    printed: str | None
    reason: str | None


def python_blocks(text: str) -> list[Block]:
    return [Block(found["code"], found["printed"], found["reason"]) for found in _BLOCK.finditer(text)]


def blocks_of(path: pathlib.Path) -> list[Block]:
    return python_blocks(path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("path", [path for path in DOCUMENTS if blocks_of(path)], ids=lambda path: path.name)
def test_blocks_run_one_after_the_other(path, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    names = {}
    for block in blocks_of(path):
        if block.reason is None or (block.reason.startswith("Keras 2 ") and IS_KERAS_3):
            exec(compile(block.code, str(path), "exec"), names)
            printed = capsys.readouterr().out
            assert block.printed is None or printed == block.printed


def test_every_block_is_found_and_those_not_run_are_counted():
    found = [block for path in DOCUMENTS for block in blocks_of(path)]
    assert len(found) == sum(path.read_text(encoding="utf-8").count("```python") for path in DOCUMENTS)
    reasons = [block.reason for block in found if block.reason]
    assert sum(not reason.startswith("Keras 2 ") for reason in reasons) == NOT_RUN


def test_a_planted_block_is_read():
    text = "<!-- not run: needs data -->\n```python\na = 1\n```\n\n```python\nprint(2)\n```\n```text\n2\n```\n"
    assert python_blocks(text) == [Block("a = 1\n", None, "needs data"), Block("print(2)\n", "2\n", None)]


@pytest.mark.parametrize(
    ("document", "names"),
    [
        ("losses_and_poolings.md", build.LOSSES),
        ("losses_and_poolings.md", build.POOLINGS),
        ("data_sets.md", [name for name in build.DATASETS if not re.search("_distilled|_published_code", name)]),
    ],
    ids=["losses", "poolings", "data sets"],
)
def test_the_pages_name_all_that_commands_take(document, names):
    text = (ROOT / "docs" / document).read_text(encoding="utf-8")
    assert [name for name in names if f"`{name}`" not in text] == []


def test_the_page_of_commands_names_all_of_them():
    text = (ROOT / "docs" / "command_line.md").read_text(encoding="utf-8")
    assert [name for name in sorted(commands()) if f"`{name}`" not in text] == []


@pytest.mark.parametrize("path", [*DOCUMENTS, *OTHERS], ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_to_files_that_exist(path):
    text = path.read_text(encoding="utf-8")
    places = [link.partition("#")[0] for link in re.findall(r"\]\(([^)\s]+)\)", text) if "://" not in link]
    assert [place for place in places if place and not (path.parent / place).exists()] == []
