import json

import pytest

from tests.experiments.settings.plugin_tables import ARGUMENTS, SOURCE
from tests.support.command_line import check_clean_failure, done_here, done_small_here, run_here

MODULE = "experiments.fair_eval"


@pytest.fixture(scope="module")
def plugin(tmp_path_factory):
    path = tmp_path_factory.mktemp("plugin") / "tiny_plugin.py"
    path.write_text(SOURCE)
    return path


@pytest.fixture(scope="module")
def finished(plugin, tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    arguments = [f"--plugin={plugin}", *ARGUMENTS, f"--runs_dir={folder}", f"--cache_dir={folder / 'cache'}"]
    first = done_small_here(MODULE, *arguments)
    (run,) = folder.glob("fair/stripes/pull+power-*/fold0-repeat0")
    return folder, arguments, first, run


def test_a_run_is_reported_and_stores_its_plug_in(finished):
    _, _, first, run = finished
    assert "pull+power" in first.stdout
    stored = json.loads((run / "config.json").read_text())
    assert stored["pull_scale"] == 2.0
    assert set(stored["plugins"]) == {"loss", "pooling", "backbone", "dataset"}
    assert (run / "model.keras").exists()
    assert "import tiny_plugin  # the plug-in with its layers" in (run / "README.md").read_text()


def test_the_same_command_finds_the_runs_finished(finished):
    _, arguments, first, _ = finished
    again = done_here(MODULE, *arguments)
    assert again.stdout == first.stdout


def test_a_run_is_exported_with_its_plug_in_and_refused_without(finished, plugin, tmp_path):
    *_, run = finished
    arguments = [f"--run={run}", f"--output={tmp_path / 'model.keras'}"]
    check_clean_failure(run_here("experiments.export", *arguments), "Add --plugin=tiny_plugin")
    done_here("experiments.export", f"--plugin={plugin}", *arguments)
    assert (tmp_path / "model.keras").exists()


def test_pages_show_its_settings(finished, plugin, tmp_path):
    folder, *_ = finished
    done_here("experiments.report", f"--plugin={plugin}", f"--runs={folder}", f"--output={tmp_path}", "--num_queries=1")
    text = "".join(page.read_text() for page in tmp_path.glob("*.html"))
    assert "<code>pull_scale</code>" in text


def test_help_and_explain_name_its_settings(plugin):
    text = run_here(MODULE, f"--plugin={plugin}", "--help=all").stdout
    assert "Pull loss (pull):\n  --pull_scale: pull: of the similarities (default: 2.0); in (0, inf)" in text
    assert "; of plug-ins: reversed." in " ".join(text.split())
    assert "--reversed.last: " in run_here(MODULE, f"--plugin={plugin}", "--sampler=reversed", "--help").stdout
    explained = done_here(MODULE, "--plugin", str(plugin), *ARGUMENTS, "--pull_scale=3", "--explain")
    lines = [line.split(maxsplit=2) for line in explained.stdout.splitlines()]
    assert ["pull_scale", "3.0", "given on the command line"] in lines
    assert ["power_power", "2", "default of the setting"] in lines
    assert "loss by the plug-in tiny_plugin (sha256:" in explained.stdout


@pytest.mark.parametrize(
    ("command", "arguments", "expected"),
    [
        ("conventional_eval", ["--explain", "--loss=pull", "--dataset=stripes"], "pull_scale"),
        ("table", ["--id=losses", "--loss=pull,c2", "--budget=demo", "--dataset=stripes", "--details"], "--plugin="),
    ],
)
def test_other_commands_take_its_names(plugin, tmp_path, command, arguments, expected):
    result = done_here(f"experiments.{command}", f"--plugin={plugin}", f"--runs_dir={tmp_path}", *arguments)
    assert expected in result.stdout
