"""Values of `chart.html`: training curves and maps of embeddings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.ticker import MaxNLocator

from common.pages.markup import plural
from experiments.reports import Curve, mean_curve

NUM_COLORS = 8  # as many as style.css has
_WIDTH, _HEIGHT, _LEFT, _RIGHT, _TOP, _BOTTOM = 640, 372, 62, 18, 20, 52
_DASHES = (None, "9 5", "3 4", "12 4 3 4")
_MAP_HEIGHT, _MAP_MARGIN, _RADIUS = 480, 14, 6
_SHAPES = ("circle", "square", "triangle", "diamond", "inverted triangle")


def curve_chart(curves: Sequence[Curve], metric: str) -> dict[str, Any] | None:
    """Chart a thin line per run and a thick mean per method."""
    if not curves:
        return None
    values = 100 * np.concatenate([np.asarray(curve.values) for curve in curves])
    steps = np.concatenate([np.asarray(curve.steps) for curve in curves])
    x_ticks, y_ticks = _ticks(steps.min(), steps.max(), 5), _ticks(values.min(), values.max(), 5)
    lines, marks, ends, legend = [], [], [], []
    for index, method in enumerate(dict.fromkeys(curve.method for curve in curves)):
        runs = [curve for curve in curves if curve.method == method]
        mean = mean_curve(runs)
        style = {"color": index % NUM_COLORS, "dash": _DASHES[index % len(_DASHES)]}
        drawn = [(run.steps, run.values, "run") for run in runs] if len(runs) > 1 else []
        for of_steps, of_values, kind in [*drawn, (*mean, "mean")]:
            points = list(zip(_across(of_steps, x_ticks), _up(100 * np.asarray(of_values), y_ticks)))
            if len(points) == 1:
                marks.append({**style, "outline": _mark("circle", *points[0]), "name": ""})
            else:
                lines.append({**style, "kind": kind, "points": " ".join(f"{x:.1f},{y:.1f}" for x, y in points)})
        ends.append(f"{method} ends at {100 * mean[1][-1]:.1f} %")
        legend.append({**style, "outline": None, "text": f"{method} ({plural(len(runs), 'run')})"})
    return {
        "caption": f"Validation {metric} in percent over training steps. Thin: runs; thick: their mean.",
        "description": f"Validation {metric} over training steps: {'; '.join(ends)}.",
        "size": (_WIDTH, _HEIGHT),
        "grid": _grid(x_ticks, y_ticks),
        "lines": lines,
        "marks": marks,
        "legend": legend,
    }


def map_chart(record: dict) -> dict[str, Any] | None:
    """Chart `DrawnRun.map`, a colour and shape per class; None without classes."""
    classes = record.get("classes")
    if not classes:
        return None
    marks, legend = [], []
    for index, drawn in enumerate(classes):
        shape, color = _SHAPES[index % len(_SHAPES)], index % NUM_COLORS
        outline = "".join(_mark(shape, *_on_map(place)) for place in drawn["points"])
        marks.append({"color": color, "outline": outline, "name": drawn["name"]})
        legend.append({"color": color, "outline": _mark(shape, 8, 8), "text": drawn["name"]})
    return {
        "caption": f"Test embeddings of {len(classes)} of {record['num_classes']} test classes, by t-SNE (perplexity "
        f"{record['perplexity']:.0f}): near points are near in the embedding, far distances mean little.",
        "description": f"Map of test embeddings of the classes {', '.join(drawn['name'] for drawn in classes)}.",
        "size": (_WIDTH, _MAP_HEIGHT),
        "grid": [],
        "lines": [],
        "marks": marks,
        "legend": legend,
    }


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


def _grid(x_ticks: np.ndarray, y_ticks: np.ndarray) -> list[dict[str, Any]]:
    """Return lines with their figures: levels over the whole width, and short ticks below."""
    floor, lines = _HEIGHT - _BOTTOM, []
    for value, y in zip(y_ticks, np.char.mod("%.1f", _up(y_ticks, y_ticks))):
        line = {"x": (_LEFT, _WIDTH - _RIGHT), "y": (y, y), "at": (_LEFT - 8, y), "anchor": "end"}
        lines.append({**line, "text": f"{value:g}", "is_level": True})
    for value, x in zip(x_ticks, np.char.mod("%.1f", _across(x_ticks, x_ticks))):
        text = "" if value < 0 else f"{value:,g}" if value < 1e6 else f"{value:g}"
        anchor = "end" if value == x_ticks[-1] else "middle"
        line = {"x": (x, x), "y": (floor, floor + 6), "at": (x, floor + 38), "anchor": anchor}
        lines.append({**line, "text": text, "is_level": False})
    return lines


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
