import copy
import re

import pytest

from experiments.reports.result_objection import is_number, numbers, objection_to

HASH = "0123456789"
RESULT = {
    "format": 1,
    "status": "finished",
    "config_hash": HASH,
    "fold": 2,
    "repeat": 0,
    "test": {"P@1": 0.5, "MAP@R": 1, "num_queries": 40},
    "untrained": {"P@1": 0.2, "MAP@R": 0.0},
    "validation": {"best": {"step": 20, "MAP@R": 0.4}},
    "steps": 40,
    "train_seconds": 2.5,
    "diagnostics": {"rho": 0.2, "warning": "collapsed"},
    "deviations": ["one image less"],
    "problems": [{"steps": 12}],
}


def objection(changes):
    result = copy.deepcopy(RESULT)
    for path, value in changes.items():
        *parents, name = path.split()
        place = result
        for parent in parents:
            place = place[parent]
        if value is KeyError:
            del place[name]
        else:
            place[name] = value
    return objection_to(result, 2, 0, HASH)


@pytest.mark.parametrize(
    "changes", [{}, {"diagnostics": KeyError}, {"deviations": KeyError, "problems": KeyError}, {"format": KeyError}]
)
def test_what_a_run_writes_is_shown(changes):
    assert objection(changes) is None


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"format": 9}, "it has format 9, this version of the code reads 1"),
        ({"format": "x"}, "it has format x, this version of the code reads 1"),
        ({"format": [1, 1]}, r"it has format \[1, 1\], this"),
        ({"config_hash": "ffffffffff"}, f"its configuration hash is ffffffffff, its folder's is {HASH}"),
        ({"config_hash": ""}, "its configuration hash is missing"),
        ({"fold": 3}, "it says fold 3, repeat 0"),
        ({"repeat": 1}, "it says fold 2, repeat 1"),
        ({"test": None}, "its test is None, expected an object"),
        ({"test": "0.5"}, "its test is '0.5', expected an object"),
        ({"test MAP@R": KeyError}, "it has no test MAP@R"),
        ({"test MAP@R": "high"}, "its test MAP@R is 'high', expected a number from 0 to 1"),
        ({"test P@1": float("nan")}, "its test P@1 is nan, expected a number from 0 to 1"),
        ({"test P@1": float("inf")}, "its test P@1 is inf, expected a number from 0 to 1"),
        ({"test P@1": 1.5}, "its test P@1 is 1.5, expected a number from 0 to 1"),
        ({"test P@1": True}, "its test P@1 is True, expected"),
        ({"test P@1": 10**400}, "its test P@1 is 1000.*, expected"),
        ({"untrained P@1": "x" * 1000}, "its untrained P@1 is 'x{59}[.]{3}, expected"),
        ({"untrained": []}, r"its untrained is \[\], expected an object"),
        ({"steps": 1.5}, "its steps is 1.5, expected an integer from 0"),
        ({"steps": "many"}, "its steps is 'many', expected"),
        ({"train_seconds": float("nan")}, "its train_seconds is nan, expected a number from 0"),
        ({"train_seconds": KeyError}, "it has no train_seconds"),
        ({"validation": {"best": []}}, r"its validation best is \[\], expected an object"),
        ({"validation best step": None}, "its validation best step is None, expected a number"),
        ({"diagnostics": None}, "its diagnostics is None, expected an object"),
        ({"diagnostics": ["rho"]}, "its diagnostics is"),
        ({"diagnostics rho": "low"}, "its diagnostics rho is 'low', expected a number"),
        ({"diagnostics warning": 1}, "its diagnostics warning is 1, expected a text"),
        ({"deviations": "one image less"}, "its deviations is 'one image less', expected a list"),
        ({"deviations": [1]}, "its deviations 0 is 1, expected a text"),
        ({"problems": [1]}, "its problems 0 is 1, expected an object"),
        ({"environment": [1]}, r"its environment is \[1\], expected an object"),
    ],
)
def test_what_no_run_writes_is_named(changes, message):
    found = objection(changes)
    assert re.fullmatch(f"{message}.*", found), found


def test_numbers_are_what_arithmetic_can_take():
    assert [is_number(value) for value in (1, 0.5, -3, True, None, "1", float("nan"), float("-inf"), 10**400)] == [
        *[True] * 3,
        *[False] * 6,
    ]
    assert numbers({"a": 1, "b": "x", "c": float("nan")}) == {"a": 1}
    assert numbers(None) == numbers([1]) == {}
