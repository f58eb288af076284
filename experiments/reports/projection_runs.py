"""CCP without projection problems: one rule for reports, pages and documents."""

from __future__ import annotations

from collections.abc import Sequence


def runs_without_problem(problems: Sequence[Sequence[object] | None]) -> str | None:
    """Return a clause on CCP runs without projection problems, or None.

    Args:
        problems: for each run its projection problems in order; None for a run of another method.
    """
    of_ccp = [found for found in problems if found is not None]
    without = sum(not found for found in of_ccp)
    if not without:
        return None
    return f"no projection problem began in {without} of {len(of_ccp)} runs, which trained with the loss alone"
