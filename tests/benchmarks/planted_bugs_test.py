import ast
import pathlib

import pytest

from common.errors import InvalidInput
from tests.support.planted_bugs import Bug, read_bugs

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


def test_every_listed_bug_fits_the_tree():
    for bug in read_bugs():
        text = (ROOT / bug.path).read_text()
        assert ast.dump(ast.parse(bug.planted(text))) != ast.dump(ast.parse(text)), bug.name
        assert [test for test in bug.tests if not (ROOT / test).is_file()] == [], bug.name


def test_a_bug_of_several_lines(tmp_path):
    path = tmp_path / "bugs.txt"
    path.write_text(
        "Words.\n\n== one a/b.py\n-     x = 1\n-     y\n+     x = 2\n? alike\n== two c.py @ t.py u.py\n- z\n"
    )
    assert read_bugs(path) == [
        Bug("one", "a/b.py", "    x = 1\n    y", "    x = 2", ("tests/a/b_test.py",), "alike"),
        Bug("two", "c.py", "z", "", ("t.py", "u.py")),
    ]
    assert read_bugs(path)[0].planted("if z:\n    x = 1\n    y\n") == "if z:\n    x = 2\n"


@pytest.mark.parametrize("text", ["other", "z z"])
def test_an_old_text_that_is_not_there_once_is_refused(text):
    with pytest.raises(InvalidInput, match="planted bug two: received 'its old text . times in c.py'"):
        Bug("two", "c.py", "z", "", ("t.py",)).planted(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [("\n== a b.py\n- x\nwhat\n", "received 'what'"), ("\n== a b.py\n- x\n== a b.py\n- x", "named a")],
)
def test_a_list_that_cannot_be_read_is_refused(tmp_path, text, message):
    (tmp_path / "bugs.txt").write_text(text)
    with pytest.raises(InvalidInput, match=message):
        read_bugs(tmp_path / "bugs.txt")
