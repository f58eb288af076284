"""Image beside maps of its positions' weights in pooling."""

from __future__ import annotations

import os
from collections.abc import Mapping

import numpy as np

from common.errors import InvalidInput
from common.files import write_atomically


def weight_maps(image: np.ndarray, maps: Mapping[str, np.ndarray], path: str | os.PathLike, *, title: str = "") -> None:
    """Draw the image and its maps in a row, to one scale (atomic PNG).

    Args:
        image: `[height, width, colors]` in [0, 1].
        maps: weights `[height, width]` by their name; they sum to one.
        path: of the PNG.
        title: above the row.

    Raises:
        InvalidInput: there is no map.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    if not maps:
        raise InvalidInput("There is nothing to draw: received no map of weights.")
    largest = max(float(weights.max()) for weights in maps.values())
    figure = Figure(figsize=(2.4 * (1 + len(maps)) + 0.8, 3.0), dpi=150, layout="constrained")
    panels = FigureCanvasAgg(figure).figure.subplots(1, 1 + len(maps))
    panels[0].imshow(image)
    panels[0].set_title("image", fontsize="small")
    for panel, (name, weights) in zip(panels[1:], maps.items()):
        drawn = panel.imshow(100 * weights, cmap="magma", vmin=0, vmax=100 * largest)
        panel.set_title(name, fontsize="small")
    for panel in panels:
        panel.set(xticks=(), yticks=())
    figure.colorbar(drawn, ax=list(panels), label="weight (%)", shrink=0.8)
    figure.suptitle(title, fontsize="medium")
    write_atomically(path, lambda file: figure.savefig(file, format="png"))
