"""Effects of the memory, CCP and GSP against conditions.

The regime is that of the planned comparisons.

Regenerates: nothing printed: test MAP@R of each method and its paired difference from its baseline, against batch size
    (thesis figure 3.8), use of the memory, steps, start of the first problem, number and choice of proxies (figure
    3.6), patience of alternation beside fixed proxies (figure 3.7), and clutter. Exploratory: docs/results/plan.md
    fixes it.
Command: python -m experiments.figure --id=conditions_batch --dataset=emoji --run; likewise --id=conditions_memory,
    --id=conditions_steps, --id=conditions_start, --id=conditions_proxies, --id=conditions_patience; and
    --id=conditions_clutter on emoji and emoji_clutter_64, 48 and 32, recorded in one study
Expected: thesis section 6.2: alternating is more than 10 points above fixed proxies on SOP and In-shop (figure 3.7). No
    effect on emoji is printed.
Cost: on 2 CPU cores, where a run of 600 steps takes 75 s (three times as long on slower ones): batch 48 runs, 6.7
    hours; memory 40 runs, .9; steps 36 runs, 1.2; start 20, .4; proxies 32, .7; patience 16, 1.1; clutter 64, 1.8.
    `--budget=smoke` minutes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, cast

from common.errors import invalid
from experiments.parts.library import EMOJI_CLUTTER
from experiments.plans.study import StudyOptions
from experiments.plans.sweep import Sweep, SweepAxes, SweepPoint
from experiments.settings.recipes.small_images import EMOJI
from experiments.studies.planned import CCP, GSP, WIDE, planned_settings

Settings = Mapping[str, Any]
_MEMORY = 1024  # embeddings, at every batch size
_LARGEST_PASS = 128  # images; a larger batch is made of micro batches


class Line(NamedTuple):
    """Method against a condition."""

    method: str  # without its loss, such as "+ccp+gap"
    settings: Callable[[int], Settings] = lambda value: {}  # by the condition's value
    name: str = ""  # distinguishes lines of one method
    is_baseline: bool = False  # subtracted from the other lines
    values: Sequence[int] | None = None  # of the condition, without which the line is horizontal; None: all


class Condition(NamedTuple):
    """A condition and the methods that are compared under it."""

    x_label: str
    values: Sequence[int]
    smoke: Sequence[int]  # its values at the smoke budget
    lines: Sequence[Line]
    settings: Callable[[int], Settings] = lambda value: {}  # of all methods, by the condition's value
    at_length: Settings = {}  # of all methods, except at the smoke budget
    loss: str = "c2"  # if `--loss` names no other


def _batch(size: int) -> Settings:
    micro = {"micro_batch": _LARGEST_PASS} if size > _LARGEST_PASS else {}
    return {"classes_per_batch": size // 4, "samples_per_class": 4, **micro}


def _all_of_a_pool(count: int) -> Settings:
    return {"proxies_per_class": count, "pool_size": count}


_PLAIN, _CCP = Line("+gap", is_baseline=True), Line("+ccp+gap")
_ALONE = Line("+gap", is_baseline=True, values=())
_SIDES = {"emoji": cast(int, EMOJI["image_size"]), **EMOJI_CLUTTER}
_CLUTTER = "conditions_clutter"
CONDITIONS = {
    "conditions_batch": Condition(
        "batch size",
        (8, 32, 128, 512),
        (8, 16),
        (_PLAIN, Line("+xbm+gap", lambda size: {"xbm_batches": _MEMORY // size}), _CCP),
        _batch,
    ),
    "conditions_memory": Condition(
        "memory used from step",
        (50, 150, 300),
        (0, 4),
        (
            _ALONE,
            Line("+xbm+gap", lambda start: {"xbm_start": start}, "sum"),
            Line("+xbm+gap", lambda start: {"xbm_start": start, "xbm_terms": "union"}, "union"),
            Line("+xbm+gap", lambda start: {"xbm_start": start, "xbm_terms": "memory"}, "memory"),
        ),
    ),
    "conditions_steps": Condition(
        "steps", (200, 600, 2000), (8, 16), (_PLAIN, Line("+xbm+gap"), _CCP), lambda steps: {"max_steps": steps}
    ),
    "conditions_start": Condition(
        "first problem at step",
        (0, 100, 200, 400),
        (0, 4),
        (_ALONE, Line("+ccp+gap", lambda start: {"ccp_start": start})),
    ),
    "conditions_proxies": Condition(
        "proxies per class",
        (1, 2, 4, 6),
        (1, 2),
        (
            _ALONE,
            Line("+ccp+gap", lambda count: {"proxies_per_class": count}, "k-center of six"),
            Line("+ccp+gap", _all_of_a_pool, "random", values=(1, 2, 4)),  # six of six are those of the line above
        ),
    ),
    "conditions_patience": Condition(
        "patience (validations)",
        (1, 2, 4),
        (1,),
        (
            Line("+ccp+gap", lambda value: {"ccp_max_problems": 1}, "fixed", True, ()),
            Line("+ccp+gap", lambda patience: {"projection_patience": patience}, "alternating"),
        ),
        at_length={"max_steps": 2000, "steps_per_evaluation": 50},
    ),
    _CLUTTER: Condition(
        "side of the emoji (pixels of 96)",
        (),
        (),
        (
            Line("+gap", lambda side: WIDE, is_baseline=True),
            Line("+gsp", lambda side: GSP),
            Line("+gsp", lambda side: {**GSP, "gsp_memory_size": 6400}, "prototypes from step 200"),
            Line("+gsp", lambda side: {**GSP, "gsp_memory_features": "local_features"}, "prototypes of local features"),
        ),
        loss="ms",
    ),
}


def effect_against(condition: str, options: StudyOptions) -> Sweep:
    """Return the study of one of `CONDITIONS`; clutter needs emoji."""
    chosen, is_smoke = CONDITIONS[condition], options.budget == "smoke"
    loss, settings = options.only_loss(chosen.loss), {**planned_settings(options), **CCP}
    at_length = {} if is_smoke else chosen.at_length
    values = chosen.smoke if is_smoke else chosen.values
    if condition == _CLUTTER:
        if options.dataset not in _SIDES:
            raise invalid("--dataset", received=options.dataset, expected=f"one of {', '.join(_SIDES)} for clutter")
        values = (_SIDES[options.dataset],)
    names = {
        line: f"{loss}{line.method}".removesuffix("+gap") + f", {line.name}" * bool(line.name) for line in chosen.lines
    }
    (baseline,) = (name for line, name in names.items() if line.is_baseline)
    points = []
    for line, name in names.items():
        places: Sequence[int | None] = values
        if line.values is not None:
            places = [value for value in values if value in line.values] or [None]
        for value in places:
            varied = {**chosen.settings(value or 0), **line.settings(value or 0), **at_length}
            config = options.of_method(f"{loss}{line.method}", settings=settings, **varied)
            points.append(SweepPoint(name, value, config, None if line.is_baseline else baseline))
    axes = SweepAxes(chosen.x_label, "test", logarithmic=len(values) > 1 and values[0] > 0)
    notes = (
        "Exploratory. Intervals are single, without a correction for many comparisons. Minus baseline: paired by fold "
        f"and test class, from {baseline}.",
        *options.budget_notes("short runs, one fold"),
    )
    return Sweep(
        f"{chosen.x_label.capitalize()}: effects on {options.dataset}, whole network", points, options, axes, notes
    )
