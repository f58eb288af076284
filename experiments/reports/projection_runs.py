"""CCP compared with the loss alone: one rule for reports, pages and documents on runs that never left it."""

from __future__ import annotations

from collections.abc import Sequence


def runs_without_problem(problems: Sequence[Sequence[object] | None]) -> str | None:
    """A clause where runs of CCP have no projection problem, and so trained with the loss alone; else None.

    Args:
        problems: for each run its projection problems in order; None for a run of another method.
    """
    of_ccp = [found for found in problems if found is not None]
    without = sum(not found for found in of_ccp)
    if not without:
        return None
    return f"no projection problem began in {without} of {len(of_ccp)} runs, which trained with the loss alone"
