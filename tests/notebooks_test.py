"""The notebooks run from top to bottom."""

import json
import pathlib
import re

import pytest

from tests.support.command_line import done_here
from tests.support.eager_functions import eagerly

ROOT = pathlib.Path(__file__).parents[1]
NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))


@pytest.fixture(scope="module")
def emoji_cache(tmp_path_factory):
    """One folder for all notebooks: the drawings are decoded once."""
    return tmp_path_factory.mktemp("emoji")


@pytest.mark.slow
@pytest.mark.default_stack
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(path, emoji_cache, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "agg")
    (tmp_path / "cache").symlink_to(emoji_cache)
    scope = {}
    text = path.read_text(encoding="utf-8").replace("labels.min() + 40", "labels.min() + 8")  # fewer emoji
    for cell in json.loads(text)["cells"]:
        source = re.sub("(epochs?|_steps|_per_evaluation)=[2-9][0-9]*", r"\1=2", "".join(cell["source"]))
        with eagerly(True):
            if source.startswith("!python -m "):
                done_here(*source.removeprefix("!python -m ").format(**scope).split())
            elif cell["cell_type"] == "code":
                assert cell["outputs"] or "print" not in source, "a cell without its output"
                exec(source, scope)  # as a reader does
