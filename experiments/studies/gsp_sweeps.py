"""Sweeps over GSP's hyper-parameters: the transport ratio, prototypes and smoothing, and prototypes alone.

Regenerates: thesis figures 5.8 (MAP@R over mu; CUB, C2), 5.10 (over the number of prototypes m and the smoothing;
    CUB, C2 and PNCA) and 5.11 (over m; SOP and In-shop, C2 with smoothing 5, PNCA with 0.5).
Command: python -m experiments.figure --id=5.8 --dataset=glyphs --budget=demo --run; likewise --id=5.10 and --id=5.11
Expected: thesis sections 5.3.4.3 and 5.3.4.5: mu = 0.3 is chosen; m = 64 with smoothing 5 (C2) or 0.5 (PNCA)
    is best on CUB; every m >= 64 does on SOP and In-shop, 128 is chosen. No value of a figure and no grid is printed,
    the grids are ours.
Cost: `--budget=demo` on glyphs 5, 9 and 6 runs, about a minute each on 2 CPU cores; `--budget=full`, one split and
    three repeats, on CUB 30 and 54 runs of 19 minutes, on SOP 30 of 2.8 hours, on an RTX 2080 Ti (estimated);
    `--budget=smoke` half a minute.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from experiments.parts.datasets import traits_of
from experiments.plans.study import StudyOptions
from experiments.plans.sweep import Sweep, SweepAxes, SweepPoint
from experiments.settings.config import ExperimentConfig

_RATIOS = {
    "full": (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0),
    "demo": (0.1, 0.3, 0.5, 0.7, 1.0),
    "smoke": (0.3, 1.0),
}
_Grid = tuple[Sequence[str], Sequence[int], Sequence[float | None]]
# By figure and budget: losses, numbers of prototypes, smoothings (None: that of the loss).
_GRIDS: Mapping[str, Mapping[str, _Grid]] = {
    "5.10": {
        "full": (("c2", "pnca"), (16, 64, 128), (0.5, 5.0, 20.0)),
        "demo": (("c2",), (16, 64, 128), (0.5, 5.0, 20.0)),
        "smoke": (("c2",), (16, 64), (5.0,)),
    },
    "5.11": {
        "full": (("c2", "pnca"), (16, 32, 64, 128, 256), (None,)),
        "demo": (("c2", "pnca"), (16, 64, 128), (None,)),
        "smoke": (("c2",), (16, 64), (None,)),
    },
}


def transport_ratio(options: StudyOptions) -> Sweep:
    """Return the study of figure 5.8."""
    points = [
        SweepPoint(f"{loss}+gsp", ratio, tuning_configuration(options, loss, transport_ratio=ratio))
        for loss in options.losses or ("c2",)
        for ratio in _RATIOS[options.budget]
    ]
    notes = ("A transport ratio of 1 is average pooling with the zero-shot prediction loss.", *tuning_notes(options))
    title = f"Transport ratio of GSP on {options.dataset} (thesis figure 5.8)"
    axes = SweepAxes("transport ratio mu", "validation")
    return Sweep(title, points, options, axes, notes, tuning_protocol(options))


def prototypes(figure: str, options: StudyOptions) -> Sweep:
    """Return the study of figure 5.10 (with smoothings) or 5.11 (without)."""
    losses, counts, smoothings = _GRIDS[figure][options.budget]
    points = []
    for loss, smoothing, count in itertools.product(options.losses or losses, smoothings, counts):
        series = f"{loss}+gsp" if smoothing is None else f"{loss}+gsp, smoothing {smoothing:g}"
        varied: dict[str, Any] = {} if smoothing is None else {"smoothing": smoothing}
        config = tuning_configuration(options, loss, num_prototypes=count, **varied)
        points.append(SweepPoint(series, count, config))
    what = "Prototypes and smoothing" if figure == "5.10" else "Prototypes"
    title = f"{what} of GSP on {options.dataset} (thesis figure {figure})"
    axes = SweepAxes("prototypes m", "validation", logarithmic=True)
    return Sweep(title, points, options, axes, tuning_notes(options), tuning_protocol(options))


NUM_BLOCKS, THESIS_REPEATS = 5, 3


def tuning_configuration(options: StudyOptions, loss: str, pooling: str = "gsp", **varied) -> ExperimentConfig:
    """Return a configuration on the tuning split.

    Reference: thesis section 5.3.4.1: five blocks of the training classes; a single model trains on four and validates
    on one. The average of three repeats is reported; patience is 10 (CUB, Cars) or 7 (SOP, In-shop).
    """
    settings = {"chapter": 5, "num_folds": NUM_BLOCKS}
    if options.budget == "full" and traits_of(options.dataset).photographs:
        settings["patience"] = 7 if traits_of(options.dataset).large else 10
    return options.with_pooling(pooling).configuration(loss, settings=settings, **varied)


def tuning_protocol(options: StudyOptions) -> str:
    """Describe the runs of each configuration."""
    return options.one_split_protocol(NUM_BLOCKS, THESIS_REPEATS, "5.3.4.1")


def tuning_notes(options: StudyOptions) -> tuple[str, ...]:
    """Describe the figures and the reductions of a small budget."""
    note = "Figures are the best validation on the held-out fifth of the training classes, not on the test set."
    return note, *options.budget_notes("short runs, a coarse grid")
