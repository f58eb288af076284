"""The audit of gradients: its table, its last line, and that it sees the line that was wrong."""

import sys

import pytest

from benchmarks.gradient_audit import BFLOAT16, EMULATED, NATIVE, OLD_LINE, Error, figures_of, main, table_of

ERRORS = [
    Error("costs", "inside", 8, NATIVE, 1e-6),
    Error("costs", "inside", 64, NATIVE, 3e-6),
    Error("costs", "inside", 64, EMULATED, 2e-6),
    Error("costs", "inside", 64, OLD_LINE, 0.4),
    Error("costs", "inside", 64, BFLOAT16, 1e-3),
    Error("sum", "any", 8, NATIVE, 1e-7),
    Error("sum", "any", 8, BFLOAT16, 2e-3),
]


def test_a_row_a_kind_of_vectors_with_the_largest_errors():
    header, rows = table_of(ERRORS)
    assert header == ["gradient of", "vectors", "worst at", NATIVE, EMULATED, BFLOAT16, OLD_LINE]
    assert rows == [
        ["costs", "inside", 64, "3.0e-06", "2.0e-06", "1.0e-03", "4.0e-01"],
        ["sum", "any", 8, "1.0e-07", "-", "2.0e-03", "-"],
    ]


@pytest.mark.parametrize(
    ("column", "value", "within"), [(NATIVE, 2e-4, False), (EMULATED, 2e-4, False), (BFLOAT16, 0.01, False)]
)
def test_each_bound_counts(column, value, within):
    assert figures_of(ERRORS)["within_bounds"] is True
    assert figures_of([*ERRORS, Error("sum", "any", 8, column, value)])["within_bounds"] is within


def test_a_function_that_is_not_there_is_named(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["gradient_audit", "--cases=nothing"])
    with pytest.raises(SystemExit, match="2"):
        main()
    assert "--cases: received 'nothing', expected beginnings of prototype_costs" in capsys.readouterr().err
