"""Sweeps of one hyper-parameter: figures 3.6, 3.8, 5.8, 5.10, 5.11, milbich_2.8, and conditions.

Grids are ours: no figure prints its own, or a value. Of chapter 3 the thesis chooses a pool of 12 for 8 proxies, and
random sampling, a pool as large as the number of proxies, still works well (section 3.3.2.3). Of chapter 5 it chooses
mu = .3 and m = 64 with smoothing 5 (C2) or .5 (PNCA) on CUB; every m >= 64 does on SOP and In-shop (5.3.4.3, 5.3.4.5).
Beside figure 3.8, table 3.1 has C2 21.01 and C2+CCP-L 22.67 at a batch of 32 on CUB, 17.22 and 18.52 on Cars.

Conditions are of the regime of the planned comparisons: the effects of the memory, CCP and GSP on whole networks,
paired with a baseline, against batch size, use of the memory, steps, start of the first problem, proxies, patience, and
clutter (on emoji and emoji_clutter_64, 48 and 32, recorded in one study). docs/results/plan.md fixes them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, cast

from common.errors import invalid
from experiments.parts.library import EMOJI_CLUTTER
from experiments.plans.fair_table import budget_notes as short_runs
from experiments.plans.study import StudyOptions
from experiments.plans.sweep import Line, Settings, Sweep, SweepAxes
from experiments.recipes.small_images import EMOJI
from experiments.studies.chapters import (
    ablation_protocol,
    budget_notes,
    ccp_settings,
    tuning_notes,
    tuning_protocol,
    tuning_settings,
)
from experiments.studies.planned import CCP, GSP, WIDE, planned_settings


def batch_size(options: StudyOptions) -> Sweep:
    """Return the study of figure 3.8."""
    settings = ccp_settings(options)
    return Sweep(
        f"Batch size with and without CCP on {options.dataset} (thesis figure 3.8)",
        options,
        SweepAxes("batch size", "test", logarithmic=True),
        (16, 32) if options.budget == "smoke" else (16, 32, 64, 128),
        (Line(), Line("+ccp")),
        ("c2",),
        settings,
        ("All methods make the same number of update steps at most.", *budget_notes(options, settings)),
        varied=lambda size: {"classes_per_batch": size // 4, "samples_per_class": 4},
        places_first=True,
    )


_POOLS = {  # budget: numbers of proxies, pool sizes
    "full": ((1, 2, 4, 8), (1, 2, 4, 8, 12, 16, 24, 32)),
    "demo": ((1, 2, 4), (1, 2, 4, 7, 12)),
    "smoke": ((1,), (1, 2)),
}


def _pooled(count: int, pools: Sequence[int]) -> Line:
    def settings(pool: int) -> Settings:
        return {"proxies_per_class": count, "pool_size": pool}

    return Line("+ccp", None, settings, f"{count} {'proxies' if count > 1 else 'proxy'}", pools)


def pool_size(options: StudyOptions) -> Sweep:
    """Return the study of figure 3.6."""
    (counts, pools), settings = _POOLS[options.budget], ccp_settings(options, ablation=True)
    lines = [_pooled(count, [pool for pool in pools if pool >= count]) for count in counts]
    return Sweep(
        f"Pool size and number of proxies on {options.dataset} (thesis figure 3.6)",
        options,
        SweepAxes("pool size", "validation", logarithmic=True),
        pools,
        lines,
        ("c2",),
        settings,
        ("A pool as large as the number of proxies is random sampling.", *budget_notes(options, settings)),
        ablation_protocol(options),
    )


_RATIOS = {
    "full": (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0),
    "demo": (0.1, 0.3, 0.5, 0.7, 1.0),
    "smoke": (0.3, 1.0),
}


def transport_ratio(options: StudyOptions) -> Sweep:
    """Return the study of figure 5.8."""
    return Sweep(
        f"Transport ratio of GSP on {options.dataset} (thesis figure 5.8)",
        options,
        SweepAxes("transport ratio mu", "validation"),
        _RATIOS[options.budget],
        (Line("", "gsp", lambda ratio: {"transport_ratio": ratio}),),
        ("c2",),
        tuning_settings(options),
        ("A transport ratio of 1 is average pooling with the zero-shot prediction loss.", *tuning_notes(options)),
        tuning_protocol(options),
    )


_COUNTS = {  # by figure and budget: losses, numbers of prototypes
    "5.10": {
        "full": (("c2", "pnca"), (16, 64, 128)),
        "demo": (("c2",), (16, 64, 128)),
        "smoke": (("c2",), (16, 64)),
    },
    "5.11": {
        "full": (("c2", "pnca"), (16, 32, 64, 128, 256)),
        "demo": (("c2", "pnca"), (16, 64, 128)),
        "smoke": (("c2",), (16, 64)),
    },
}


def _smoothed(smoothing: float) -> Line:
    return Line("", "gsp", lambda count: {"smoothing": smoothing}, f"smoothing {smoothing:g}")


def prototypes(figure: str, options: StudyOptions) -> Sweep:
    """Return the study of figure 5.10 (with smoothings) or 5.11 (with that of the loss)."""
    (losses, counts), what, lines = _COUNTS[figure][options.budget], "Prototypes", [Line("", "gsp")]
    if figure == "5.10":
        what = "Prototypes and smoothing"
        smoothings = (5.0,) if options.budget == "smoke" else (0.5, 5.0, 20.0)
        lines = [_smoothed(of) for of in smoothings]
    return Sweep(
        f"{what} of GSP on {options.dataset} (thesis figure {figure})",
        options,
        SweepAxes("prototypes m", "validation", logarithmic=True),
        counts,
        lines,
        losses,
        tuning_settings(options),
        tuning_notes(options),
        tuning_protocol(options),
        varied=lambda count: {"num_prototypes": count},
    )


def switch_probability(options: StudyOptions) -> Sweep:
    """Return the study of the dissertation's figure 2.8."""
    return Sweep(
        f"Milbich's dissertation, figure 2.8, on {options.dataset}",
        options,
        SweepAxes("p_switch", "test"),
        (0.0, 0.3) if options.budget == "smoke" else (0.0, 0.1, 0.2, 0.3, 0.4, 0.5),
        (Line("", None, lambda share: {"p_switch": share}),),
        (options.only_loss("margin+distance+rho"),),
        {"chapter": 5, "boundary": 0.6},
        ("p_switch 0 is the loss without regularisation.", *short_runs(options)),
    )


