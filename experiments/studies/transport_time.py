"""Cost of iterations: time of the transport alone, forward and backward.

Regenerates: thesis figure 5.9 (computation time by the number of iterations; gradient in closed form and by autodiff).
Expected: autodiff through the iterations takes longer than the closed form, the more so the more iterations there are;
    the exact solver, which is ours, has no iterations. The thesis prints no number.
"""

from __future__ import annotations

import contextlib
import gc
import pathlib
import statistics
import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import TypeVar

import gsp_dml
from experiments.plans.study import FinishedCells, Study, StudyOptions
from experiments.reports import Table
from experiments.reports.plots import picture

RATIO, SMOOTHING = 0.3, 5.0
ITERATIONS = (1, 5, 10, 25, 50, 100, 150, 200)
_ROUNDS = {"full": 30, "demo": 10, "smoke": 2}  # in each of which every variant has its turn


class TransportTime(Study):
    """Times of the transport, measured when it is drawn; the budget sets the number of rounds."""

    needs_data = False
    notes = ()

    def __init__(self, options: StudyOptions):
        self.groups = {}
        self.title = "Time of the transport over the number of iterations (thesis figure 5.9)"
        self._rounds = _ROUNDS[options.budget]

    def render(self, finished: FinishedCells, folder: pathlib.Path, name: str) -> str:
        """Measure; write the table and the picture."""
        milliseconds = curve(ITERATIONS, self._rounds)
        draw(folder / f"{name}.png", ITERATIONS, milliseconds, self._rounds)
        return curve_table(ITERATIONS, milliseconds, self.title).write(folder, name)


def curve(iterations, repeats) -> dict[str, list[list[float]]]:
    """Return forward + backward milliseconds of the transport: lower quartile, median, upper quartile.

    Returns:
        By kind of gradient, `[number of iterations, quartile]`; `exact` is the exact solver, with one entry.
    """
    import tensorflow as tf

    costs = tf.random.Generator.from_seed(0).uniform([32, 49, 64], 0.5, 1.5)
    steps = {(kind, count): transport_step(kind, count) for kind in ("closed_form", "unrolled") for count in iterations}
    steps["exact", 0] = transport_step("closed_form", None)
    calls = {name: (lambda step=step: step(costs).numpy()) for name, step in steps.items()}
    for call in calls.values():
        call()
    quartiles: dict[str, list[list[float]]] = {}
    for (kind, _), seconds in paired_seconds(calls, repeats).items():
        quartiles.setdefault(kind, []).append([1e3 * value for value in statistics.quantiles(seconds)])
    return quartiles


def transport_step(gradient: str, num_iterations: int | None):
    """Return a gradient function of costs, by fixed point or (None) exact solver."""
    import tensorflow as tf

    solver = (
        {"solver": "exact"} if num_iterations is None else {"solver": "fixed_point", "num_iterations": num_iterations}
    )

    @tf.function(input_signature=[tf.TensorSpec([None, None, None])])
    def step(costs):
        with tf.GradientTape() as tape:
            tape.watch(costs)
            weights = gsp_dml.partial_transport(costs, RATIO, SMOOTHING, gradient=gradient, **solver).weights
            value = tf.reduce_sum(weights * weights)
        return tape.gradient(value, costs)

    return step


def curve_table(iterations: Sequence[int], milliseconds: dict[str, list[list[float]]], title: str = "") -> Table:
    """Tabulate the medians of `curve` by iterations, and of the exact solver."""
    medians = {kind: [quartiles[1] for quartiles in of_kind] for kind, of_kind in milliseconds.items()}
    rows = [
        [str(count), f"{closed_form:.2f}", f"{unrolled:.2f}"]
        for count, closed_form, unrolled in zip(iterations, medians["closed_form"], medians["unrolled"])
    ]
    rows.append(["exact", f"{medians['exact'][0]:.2f}", "-"])
    return Table(title, ["iterations", "closed form ms", "autodiff ms"], rows)


def draw(path: pathlib.Path, iterations, milliseconds: dict[str, list[list[float]]], repeats: int) -> None:
    """Draw figure 5.9: time by iterations, autodiff, closed form and exact."""
    labels = {
        "unrolled": "k iterations, gradient through each",
        "closed_form": "k iterations, closed-form gradient",
        "exact": "exact solver, closed-form gradient",
    }
    with picture(path, 5.6, 3.6, is_framed=True) as (_, (axes,)):
        for kind, label in labels.items():
            places = list(iterations) if len(milliseconds[kind]) > 1 else [min(iterations), max(iterations)]
            low, median, high = zip(*(milliseconds[kind] * (len(places) // len(milliseconds[kind]))))
            (line,) = axes.plot(places, median, marker="o" if kind != "exact" else "", label=label)
            axes.fill_between(places, low, high, color=line.get_color(), alpha=0.25, linewidth=0)
        axes.set(
            xlabel="fixed-point iterations k",
            ylabel="both passes of the transport alone [ms]",
            ylim=(0, None),
            title=f"32 x 49 positions, 64 prototypes; median and quartiles of {repeats} rounds",
        )
        axes.title.set_fontsize(9)
        axes.legend(fontsize=8)


Name = TypeVar("Name", bound=Hashable)


def paired_seconds(functions: Mapping[Name, Callable], repeats: int) -> dict[Name, list[float]]:
    """Return wall-clock seconds of each function in the order A B A B ..."""
    return paired_clocks(functions, repeats)[0]


def paired_clocks(
    functions: Mapping[Name, Callable], repeats: int
) -> tuple[dict[Name, list[float]], dict[Name, list[float]]]:
    """Extend `paired_seconds` by all threads' processor seconds, steadier on busy machines.

    Garbage is collected only between the rounds: a collection before every call would empty the caches of the short
    ones. Each round begins with another function, since the first one finds the caches emptied.
    """
    clocks = (time.perf_counter, time.process_time)
    wall: dict[Name, list[float]] = {name: [] for name in functions}
    processor: dict[Name, list[float]] = {name: [] for name in functions}
    with _no_garbage_collection():
        for turn in range(repeats):
            gc.collect()
            begin = turn % len(functions)
            for name, function in [*functions.items()][begin:] + [*functions.items()][:begin]:
                start = [clock() for clock in clocks]
                function()
                for clock, begun, found in zip(clocks, start, (wall, processor)):
                    found[name].append(clock() - begun)
    return wall, processor


@contextlib.contextmanager
def _no_garbage_collection():
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def paired_ratio(numerator: Sequence[float], denominator: Sequence[float]) -> float:
    """Return the median over the rounds of numerator / denominator."""
    return statistics.median(above / below for above, below in zip(numerator, denominator))
