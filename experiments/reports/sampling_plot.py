"""Pictures of a sampling distribution of negatives' distances during training."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from common.files import write_atomically


class SamplingHistory(NamedTuple):
    """A distribution over training.

    Attributes:
        label: of the panel.
        steps: of the decisions, increasing `[decisions]`.
        edges: of the bins of distances `[bins + 1]`.
        probabilities: rows add up to one `[decisions, bins]`.
    """

    label: str
    steps: np.ndarray
    edges: np.ndarray
    probabilities: np.ndarray


def mean_history(label: str, histories: Sequence[SamplingHistory]) -> SamplingHistory:
    """Average distributions over runs; stopped runs keep their last one.

    Args:
        label: of the panel.
        histories: with the same bins and the same steps between decisions, at least one.
    """
    longest = max(histories, key=lambda each: len(each.steps))
    count = len(longest.steps)
    filled = [np.pad(each.probabilities, ((0, count - len(each.steps)), (0, 0)), "edge") for each in histories]
    return longest._replace(label=label, probabilities=np.mean(filled, axis=0))


def sampling_over_steps(histories: Sequence[SamplingHistory], path: str | os.PathLike, *, title: str = "") -> None:
    """Draw a panel per history (steps, distances, probability) as a PNG, atomically.

    Args:
        histories: at least one, each with a decision.
        path: where the PNG goes.
        title: above the panels.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 0.8 + 2.9 * len(histories)), dpi=150, layout="constrained")
    panels = FigureCanvasAgg(figure).figure.subplots(len(histories), 1, squeeze=False)[:, 0]
    for axes, history in zip(panels, histories):
        gap = history.steps[0]  # a distribution is drawn from until the step of its decision
        ends = np.concatenate([[history.steps[0] - gap], history.steps])
        drawn = axes.pcolormesh(ends, history.edges, history.probabilities.T, cmap="viridis", vmin=0)
        figure.colorbar(drawn, ax=axes, label="probability of the bin")
        axes.set_xlabel("training step")
        axes.set_ylabel("distance of the negative")
        axes.set_title(history.label, fontsize="medium")
    figure.suptitle(title, fontsize="medium")
    write_atomically(path, lambda file: figure.savefig(file, format="png"))
