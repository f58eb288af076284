import json
import pathlib
import subprocess
import sys

import pytest

from tests.support import mutation
from tests.support.mutation import Result, Results, summary
from tests.support.planted_bugs import Bug

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
MODULE = "def double(x):\n    return 2 * x\n\n\ndef half(x):\n    return x / 2\n"
TESTS = """
import time

from small.module import double

def test_double():
    assert double(2) == 4

def test_ends():
    while double(1) == 0:
        time.sleep(0.01)
"""
RED = """
def test_red_anyway():
    assert False
"""
BUGS = """== caught small/module.py
- 2 * x
+ 3 * x
== survivor small/module.py
- x / 2
+ x / 3
== endless small/module.py @ tests/small/module_test.py::test_ends
- 2 * x
+ 0 * x
== red_anyway small/module.py @ tests/small/red_test.py
- 2 * x
+ 4 * x
== unreadable small/module.py
- return 2 * x
+ return 2 *
? it is not
== hidden small/module.py @ tests/small/module_test.py::test_ends
- x / 2
+ x * 0.5
? the same number
"""
# In an interpreter of its own: a process with TensorFlow's threads is not one to fork.
SCRIPT = """
import json, pathlib, sys
from tests.support.mutation import run_bugs, summary, without_false_alarms
from tests.support.planted_bugs import read_bugs

trees, bugs = [pathlib.Path(path) for path in sys.argv[2:]], read_bugs(pathlib.Path(sys.argv[1]))
found = without_false_alarms(list(run_bugs(bugs, trees, 15.0)), trees[0], 30.0)
print(json.dumps([sorted(map(list, found)), summary(bugs, found)[1]]))
"""


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    folder = tmp_path_factory.mktemp("planted")
    trees = [folder / "first", folder / "second"]
    for tree in trees:
        for path, text in (
            ("small/module.py", MODULE),
            ("small/__init__.py", ""),
            ("tests/small/module_test.py", TESTS),
            ("tests/small/red_test.py", RED),
        ):
            (tree / path).parent.mkdir(parents=True, exist_ok=True)
            (tree / path).write_text(text)
    (folder / "bugs.txt").write_text(f"Head.\n\n{BUGS}")
    command = [sys.executable, "-c", SCRIPT, str(folder / "bugs.txt"), *map(str, trees)]
    output = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=True).stdout
    assert {(tree / "small/module.py").read_text() for tree in trees} == {MODULE}
    results, figures = json.loads(output.splitlines()[-1])
    return {name: (outcome, test) for name, outcome, test, _ in results}, figures


def test_each_bug_has_its_outcome(found):
    assert found[0] == {
        "caught": ("caught", "tests/small/module_test.py::test_double"),
        "unreadable": ("caught", "tests/small/module_test.py"),
        "survivor": ("survived", ""),
        "hidden": ("survived", ""),
        "endless": ("time limit", ""),
        "red_anyway": ("fails without the bug, too", "tests/small/red_test.py::test_red_anyway"),
    }


def test_equivalent_bugs_do_not_count(found):
    assert found[1] == {
        "planted": 4,
        "caught": 1,
        "share": 0.25,
        "survivors": ["survivor", "endless", "red_anyway"],
        "equivalent": ["hidden"],
        "misjudged": ["unreadable"],
    }


def test_the_table_names_test_or_reason():
    bugs = [Bug("a", "x.py", "1", "2", ("t.py",)), Bug("b", "x.py", "1", "3", ("t.py",), "the same")]
    results = [Result("b", "survived", "", 2.0), Result("a", "caught", "tests/t.py::test", 1.0)]
    assert summary(bugs, results)[0] == [["a", "x.py", "t.py::test", 1.0], ["b", "x.py", "equivalent: the same", 2.0]]


def test_results_are_kept_until_the_bug_or_a_file_of_it_has_changed_before_a_run(tmp_path, monkeypatch):
    monkeypatch.setattr(mutation, "ROOT", tmp_path)
    for name in ("module.py", "tests.py", "others.py"):
        (tmp_path / name).write_text(f"# {name}")
    bug, result = Bug("a", "module.py", "1", "2", ("tests.py",)), Result("a", "caught", "t.py::test", 1.0)
    path = str(tmp_path / "results.jsonl")
    found = Results(path)
    found.add(bug, result)
    assert Results(path).find(bug) == result
    for other in (bug._replace(new="3"), bug._replace(tests=("others.py",))):
        assert Results(path).find(other) is None
    (tmp_path / "module.py").write_text("1 + 0")
    assert found.find(bug) == result
    assert Results(path).find(bug) is Results(None).find(bug) is None
