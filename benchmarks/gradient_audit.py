"""Hand-written gradients against numerical derivatives in float64.

Gradients of float32 and of bfloat16 inputs at 8, 17, 64 and 1,000 rows, of vectors inside, on and outside of the unit
ball and of all three together (`benchmarks.gradient_cases`), eagerly and as a `tf.function`. All are repeated on
emulated processors whose approximations are off by a unit or two in the last place (`benchmarks.inexact_arithmetic`),
since a decision that depends on an inexact result differs between processors. `benchmarks.central_differences` defines
the correct gradient on the ball.

As a control the last column restores a line that was wrong: clipping decided by the scale, `rsqrt(max(1, ||v||^2)) <
1`, instead of the squared norm, on the processor whose rsqrt is one unit low.

Last line: `largest_relative_error` (float32 on this processor; bound 1e-4), `largest_relative_error_bfloat16` (bound
`bound_bfloat16`: the rounding of a gradient to bfloat16, 2^-8, and 1e-4), `largest_relative_error_emulated` (bound
1e-4), `old_line_relative_error`, `within_bounds`, and the number of `gradients` compared.

Command: python -m benchmarks.gradient_audit [--rows=8,17,64,1000] [--cases=prototype_costs] [--seed=0]
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import NamedTuple

from benchmarks.gradient_cases import CASES, COMPILED
from benchmarks.gradient_check import GradientCheck, old_decision
from benchmarks.inexact_arithmetic import PROCESSORS
from benchmarks.measure import print_figures, print_table

ROWS = (8, 17, 64, 1000)
BOUND = 1e-4
BOUND_BFLOAT16 = 2.0**-8 + BOUND
NATIVE, EMULATED, BFLOAT16, OLD_LINE = "float32", "emulated", "bfloat16", "old line"
WITH_THE_OLD_LINE = ("prototype_costs", "transport_pooling", "CompiledPooling")


class Error(NamedTuple):
    """The relative error of one gradient."""

    case: str
    lengths: str
    rows: int
    column: str
    value: float


def errors_of(case: str, lengths: str, rows: int, seed: int = 0) -> list[Error]:
    """Return the errors of all gradients of a case at one size."""
    found = []

    def add(column, value):
        found.append(Error(case, lengths, rows, column, value))

    check = GradientCheck(case, rows, lengths, "float32", seed)
    add(NATIVE, check.error())
    add(NATIVE, check.error(as_function=True))
    is_compiled = case in COMPILED
    if case == "CompiledPooling":  # which costs seconds for each processor and number of rows
        emulated = [PROCESSORS["one unit low"]] if (lengths, rows) == ("mixed", ROWS[1]) else []
    else:  # `CompiledLoss` is made of functions that are emulated without XLA
        emulated = [] if is_compiled else list(PROCESSORS.values())
    for processor in emulated:
        add(EMULATED, check.error(processor))
    if case in WITH_THE_OLD_LINE and rows == ROWS[1] and not (is_compiled and lengths != "mixed"):
        with old_decision():
            add(OLD_LINE, check.error(PROCESSORS["one unit low"]))
    add(BFLOAT16, GradientCheck(case, rows, lengths, "bfloat16", seed).error())
    return found


def table_of(errors: Sequence[Error]) -> tuple[list[str], list[list[str]]]:
    """Return header and rows: each case's largest error by kind of vectors.

    Also the number of rows of float32's largest error.
    """
    columns = (NATIVE, EMULATED, BFLOAT16, OLD_LINE)
    rows = []
    for case, lengths in dict.fromkeys((error.case, error.lengths) for error in errors):
        own = [error for error in errors if (error.case, error.lengths) == (case, lengths)]
        worst = max((error for error in own if error.column == NATIVE), key=lambda error: error.value)
        largest = [largest_error(own, column) for column in columns]
        rows.append([case, lengths, worst.rows, *("-" if value is None else f"{value:.1e}" for value in largest)])
    return ["gradient of", "vectors", "worst at", *columns], rows


def largest_error(errors: Sequence[Error], column: str) -> float | None:
    """Return the largest error of a column; None if it is empty."""
    return max((error.value for error in errors if error.column == column), default=None)


def figures_of(errors: Sequence[Error]) -> dict:
    """Return the last line of the command."""
    native, emulated, half, old = (largest_error(errors, name) for name in (NATIVE, EMULATED, BFLOAT16, OLD_LINE))
    return {
        "largest_relative_error": native,
        "largest_relative_error_emulated": emulated,
        "largest_relative_error_bfloat16": half,
        "bound_bfloat16": BOUND_BFLOAT16,
        "old_line_relative_error": old,
        "within_bounds": native <= BOUND and (emulated or 0.0) <= BOUND and half <= BOUND_BFLOAT16,
        "gradients": sum(error.column != OLD_LINE for error in errors),
    }


def make_parser() -> argparse.ArgumentParser:
    """Build the command line's parser."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=_numbers, default=ROWS, help="how many feature vectors, a list")
    parser.add_argument("--cases", default="", help="some of the functions, a list of beginnings; empty: all")
    parser.add_argument("--seed", type=int, default=0, help="of inputs and directions")
    return parser


def _numbers(text: str) -> list[int]:
    return [int(part) for part in text.split(",")]


def main() -> None:
    """Run the benchmark from the command line."""
    parser = make_parser()
    arguments = parser.parse_args()
    cases = [name for name in CASES if name.startswith(tuple(arguments.cases.split(",")))]
    if not cases:
        parser.error(f"argument --cases: received {arguments.cases!r}, expected beginnings of {', '.join(CASES)}")
    errors = [
        error
        for name in cases
        for lengths in CASES[name].lengths
        for num in arguments.rows
        for error in errors_of(name, lengths, num, arguments.seed)
    ]
    print_table(*table_of(errors))
    print_figures(figures_of(errors))


if __name__ == "__main__":
    main()
