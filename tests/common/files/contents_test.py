import re

import numpy as np
import pytest

from common.errors import InvalidInput
from common.files import Array, Maybe, Number, checked

SHARE, COUNT = Number(float, 0, 1), Number(int, 0)
PAIR = {"first": Array("f", ("rows", 2), -1, 1), "second": Maybe(Array("iu", ("rows",), 0, 5))}


@pytest.mark.parametrize(
    ("value", "description"),
    [
        *((value, SHARE) for value in (0, 1, 0.5, 1 + 1e-12)),
        *((value, int) for value in (-3, 10**20)),
        ({"a": 1, "b": "x", "other": []}, {"a": int, "b": re.compile("x+"), "c": Maybe(str)}),
        ({"a": 1, "note": "x"}, {str: float, "note": Maybe(str)}),
        ({"a": None}, {"a": Maybe([int])}),
        ([[1, True]], [(COUNT, bool)]),
        ({"first": np.zeros((3, 2)), "second": np.arange(3)}, PAIR),
        ({"first": np.zeros((0, 2), np.float16)}, PAIR),
        (np.array(["x", "y"]), Array("U", ("rows",))),
    ],
)
def test_what_is_described_is_given_back(value, description):
    assert checked(value, description, "x.json") is value


@pytest.mark.parametrize(
    ("value", "description", "message"),
    [
        *((value, SHARE, f"x.json: received {value}, expected a number from 0 to 1") for value in (-0.1, 1.1, True)),
        *((value, float, f"x.json: received {value}, expected a number") for value in (float("nan"), float("inf"))),
        (10**400, float, "x.json: received 10{59}..., expected a number"),
        *((value, COUNT, f"x.json: received {value}, expected an integer from 0") for value in (-1, 1.0, False)),
        ("x" * 100, int, "x.json: received 'x{59}..., expected an integer"),
        ({"a": {"b": [1, "2"]}}, {"a": {"b": [int]}}, "x.json, a b 1: received '2', expected an integer"),
        ({}, {"a": {"b": int}}, "x.json, a: received nothing, expected an object"),
        ({"a": None}, {"a": Maybe(int, is_null_allowed=False)}, "x.json, a: received None, expected an integer"),
        ({"a": "x"}, {str: float, "note": str}, "x.json, a: received 'x', expected a number"),
        ([1], [(int, int)], "x.json, 0: received 1, expected a list of 2"),
        ([[1]], [(int, int)], r"x.json, 0: received \[1\], expected a list of 2"),
        ("c", {"a", "b"}, "x.json: received 'c', expected one of a, b"),
        ("xy", re.compile("x+"), r"x.json: received 'xy', expected a text like x\+"),
        (np.arange(2), Array("f", (2,)), r"x.json: received int64 \[2\] from 0 to 1, expected floating-point \[2\]"),
        ({"first": np.zeros((3, 1))}, PAIR, r"first: .*, expected floating-point \[rows = 3, 2\] from -1"),
        ({"first": np.array([[0, np.nan]])}, PAIR, "first: received .* from nan to nan"),
        ({"first": np.array([[0, 1.1]])}, PAIR, "first: received .* from 0.0 to 1.1"),
        (
            {"first": np.zeros((3, 2)), "second": np.arange(4)},
            PAIR,
            r"second: .*, expected integer \[rows = 3\] from 0 to",
        ),
        ({"first": np.zeros((3, 2)), "second": np.arange(4, 7)}, PAIR, "second: received int64 .* from 4 to 6"),
        ({"first": [[0, 0]]}, PAIR, r"first: received \[\[0, 0\]\], expected floating-point"),
    ],
)
def test_the_first_part_that_differs_is_named(value, description, message):
    with pytest.raises(InvalidInput, match=f"Invalid .*{message}.*[.] Make it again[.]$"):
        checked(value, description, "x.json", fix="Make it again.")
