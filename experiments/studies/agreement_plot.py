"""Rank correlations of benchmarks with printed tables, each beside its ceiling."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from common.errors import InvalidInput
from common.files import write_atomically
from experiments.studies.rank_agreement import SHARE_OF_CEILING, STAND_IN, RankAgreement

if TYPE_CHECKING:
    from matplotlib.artist import Artist

_COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7")  # Okabe and Ito, "Color universal design", 2008
_CEILING = "0.85"


class RankedLine(NamedTuple):
    """Line of the picture.

    Attributes:
        study: the benchmark; gives the colour.
        name: of the printed data set.
        agreement: of the two.
    """

    study: str
    name: str
    agreement: RankAgreement


def agreement_plot(lines: Sequence[RankedLine], path: str | os.PathLike, *, title: str = "") -> None:
    """Draw Spearman's coefficient and interval over the ceiling's range (atomic PNG).

    Filled dots are stand-ins by the rule of `rank_agreement`; the dotted tick is the threshold of their interval.

    Args:
        lines: from top to bottom.
        path: of the PNG.
        title: above the axes.

    Raises:
        InvalidInput: there is no line.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    if not lines:
        raise InvalidInput("There is nothing to draw: received no agreement, expected at least one.")
    figure = Figure(figsize=(7.5, 1.9 + 0.3 * len(lines)), dpi=150, layout="constrained")
    axes = FigureCanvasAgg(figure).figure.subplots()
    studies = list(dict.fromkeys(line.study for line in lines))
    for place, line in enumerate(lines):
        _draw_line(axes, place, line.agreement, _COLORS[studies.index(line.study) % len(_COLORS)])
    axes.axvline(0, color="0.5", linewidth=0.8)
    axes.set_yticks(range(len(lines)), [f"{line.name} ({line.agreement.num_methods})" for line in lines])
    axes.set(xlim=(-1.03, 1.03), ylim=(len(lines) - 0.4, -0.6), xlabel="Spearman's coefficient, 95 % interval")
    axes.set_ylabel("printed figures (methods)")
    axes.set_title(title, fontsize="medium")
    axes.grid(axis="x", alpha=0.3)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    marks: list[Artist] = [
        Line2D([], [], color=_COLORS[index % len(_COLORS)], marker="o", markerfacecolor="white", label=study)
        for index, study in enumerate(studies)
    ]
    marks += [
        Line2D([], [], color="black", marker="o", linestyle="", label="filled: stand-in"),
        Patch(color=_CEILING, label="ceiling, published against published: range and mean"),
        Line2D([], [], color="black", linestyle=":", label="half of the mean ceiling"),
    ]
    figure.legend(handles=marks, loc="outside lower center", frameon=False, fontsize="small", ncols=2)
    write_atomically(path, lambda file: figure.savefig(file, format="png"))


def _draw_line(axes, place: int, agreement: RankAgreement, color: str) -> None:
    ceiling, found = agreement.spearman_ceiling, agreement.spearman
    if ceiling is not None:
        half = SHARE_OF_CEILING * ceiling.value
        axes.barh(place, ceiling.high - ceiling.low, left=ceiling.low, height=0.72, color=_CEILING)
        axes.plot([ceiling.value] * 2, [place - 0.36, place + 0.36], color="0.45", linewidth=1.5)
        axes.plot([half] * 2, [place - 0.36, place + 0.36], color="black", linewidth=1.2, linestyle=":")
    axes.plot([found.low, found.high], [place] * 2, color=color, linewidth=1.6)
    inside = color if agreement.verdict == STAND_IN else "white"
    axes.plot(found.value, place, "o", color=color, markerfacecolor=inside, markersize=6)
