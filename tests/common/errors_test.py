import sys
import types

import pytest

from common.errors import (
    InvalidInput,
    SeveralInvalid,
    check_all,
    check_choice,
    check_fraction,
    check_given,
    check_keras,
    check_non_negative,
    check_positive,
    invalid,
    nearest_choice,
)


def test_an_error_has_three_parts():
    error = invalid("ratio", received="1", expected="a number", fix="Leave out the quotes.")
    assert str(error) == "Invalid ratio: received '1', expected a number. Leave out the quotes."
    assert str(invalid("ratio", received=2, expected="a number")) == "Invalid ratio: received 2, expected a number."
    assert isinstance(error, ValueError)
    assert (
        str(invalid("--ratio", received=None, expected="a number")) == "Invalid --ratio: not given, expected a number."
    )
    assert "received None" in str(invalid("ratio", received=None, expected="a number"))


def keras_of(monkeypatch, version, backend="tensorflow"):
    monkeypatch.setitem(sys.modules, "keras", types.SimpleNamespace(__version__=version))
    return types.SimpleNamespace(ops=None, backend=types.SimpleNamespace(backend=lambda: backend))


def test_a_keras_that_layers_do_not_run_on(monkeypatch):
    for version in ("3.5.0", "3.15.1", "3.40.0"):
        check_keras(keras_of(monkeypatch, version))
    for version in ("3.0.5", "3.4.1"):
        with pytest.raises(InvalidInput, match=rf"version of Keras: received '{version}', expected Keras 2.15, or 3.5"):
            check_keras(keras_of(monkeypatch, version))
    with pytest.raises(InvalidInput, match="KERAS_BACKEND: received 'jax', expected tensorflow"):
        check_keras(keras_of(monkeypatch, "3.15.1", "jax"))


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


def test_one_objection_is_raised_as_it_is():
    with pytest.raises(InvalidInput, match=r"^Invalid size: received 0") as raised:
        check_all([lambda: check_positive("size", 0), lambda: check_positive("rate", 1)])
    assert not isinstance(raised.value, SeveralInvalid)
    check_all([])


def test_several_objections_are_raised_together_each_once_and_flat():
    def inner():
        check_all([lambda: check_positive("b", 0), lambda: check_positive("c", 0)])

    with pytest.raises(InvalidInput) as raised:
        check_all([lambda: check_positive("a", 0), inner, lambda: check_positive("b", 0)])
    assert [str(problem).split(":")[0] for problem in raised.value.problems] == [f"Invalid {name}" for name in "abc"]
    lines = str(raised.value).splitlines()
    assert lines[0] == "3 things are wrong:"
    assert lines[3].startswith("  3. Invalid c: received 0, expected a number greater than 0")


def test_what_is_no_objection_passes_through():
    with pytest.raises(ZeroDivisionError):
        check_all([lambda: check_positive("a", 0), lambda: 1 / 0])


@pytest.mark.parametrize(
    ("value", "question"),
    [
        ("arcfce", "Did you mean arcface?"),
        ("MobilenetV2", "Did you mean mobilenet_v2 or MobileNetV2?"),
        ("quadruplet", None),
        ("acrfcea", "Did you mean arcface?"),
        ("ContrastiveLoss", "Did you mean c1?"),
        (7, None),
    ],
)
def test_the_nearest_choice_is_suggested(value, question):
    choices = ("arcface", "mobilenet_v2", "MobileNetV2", "c1")
    other_names = {"contrastive_loss": "c1"}
    assert nearest_choice(value, choices, other_names) == question
    with pytest.raises(InvalidInput) as raised:
        check_choice("name", value, choices, other_names)
    assert str(raised.value).endswith(question or "expected one of arcface, mobilenet_v2, MobileNetV2, c1.")
