"""Batch size against CCP: a pair loss with and without CCP at four sizes.

Regenerates: thesis figure 3.8 (MAP@R over the batch size 16, 32, 64, 128 with four samples per class; CUB, Cars).
Command: python -m experiments.figure --id=3.8 --dataset=glyphs --budget=demo --run
Expected: no value of this figure is printed; at a batch of 32 table 3.1 has C2 21.01 and C2+CCP-L 22.67 on CUB (128-D
    MAP@R), 17.22 and 18.52 on Cars.
Cost: `--budget=demo` on glyphs 8 runs, about 8 minutes on 2 CPU cores; `--budget=full` on CUB 32 runs
    of 42 minutes on an RTX 2080 Ti (estimated); `--budget=smoke` two minutes.
"""

from __future__ import annotations

from experiments.plans.study import StudyOptions
from experiments.plans.sweep import Sweep, SweepAxes, SweepPoint
from experiments.studies.ccp_settings import budget_notes, ccp_settings

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
