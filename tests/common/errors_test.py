"""What is let through, and the three parts of what is said otherwise."""

import pytest

from common.errors import (
    InvalidInput,
    check_choice,
    check_fraction,
    check_given,
    check_non_negative,
    check_positive,
    invalid,
)


def test_an_error_has_three_parts():
    error = invalid("ratio", received="1", expected="a number", fix="Leave out the quotes.")
    assert str(error) == "Invalid ratio: received '1', expected a number. Leave out the quotes."
    assert str(invalid("ratio", received=2, expected="a number")) == "Invalid ratio: received 2, expected a number."
    assert isinstance(error, ValueError)


def test_what_is_right_comes_back():
    assert check_choice("mode", "b", ("a", "b")) == "b"
    assert check_positive("size", 3) == 3
    assert check_non_negative("rate", 0) == 0
    assert [check_fraction("ratio", value) for value in (0.2, 1.0)] == [0.2, 1.0]
    assert [check_fraction("share", value, zero_allowed=True) for value in (0, 0.2, 1)] == [0, 0.2, 1]


@pytest.mark.parametrize(
    ("check", "value", "message"),
    [
        (lambda name, value: check_choice(name, value, ("a", 2)), "c", "received 'c', expected one of a, 2"),
        (check_given, None, "received None, expected a value"),
        (check_positive, 0, "received 0, expected a number greater than 0"),
        (check_positive, float("nan"), "received nan, expected"),
        (check_non_negative, -1e-9, "expected a number greater than or equal to 0"),
        (check_non_negative, float("nan"), "received nan, expected"),
        (check_fraction, 0, r"received 0, expected a number in \(0, 1\]"),
        (check_fraction, 1.01, r"received 1.01, expected a number in \(0, 1\]"),
        (lambda name, value: check_fraction(name, value, zero_allowed=True), -0.1, r"expected a number in \[0, 1\]"),
        (check_fraction, float("nan"), "received nan, expected"),
    ],
)
def test_what_is_wrong_is_refused(check, value, message):
    with pytest.raises(InvalidInput, match=f"Invalid size: .*{message}"):
        check("size", value)
