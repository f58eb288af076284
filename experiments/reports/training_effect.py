"""Training compared with no training: one rule for reports, pages and model cards."""

from __future__ import annotations


def training_did_not_help(trained: float, untrained: float | None) -> str | None:
    """Return a clause if training did not raise the score, else None.

    Args:
        trained: MAP@R on the test classes, in [0, 1].
        untrained: the same of the backbone's average features before training; None where it was not measured.
    """
    if untrained is None or trained > untrained:
        return None
    return (
        f"training did not beat the untrained backbone's average features (MAP@R {100 * trained:.2f}, "
        f"{100 * untrained:.2f} before)"
    )
