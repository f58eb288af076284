"""The page on parts of your own: its blocks, saved and trained with."""

import re
import shlex

import pytest

from tests.support.command_line import ROOT, run_here, run_small_here

TEXT = (ROOT / "docs" / "method.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```python\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)
(COMMAND,) = re.findall(r"^    dml fair_eval (--plugin=.*)$", TEXT, re.MULTILINE)
SMALLER = [
    "--num_folds=2",
    "--fold=0",
    "--max_steps=4",
    "--steps_per_evaluation=2",
    "--noexport_model",
    "--logistic_scale=4",
]


@pytest.fixture
def plugin(tmp_path):
    path = tmp_path / "my_plugin.py"
    path.write_text("\n\n".join(BLOCKS))
    return path


def test_the_command_trains_with_them(plugin):
    arguments = [part.replace("my_plugin.py", str(plugin)) for part in shlex.split(COMMAND)]
    places = [f"--runs_dir={plugin.parent / 'runs'}", f"--cache_dir={plugin.parent / 'cache'}"]
    result = run_small_here("experiments.fair_eval", *arguments, *SMALLER, "--logistic_scale=4", *places)
    assert result.returncode == 0, result.stderr
    for method in ("logistic+gap", "logistic+xbm+gsp", "logistic+spread+gap"):
        assert f"\n{method} " in result.stdout
    assert len(list(plugin.parent.glob("runs/fair/stripes/*/fold*/result.json"))) == 3


def test_its_flags_are_in_help(plugin):
    text = run_here("experiments.fair_eval", f"--plugin={plugin}", "--help=all").stdout
    assert "Logistic loss (logistic):\n  --logistic_scale: logistic: a (default: 8.0); in (0, inf)" in text
    words = " ".join(text.split())
    assert "--logistic_boundary: logistic: m, the similarity above which negatives cost most" in words
    assert "(default: 0.5); in (-1, 1)" in words
    assert "Two convolutions with stride 4 (two_convolutions):\n  --two_convolutions_width" in text
