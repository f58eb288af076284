"""Panels of prototypes: use by class, prediction of unseen classes, places in images."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from common.files import write_atomically
from experiments.reports.attention import ImageAttention

_COLORS = ("#0072B2", "#E69F00")


@dataclass(frozen=True)
class ZeroShotPanel:
    """Way of training.

    Args:
        title: its name.
        histograms: mean attributes of each class, rows with sum one, `[classes, prototypes]`.
        accuracies: by distance, the mean of each run, as fractions.
        images: with the part of every prototype; the same images in each panel.
    """

    title: str
    histograms: np.ndarray
    accuracies: Mapping[str, Sequence[float] | np.ndarray]
    images: Sequence[ImageAttention]


def zero_shot_panels(
    panels: Sequence[ZeroShotPanel],
    path: str | os.PathLike,
    *,
    class_names: Sequence[str],
    chance: float,
    title: str = "",
) -> None:
    """Draw histograms, accuracy bars (dots: runs) and images under dominant prototypes, as PNG.

    Args:
        panels: one or two.
        path: of the PNG.
        class_names: of the histograms' rows.
        chance: accuracy of a guess, as a fraction.
        title: above all.
    """
    from matplotlib import colormaps
    from matplotlib.figure import Figure

    num_images = len(panels[0].images)
    figure = Figure(figsize=(3.3 * (len(panels) + 1), 3.4 + 0.4 + 1.25 * len(panels)), dpi=120, layout="constrained")
    halves = figure.subfigures(2, 1, squeeze=False, height_ratios=(3.4, 0.4 + 1.25 * len(panels)))
    above, below = np.asarray(halves).ravel()
    places = above.subplots(1, len(panels) + 1)
    largest = max(float(panel.histograms.max()) for panel in panels)
    for panel, place in zip(panels, places):
        drawn = place.imshow(100 * panel.histograms, cmap="magma", vmin=0, vmax=100 * largest, aspect="auto")
        place.set_title(f"{panel.title}: share of each prototype (%)", fontsize="small")
        place.set_yticks(range(len(class_names)), class_names, fontsize=6)
        place.xaxis.get_major_locator().set_params(integer=True, nbins=10)
        place.set_xlabel("prototype", fontsize="small")
    above.colorbar(drawn, ax=list(places[: len(panels)]), shrink=0.8)
    _draw_bars(places[-1], panels, chance)
    rows = below.subplots(len(panels), 1 + 2 * num_images, squeeze=False)
    count = panels[0].histograms.shape[1]
    prototype_colors = colormaps["tab10" if count <= 10 else "turbo"]
    for panel, row in zip(panels, rows):
        row[0].text(0.5, 0.5, panel.title, ha="center", va="center", fontsize="small")
        for index, attention in enumerate(panel.images):
            image = np.clip(np.asarray(attention.image, np.float64) / 255, 0, 1)
            row[1 + 2 * index].imshow(image if image.shape[-1] == 3 else image[..., 0], cmap="gray")
            row[1 + 2 * index].set_title(attention.name, fontsize=7)
            row[2 + 2 * index].imshow(dominant_colors(attention, prototype_colors))
        for place in row:
            place.set_axis_off()
    _draw_key(below, prototype_colors, count)
    figure.suptitle(title, fontsize="medium")
    write_atomically(path, lambda file: figure.savefig(file, format="png"))


def _draw_key(figure, colors, count: int) -> None:
    """Draw the key of prototypes' colours, if there are at most ten."""
    from matplotlib.patches import Patch

    if count <= 10:
        key = [Patch(color=colors(number), label=str(number)) for number in range(count)]
        named = {"title": "largest part: prototype", "title_fontsize": "small", "fontsize": "small", "frameon": False}
        figure.legend(handles=key, loc="outside lower center", ncols=count, **named)


def dominant_colors(attention: ImageAttention, colors) -> np.ndarray:
    """Colour each position by its dominant prototype, brighter with more weight.

    Args:
        attention: of an image, with the part of every prototype.
        colors: from a prototype's place in the order of drawing to a colour.

    Returns:
        `[rows, columns, 3]` in [0, 1].
    """
    if not attention.prototypes:
        return np.repeat(attention.total[..., None] / attention.total.max(), 3, axis=-1)
    parts = np.stack(list(attention.prototypes.values()))  # [prototypes, rows, columns]
    numbers = np.array([int(name.split()[-1]) for name in attention.prototypes])
    brightness = attention.total / attention.total.max()
    return colors(numbers[parts.argmax(axis=0)])[..., :3] * brightness[..., None]


def _draw_bars(place, panels: Sequence[ZeroShotPanel], chance: float) -> None:
    distances = list(panels[0].accuracies)
    width = 0.8 / len(panels)
    for index, panel in enumerate(panels):
        places = np.arange(len(distances)) + (index - (len(panels) - 1) / 2) * width
        values = [100 * np.asarray(panel.accuracies[distance]) for distance in distances]
        means = [of_distance.mean() for of_distance in values]
        place.bar(places, means, width=0.92 * width, color=_COLORS[index % 2], label=panel.title)
        for where, of_distance in zip(places, values):
            place.scatter(np.full(len(of_distance), where), of_distance, s=9, color="black", zorder=3)
    place.axhline(100 * chance, color="0.4", linestyle="--", linewidth=1, label="chance")
    place.set_xticks(range(len(distances)), distances)
    place.set_ylabel("unseen classes predicted, MAP@R (%)", fontsize="small")
    place.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=len(panels) + 1, frameon=False, fontsize=6)
    place.spines[["top", "right"]].set_visible(False)
