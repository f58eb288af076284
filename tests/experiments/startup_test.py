"""What a command says before it works needs no TensorFlow; by `sys.modules`, not by the clock."""

import json
import pathlib

import numpy as np
import pytest

from tests.command_line import run_program

COMMANDS = sorted(
    path.stem for path in pathlib.Path(__file__).parents[2].joinpath("experiments").glob("*.py") if path.stem[0] != "_"
)
# The server that the program is forked from has imported it: it is hidden until somebody imports it.
PROGRAM = """
import importlib.machinery, json, runpy, sys
module, found, *arguments = {arguments!r}
hidden = {{name: sys.modules.pop(name) for name in ("keras", "tensorflow") if name in sys.modules}}
class Finder:
    @staticmethod
    def find_spec(name, path=None, target=None):
        return importlib.machinery.ModuleSpec(name, Finder, is_package=True) if name in hidden else None
    @staticmethod
    def create_module(spec):
        sys.modules.update(hidden)
        return hidden[spec.name]
    @staticmethod
    def exec_module(module):
        pass
sys.meta_path.insert(0, Finder)
sys.argv = [module, *arguments]
try:
    runpy.run_module(module, run_name="__main__")
finally:
    with open(found, "w") as file:
        json.dump("tensorflow" in sys.modules, file)
"""


def imports_tensorflow(tmp_path, module: str, *arguments: str) -> tuple[bool, int]:
    """Whether a command in a process of its own imports TensorFlow, and its exit code."""
    found = tmp_path / "found.json"
    program = PROGRAM.format(arguments=[module, str(found), *arguments])
    finished = run_program(["-c", program])
    return json.loads(found.read_text()), finished.returncode


@pytest.mark.parametrize(
    ("command", "arguments", "code"),
    [
        ("fair_eval", ["--help"], 0),
        ("fair_eval", ["--explain", "--methods=c2+ccp+gsp,supcon+gap,margin+distance+rho+xbm+cbam"], 0),
        ("fair_eval", ["--explain", "--dataset=cub200", "--backbone=vit_small_16", "--layer_decay=0.7"], 0),
        ("fair_eval", ["--explain", "--methods=margin+distance+shared+intra+dance+gap,margin+pads+gap"], 0),
        ("fair_eval", ["--loss=nosuch"], 2),
        ("fair_eval", ["--loss=margin+pads", "--method=ccp"], 2),
        ("revisiting_eval", ["--loss=triplet+distance+intra"], 2),
        ("fair_eval", ["--transport_ratios=0.5"], 2),
        ("fair_eval", ["--pooling=gsp", "--transport_ratio=2"], 2),
        ("fair_eval", ["--dataset=sop", "--data_dir=/nowhere", "--report_only", "--fold=9"], 2),
        ("table", ["--id=5.1", "--runs_dir={folder}"], 0),
        ("table", ["--id=3.2a", "--runs_dir={folder}", "--dataset=cub200"], 0),
        ("table", ["--id=5.9"], 2),
        ("evaluate", ["--shard=3/2", "--shard_file=part.npz"], 2),
        ("evaluate", ["--merge={folder}/none.npz"], 2),
        ("figure", ["--id=5.10", "--runs_dir={folder}"], 0),
    ],
)
def test_no_tensorflow_where_nothing_is_trained(command, arguments, code, tmp_path):
    given = [argument.format(folder=tmp_path) for argument in arguments]
    assert imports_tensorflow(tmp_path, f"experiments.{command}", *given) == (False, code)


@pytest.mark.parametrize("command", COMMANDS)
def test_help_needs_no_tensorflow(command, tmp_path):
    assert imports_tensorflow(tmp_path, f"experiments.{command}", "--help") == (False, 0)


def test_the_list_of_commands_needs_no_tensorflow(tmp_path):
    assert imports_tensorflow(tmp_path, "experiments") == (False, 0)


def test_merging_needs_no_tensorflow(tmp_path):
    np.savez(tmp_path / "x.npz", embeddings=np.eye(4, dtype=np.float32), labels=np.array([1, 1, 2, 2]))
    shard = [f"--embeddings={tmp_path}/x.npz", "--shard=1/1", f"--shard_file={tmp_path}/part.npz"]
    assert imports_tensorflow(tmp_path, "experiments.evaluate", *shard) == (True, 0)
    assert imports_tensorflow(tmp_path, "experiments.evaluate", f"--merge={tmp_path}/part.npz") == (False, 0)


def test_scores_start_without_scikit_learn():
    program = "import sys, experiments.protocols.query_shards; sys.exit('sklearn' in sys.modules)"
    assert run_program(["-c", program], fresh="others have imported it").returncode == 0


def test_a_plugin_may_import_it(tmp_path):
    plugin = tmp_path / "my_own.py"
    plugin.write_text("import tensorflow\n\n\ndef register(registry):\n    pass\n")
    assert imports_tensorflow(tmp_path, "experiments.fair_eval", "--help", f"--plugin={plugin}") == (True, 0)
