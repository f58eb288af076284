"""Inline SVG charts that follow the page's colours: training curves and maps of embeddings."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.ticker import MaxNLocator

from experiments.reports import Curve, mean_curve
from experiments.site.markup import Markup, joined, tag

NUM_COLORS = 8  # as many as style.css has
_WIDTH, _HEIGHT, _LEFT, _RIGHT, _TOP, _BOTTOM = 640, 372, 62, 18, 20, 52
_DASHES = (None, "9 5", "3 4", "12 4 3 4")
_MAP_HEIGHT, _MAP_MARGIN, _RADIUS = 480, 14, 6
_SHAPES = ("circle", "square", "triangle", "diamond", "inverted triangle")


def curve_chart(curves: Sequence[Curve], metric: str) -> Markup:
    """Chart a thin line per run and a thick mean per method.

    Args:
        curves: the runs, each with one or more evaluations.
        metric: its name.
    """
    if not curves:
        return Markup()
    methods = list(dict.fromkeys(curve.method for curve in curves))
    values = 100 * np.concatenate([np.asarray(curve.values) for curve in curves])
    steps = np.concatenate([np.asarray(curve.steps) for curve in curves])
    x_ticks, y_ticks = _ticks(steps.min(), steps.max(), 5), _ticks(values.min(), values.max(), 5)
    parts = [_grid(x_ticks, y_ticks)]
    for index, method in enumerate(methods):
        runs = [curve for curve in curves if curve.method == method]
        if len(runs) > 1:
            parts += [_line(run.steps, run.values, x_ticks, y_ticks, index, "run") for run in runs]
        parts.append(_line(*mean_curve(runs), x_ticks, y_ticks, index, "mean"))
    ends = [f"{method} ends at {100 * mean_curve(_of(curves, method))[1][-1]:.1f} %" for method in methods]
    description = f"Validation {metric} over training steps: {'; '.join(ends)}."
    legend = [
        tag("li", _swatch(index), f"{method} ({len(_of(curves, method))} run{'s' * (len(_of(curves, method)) > 1)})")
        for index, method in enumerate(methods)
    ]
    drawing = _drawing(description, _HEIGHT, parts)
    caption = f"Validation {metric} in percent over training steps. Thin: runs; thick: their mean."
    return tag("figure", tag("figcaption", caption), drawing, tag("ul", *legend, class_="legend"), class_="chart")


def map_chart(record: dict) -> Markup:
    """Chart test embeddings, with a colour and shape per class.

    Args:
        record: from `embedding_map.map_record`.
    """
    classes = record["classes"]
    parts, legend = [], []
    for index, drawn in enumerate(classes):
        shape = _SHAPES[index % len(_SHAPES)]
        outline = "".join(_mark(shape, *_on_map(place)) for place in drawn["points"])
        parts.append(tag("path", tag("title", drawn["name"]), class_=f"mark color-{index % NUM_COLORS}", d=outline))
        legend.append(tag("li", _legend_mark(shape, index), drawn["name"]))
    caption = (
        f"Test embeddings of {len(classes)} of {record['num_classes']} test classes, by t-SNE (perplexity "
        f"{record['perplexity']:.0f}): near points are near in the embedding, far distances mean little."
    )
    names = ", ".join(drawn["name"] for drawn in classes)
    drawing = _drawing(f"Map of test embeddings of the classes {names}.", _MAP_HEIGHT, parts)
    return tag("figure", tag("figcaption", caption), drawing, tag("ul", *legend, class_="legend"), class_="chart")


def _drawing(description: str, height: int, parts: Sequence[Markup]) -> Markup:
    frame = {"role": "img", "aria_label": description}
    return tag("svg", tag("title", description), *parts, viewBox=f"0 0 {_WIDTH} {height}", **frame)


def _of(curves: Sequence[Curve], method: str) -> list[Curve]:
    return [curve for curve in curves if curve.method == method]


def _ticks(low: float, high: float, count: int) -> np.ndarray:
    """Return round numbers from below `low` to above `high`."""
    if high - low < 1e-9:
        low, high = low - 0.5, high + 0.5
    return np.asarray(MaxNLocator(count, steps=[1, 2, 2.5, 5, 10]).tick_values(low, high))


def _across(steps, ticks: np.ndarray) -> np.ndarray:
    share = (np.asarray(steps, float) - ticks[0]) / (ticks[-1] - ticks[0])
    return _LEFT + share * (_WIDTH - _LEFT - _RIGHT)


def _up(values, ticks: np.ndarray) -> np.ndarray:
    share = (np.asarray(values, float) - ticks[0]) / (ticks[-1] - ticks[0])
    return _HEIGHT - _BOTTOM - share * (_HEIGHT - _TOP - _BOTTOM)


def _grid(x_ticks: np.ndarray, y_ticks: np.ndarray) -> Markup:
    floor, parts = _HEIGHT - _BOTTOM, []
    for value, y in zip(y_ticks, _up(y_ticks, y_ticks)):
        parts.append(tag("line", class_="grid", x1=_LEFT, x2=_WIDTH - _RIGHT, y1=f"{y:.1f}", y2=f"{y:.1f}"))
        parts.append(
            tag("text", f"{value:g}", x=_LEFT - 8, y=f"{y:.1f}", text_anchor="end", dominant_baseline="middle")
        )
    for position, (value, x) in enumerate(zip(x_ticks, _across(x_ticks, x_ticks))):
        anchor = "end" if position == len(x_ticks) - 1 else "middle"
        parts.append(tag("line", class_="grid", x1=f"{x:.1f}", x2=f"{x:.1f}", y1=floor, y2=floor + 6))
        if value >= 0:
            parts.append(
                tag(
                    "text",
                    f"{value:,g}" if value < 1e6 else f"{value:g}",
                    x=f"{x:.1f}",
                    y=floor + 38,
                    text_anchor=anchor,
                )
            )
    return joined(parts)


def _line(steps, values, x_ticks, y_ticks, index: int, kind: str) -> Markup:
    points = list(zip(_across(steps, x_ticks), _up(100 * np.asarray(values), y_ticks)))
    classes = f"line {kind} color-{index % NUM_COLORS}"
    if len(points) == 1:
        return tag(
            "circle", class_=f"mark color-{index % NUM_COLORS}", cx=f"{points[0][0]:.1f}", cy=f"{points[0][1]:.1f}", r=5
        )
    text = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return tag("polyline", class_=classes, points=text, stroke_dasharray=_dash(index))


def _dash(index: int) -> str | None:
    return _DASHES[index % len(_DASHES)]


def _swatch(index: int) -> Markup:
    line = tag(
        "line", class_=f"line mean color-{index % NUM_COLORS}", x1=0, x2=34, y1=7, y2=7, stroke_dasharray=_dash(index)
    )
    return tag("svg", line, class_="swatch", viewBox="0 0 34 14", aria_hidden="true")


def _legend_mark(shape: str, index: int) -> Markup:
    path = tag("path", class_=f"mark color-{index % NUM_COLORS}", d=_mark(shape, 8, 8))
    return tag("svg", path, class_="swatch point", viewBox="0 0 16 16", aria_hidden="true")


def _on_map(place: Sequence[float]) -> tuple[float, float]:
    width, height = _WIDTH - 2 * _MAP_MARGIN, _MAP_HEIGHT - 2 * _MAP_MARGIN
    return _MAP_MARGIN + place[0] * width, _MAP_MARGIN + (1 - place[1]) * height


def _mark(shape: str, x: float, y: float) -> str:
    """Return the outline of a mark around a point."""
    r, s = _RADIUS, 0.85 * _RADIUS
    if shape == "circle":
        return f"M{x - s:.1f} {y:.1f}a{s} {s} 0 1 0 {2 * s} 0a{s} {s} 0 1 0 {-2 * s} 0z"
    corners: dict[str, list[tuple[float, float]]] = {
        "square": [(-s, -s), (2 * s, 0), (0, 2 * s), (-2 * s, 0)],
        "triangle": [(0, -r), (r, 2 * s), (-2 * r, 0)],
        "diamond": [(0, -r), (r, r), (-r, r), (-r, -r)],
        "inverted triangle": [(0, r), (r, -2 * s), (-2 * r, 0)],
    }
    (dx, dy), *others = corners[shape]
    return f"M{x + dx:.1f} {y + dy:.1f}" + "".join(f"l{a:.1f} {b:.1f}" for a, b in others) + "z"
