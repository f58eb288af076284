"""What a command says before it works needs no TensorFlow; by `sys.modules`, not by the clock."""

import json

from experiments.__main__ import commands, module_of
from tests.support.command_line import run_program

COMMANDS = sorted(commands())
# The server that the program is forked from has imported it: it is hidden until somebody imports it.
PROGRAM = """
import importlib.machinery, json, sys
hidden = {name: sys.modules.pop(name) for name in ("keras", "tensorflow") if name in sys.modules}
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
from experiments.__main__ import commands, module_of
from tests.support.command_line import run_here
found = []
for module, *arguments in json.loads(sys.argv[1]):
    code = run_here(module, *arguments).returncode
    found.append(["tensorflow" in sys.modules, code])
print(json.dumps(found))
"""


def imports_tensorflow(*calls: list[str]) -> list[list]:
    """For commands, called in turn in one process: whether TensorFlow is imported by then, and the exit code."""
    finished = run_program(["-c", PROGRAM, json.dumps(calls)])
    assert finished.returncode == 0, finished.stderr
    return json.loads(finished.stdout)


def test_no_tensorflow_where_nothing_is_trained(tmp_path):
    calls = [
        (0, "fair_eval", "--help"),
        (0, "fair_eval", "--explain", "--methods=c2+ccp+gsp,supcon+gap,margin+distance+rho+xbm+cbam"),
        (0, "fair_eval", "--explain", "--dataset=cub200", "--backbone=vit_small_16", "--layer_decay=0.7"),
        (0, "fair_eval", "--explain", "--methods=margin+distance+shared+intra+dance+gap,margin+pads+gap"),
        (2, "fair_eval", "--loss=nosuch"),
        (2, "fair_eval", "--loss=margin+pads", "--method=ccp"),
        (2, "revisiting_eval", "--loss=triplet+distance+intra"),
        (2, "fair_eval", "--transport_ratios=0.5"),
        (2, "fair_eval", "--pooling=gsp", "--transport_ratio=2"),
        (2, "fair_eval", "--dataset=sop", "--data_dir=/nowhere", "--report_only", "--fold=9"),
        (0, "table", "--id=5.1", f"--runs_dir={tmp_path}"),
        (0, "table", "--id=3.2a", f"--runs_dir={tmp_path}", "--dataset=cub200"),
        (2, "table", "--id=5.9"),
        (2, "evaluate"),
        (2, "evaluate", "--shards=8"),
        (0, "figure", "--id=5.10", f"--runs_dir={tmp_path}"),
        *((0, command, "--help") for command in COMMANDS),
    ]
    found = imports_tensorflow(["experiments"], *([module_of(name), *given] for _, name, *given in calls))
    for call, outcome in zip([(0, "the list"), *calls], found):
        assert outcome == [False, call[0]], call[1:]


def test_scores_start_without_scikit_learn():
    program = "import sys, experiments.protocols.embedding_files; sys.exit('sklearn' in sys.modules)"
    assert run_program(["-c", program], fresh="others have imported it").returncode == 0


def test_a_plugin_may_import_it(tmp_path):
    plugin = tmp_path / "my_own.py"
    plugin.write_text("import tensorflow\n\n\ndef register(registry):\n    pass\n")
    assert imports_tensorflow(["experiments.fair_eval", "--help", f"--plugin={plugin}"]) == [[True, 0]]