class Condition(NamedTuple):
    """A condition and the methods that are compared under it."""

    x_label: str
    values: Sequence[int]
    smoke: Sequence[int]  # its values at the smoke budget
    lines: Sequence[Line]
    settings: Callable[[int], Settings] = lambda value: {}  # of all methods, by the condition's value
    at_length: Settings = {}  # of all methods, except at the smoke budget
    loss: str = "c2"  # if `--loss` names no other


_MEMORY = 1024  # embeddings, at every batch size
_LARGEST_PASS = 128  # images; a larger batch is made of micro batches


def _batch(size: int) -> Settings:
    micro = {"micro_batch": _LARGEST_PASS} if size > _LARGEST_PASS else {}
    return {"classes_per_batch": size // 4, "samples_per_class": 4, **micro}


def _ccp(settings: Callable[[int], Settings], name: str = "", values: Sequence[int] | None = None) -> Line:
    return Line("+ccp", "gap", settings, name, values)


def _memory(terms: str) -> Line:
    given = {} if terms == "sum" else {"xbm_terms": terms}
    return Line("+xbm", "gap", lambda start: {"xbm_start": start, **given}, terms)


def _gsp(name: str = "", **settings) -> Line:
    return Line("", "gsp", lambda side: {**GSP, **settings}, name)


_PLAIN = Line("", "gap", is_baseline=True)
_ALONE = Line("", "gap", values=(), is_baseline=True)
_SIDES = {"emoji": cast(int, EMOJI["image_size"]), **EMOJI_CLUTTER}
_CLUTTER = "conditions_clutter"
CONDITIONS = {
    "conditions_batch": Condition(
        "batch size",
        (8, 32, 128, 512),
        (8, 16),
        (_PLAIN, Line("+xbm", "gap", lambda size: {"xbm_batches": _MEMORY // size}), _ccp(lambda size: {})),
        _batch,
    ),
    "conditions_memory": Condition(
        "memory used from step", (50, 150, 300), (0, 4), (_ALONE, *map(_memory, ("sum", "union", "memory")))
    ),
    "conditions_steps": Condition(
        "steps",
        (200, 600, 2000),
        (8, 16),
        (_PLAIN, Line("+xbm", "gap"), Line("+ccp", "gap")),
        lambda steps: {"max_steps": steps},
    ),
    "conditions_start": Condition(
        "first problem at step", (0, 100, 200, 400), (0, 4), (_ALONE, _ccp(lambda start: {"ccp_start": start}))
    ),
    "conditions_proxies": Condition(
        "proxies per class",
        (1, 2, 4, 6),
        (1, 2),
        (
            _ALONE,
            _ccp(lambda count: {"proxies_per_class": count}, "k-center of six"),
            # Six of six are those of the line above.
            _ccp(lambda count: {"proxies_per_class": count, "pool_size": count}, "random", (1, 2, 4)),
        ),
    ),
    "conditions_patience": Condition(
        "patience (validations)",
        (1, 2, 4),
        (1,),
        (
            Line("+ccp", "gap", lambda value: {"ccp_max_problems": 1}, "fixed", (), is_baseline=True),
            _ccp(lambda patience: {"projection_patience": patience}, "alternating"),
        ),
        at_length={"max_steps": 2000, "steps_per_evaluation": 50},
    ),
    _CLUTTER: Condition(
        "side of the emoji (pixels of 96)",
        (),
        (),
        (
            Line("", "gap", lambda side: WIDE, is_baseline=True),
            _gsp(),
            _gsp("prototypes from step 200", gsp_memory_size=6400),
            _gsp("prototypes of local features", gsp_memory_features="local_features"),
        ),
        loss="ms",
    ),
}


def effect_against(condition: str, options: StudyOptions) -> Sweep:
    """Return the study of one of `CONDITIONS`; clutter needs emoji."""
    chosen, is_smoke = CONDITIONS[condition], options.budget == "smoke"
    values = chosen.smoke if is_smoke else chosen.values
    if condition == _CLUTTER:
        if options.dataset not in _SIDES:
            raise invalid("--dataset", received=options.dataset, expected=f"one of {', '.join(_SIDES)} for clutter")
        values = (_SIDES[options.dataset],)
    loss, at_length = options.only_loss(chosen.loss), {} if is_smoke else chosen.at_length
    (baseline,) = (line.series(loss) for line in chosen.lines if line.is_baseline)
    return Sweep(
        f"{chosen.x_label.capitalize()}: effects on {options.dataset}, whole network",
        options,
        SweepAxes(chosen.x_label, "test", logarithmic=len(values) > 1 and values[0] > 0),
        values,
        chosen.lines,
        (loss,),
        {**planned_settings(options), **CCP},
        (
            "Exploratory. Intervals are single, without a correction for many comparisons. Minus baseline: paired by "
            f"fold and test class, from {baseline}.",
            *options.budget_notes("short runs, one fold"),
        ),
        varied=lambda value: {**chosen.settings(value), **at_length},
    )
