"""Sweeps of CCP: batch size and pool size.

Batch size against CCP: a pair loss with and without CCP at four sizes.

Regenerates: thesis figure 3.8 (MAP@R over the batch size 16, 32, 64, 128 with four samples per class; CUB, Cars).
Command: python -m experiments.figure --id=3.8 --dataset=glyphs --budget=demo --run
Expected: no value of this figure is printed; at a batch of 32 table 3.1 has C2 21.01 and C2+CCP-L 22.67 on CUB (128-D
    MAP@R), 17.22 and 18.52 on Cars.
Cost: `--budget=demo` on glyphs 8 runs, about 8 minutes on 2 CPU cores; `--budget=full` on CUB 32 runs
    of 42 minutes on an RTX 2080 Ti (estimated); `--budget=smoke` two minutes.

Size of the pool per class for the next proxies, for several proxy counts.

Regenerates: thesis figure 3.6 (validation MAP@R over the pool size, one line a number of proxies; CUB left, Cars
    right). A pool as large as the number of proxies is random sampling.
Command: python -m experiments.figure --id=3.6 --dataset=glyphs --budget=demo --run
Expected: thesis section 3.3.2.3: random sampling still works well, a pool of 12 for 8 proxies is chosen; no value of
    the figure and none of its pool sizes is printed, the grid is ours.
Cost: `--budget=demo` on glyphs 12 runs, about 12 minutes on 2 CPU cores; `--budget=full` on CUB 26 runs
    (one split) of 31 minutes on an RTX 2080 Ti (estimated); `--budget=smoke` a minute.
"""

from __future__ import annotations

from experiments.plans.study import StudyOptions
from experiments.plans.sweep import Sweep, SweepAxes, SweepPoint
from experiments.studies.ccp_settings import ablation_protocol, budget_notes, ccp_settings

_SAMPLES_PER_CLASS = 4
_BATCH_SIZES = {"full": (16, 32, 64, 128), "demo": (16, 32, 64, 128), "smoke": (16, 32)}


def batch_size(options: StudyOptions) -> Sweep:
    """Return the study of figure 3.8."""
    settings = ccp_settings(options)
    points = [
        SweepPoint(
            loss if method == "plain" else f"{loss}+ccp",
            size,
            options.configuration(
                loss,
                method,
                settings=settings,
                classes_per_batch=size // _SAMPLES_PER_CLASS,
                samples_per_class=_SAMPLES_PER_CLASS,
            ),
        )
        for loss in options.losses or ("c2",)
        for size in _BATCH_SIZES[options.budget]
        for method in ("plain", "ccp")
    ]
    return Sweep(
        f"Batch size with and without CCP on {options.dataset} (thesis figure 3.8)",
        points,
        options,
        SweepAxes("batch size", "test", logarithmic=True),
        ("All methods make the same number of update steps at most.", *budget_notes(options, settings)),
    )


_GRIDS = {  # budget: numbers of proxies, pool sizes
    "full": ((1, 2, 4, 8), (1, 2, 4, 8, 12, 16, 24, 32)),
    "demo": ((1, 2, 4), (1, 2, 4, 7, 12)),
    "smoke": ((1,), (1, 2)),
}


def pool_size(options: StudyOptions) -> Sweep:
    """Return the study of figure 3.6."""
    losses = options.losses or ("c2",)
    proxies, pools = _GRIDS[options.budget]
    settings = ccp_settings(options, ablation=True)
    points = [
        SweepPoint(
            f"{loss}+ccp, {count} {'proxies' if count > 1 else 'proxy'}",
            pool,
            options.configuration(loss, "ccp", settings=settings, proxies_per_class=count, pool_size=pool),
        )
        for loss in losses
        for count in proxies
        for pool in pools
        if pool >= count
    ]
    return Sweep(
        f"Pool size and number of proxies on {options.dataset} (thesis figure 3.6)",
        points,
        options,
        SweepAxes("pool size", "validation", logarithmic=True),
        ("A pool as large as the number of proxies is random sampling.", *budget_notes(options, settings)),
        ablation_protocol(options),
    )
