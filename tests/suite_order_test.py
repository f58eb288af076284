"""Files with slow tests come first and stay together; what the stack cannot change is told apart."""

import pathlib
from types import SimpleNamespace

import pytest

from tests.suite_order import (
    FORMULAS,
    FRONT_ENDS,
    ONE_STACK,
    TESTS,
    fixture_files,
    needs_one_stack,
    slow_files_first,
    split_by_stack,
)


class _Item:
    def __init__(self, path, is_slow=False, fixture=None, marker=None):
        self.path, self._markers = pathlib.Path(path), {"slow"} if is_slow else {marker}
        definitions = {} if fixture is None else {"fixture": [SimpleNamespace(func=_function_in(fixture))]}
        self._fixtureinfo = SimpleNamespace(name2fixturedefs=definitions)

    def get_closest_marker(self, name):
        return "marked" if name in self._markers else None


def _function_in(path):
    namespace = {}
    exec(compile("def fixture(): pass", str(path), "exec"), namespace)
    return namespace["fixture"]


def test_slow_files_come_first_and_stay_together():
    a, b, c = (_Item("a"), [_Item("b"), _Item("b", True)], [_Item("c", True), _Item("c"), _Item("c", True)])
    assert slow_files_first([a, *b, *c]) == [*c, *b, a]


def test_tests_are_split_and_keep_their_order():
    losses, statistics = TESTS / "common/losses/triplet_test.py", TESTS / "common/diagnostics/clustering_test.py"
    items = [
        _Item(statistics),
        _Item(losses),
        _Item(statistics),
        _Item(statistics, fixture=TESTS / "gsp_dml/readme_test.py"),
        _Item(losses, marker=ONE_STACK),
    ]
    assert split_by_stack(items) == ([items[1], items[3]], [items[0], items[2], items[4]])


@pytest.mark.parametrize(
    ("path", "counts"),
    [(TESTS / "experiments/conftest.py", True), (TESTS / "conftest.py", False), ("/elsewhere/plugin.py", False)],
)
def test_fixtures_of_other_files_count(path, counts):
    assert fixture_files(_Item("a", fixture=path)) == ((path,) if counts else ())


def test_front_ends_are_there_and_run_on_one_stack():
    assert [place for place in (*FRONT_ENDS, *FORMULAS) if not (TESTS / place).exists()] == []
    page, table = TESTS / "experiments/photo_page/app_test.py", TESTS / "experiments/studies_test.py"
    assert split_by_stack([_Item(page), _Item(table)])[0] == []


@pytest.mark.parametrize(
    "place", ["experiments/units", "experiments/protocols", "experiments/deployment", "conformance"]
)
def test_what_trains_and_embeds_runs_on_either_stack(place):
    own = {"feature_runs_test.py", "transformer_runs_test.py"}  # kinds of units, whose parts the library's tests train
    assert {path.name for path in (TESTS / place).glob("*_test.py") if needs_one_stack(path)} <= own
    assert not needs_one_stack(TESTS / "experiments/fair_eval_test.py")
