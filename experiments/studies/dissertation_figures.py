"""Milbich's dissertation, figures 2.2, 2.3, 2.8 and 4.4, under the fair protocol.

Regenerates: figure 2.2 (`--id=milbich_2.2`: batch size, weight decay, size of the embedding; on photographs crops),
    2.3 (`--id=milbich_2.3`: samplers of batches), 2.8 (`--id=milbich_2.8`: p_switch of rho-regularisation, boundary
    .6) and 4.4 (`--id=milbich_4.4`: an ensemble of four discriminative heads between one head and DiVA, all of one
    size; DaNCE and its NCE). Of figure 4.4's right half, DeepCluster, RotNet, instance discrimination and MoCo are left
    out. Grids are ours: the figures print none.
Expected: no value is printed. Text: larger batches and images help; SPC-2 and FRD are good everywhere and better than
    SPC-4, means differ by 1.5 % at most; the ensemble is above one head and clearly below DiVA.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

from experiments.parts.datasets import traits_of
from experiments.plans.fair_table import FairRow, FairTable
from experiments.plans.study import Study, StudyOptions
from experiments.published.values import DISSERTATION
from experiments.studies.fair_tables import rows_of

_FIVE_LOSSES = ("margin+distance", "triplet+random", "pnca", "ms", "normsoftmax")  # unnamed; ours of figure 2.3's
_LOSSES = {"2.2": _FIVE_LOSSES, "2.3": (*_FIVE_LOSSES, "histogram")}
_DECAYS, _SIZES, _FACTORS = (0.0, 1e-4, 4e-4, 1e-3), (32, 64, 128, 256, 512), (0.5, 1.0, 2.0)
_CROPS: Mapping[str, Mapping[str, Any]] = {
    "Red.": {"crop": "reduced"},
    "Big": {"image_size": 256},
    "Adv.": {"crop": "jittered"},
}
_SAMPLERS = {  # (--sampler, images of a class), the first is the baseline
    **{f"SPC-{samples}": ("spc", samples) for samples in (2, 4, 8)},
    "SPC-R": ("spc_r", 2),
    "GC": ("coreset", 2),
    "DDM": ("distances", 2),
    "FRD": ("frechet", 2),
}


def dissertation_figures() -> dict[str, Callable[[StudyOptions], Study]]:
    """Return the studies by their `--id`."""
    return {f"{DISSERTATION}{figure}": functools.partial(_table, figure) for figure in ("2.2", "2.3", "4.4")}


def _table(figure: str, options: StudyOptions) -> FairTable:
    """Return a figure's study of methods."""
    if figure == "4.4":
        rows = rows_of(f"figure_{DISSERTATION}{figure}")
    else:
        losses = options.losses or _LOSSES[figure][: None if options.budget == "full" else 1]
        make = _pipeline_rows if figure == "2.2" else _sampler_rows
        rows = tuple(row for loss in losses for row in make(loss, options))
    title = f"Milbich's dissertation, figure {figure}, on {options.dataset}"
    return FairTable(title, None, rows, options, chapter=5)


def _pipeline_rows(loss: str, options: StudyOptions) -> list[FairRow]:
    """Return the base and its changes, one at a time."""
    base = options.configuration(loss, settings={"chapter": 5})
    changes: dict[str, Mapping[str, Any]] = {
        f"batch of {size * base.samples_per_class}": {"classes_per_batch": size}
        for size in (int(factor * base.classes_per_batch) for factor in _FACTORS)
    }
    changes |= {f"weight decay {decay:g}": {"weight_decay": decay} for decay in _DECAYS}
    changes |= {f"size {size}": {"embedding_dim": size} for size in _SIZES}
    changes |= _CROPS if traits_of(options.dataset).photographs else {}
    changed = {
        variant: settings
        for variant, settings in changes.items()
        if any(getattr(base, name) != value for name, value in settings.items())
    }
    method = f"{loss}+gap"
    return [FairRow(method), *(FairRow(method, None, method, given, variant) for variant, given in changed.items())]


def _sampler_rows(loss: str, options: StudyOptions) -> list[FairRow]:
    """Return the samplers, in batches as large as the recipe's."""
    size, baseline = options.configuration(loss, settings={"chapter": 5}).batch_size, f"{loss}+gap, SPC-2"
    rows = []
    for variant, (sampler, samples) in _SAMPLERS.items():
        settings = {"sampler": sampler, "samples_per_class": samples, "classes_per_batch": size // samples}
        rows.append(FairRow(f"{loss}+gap", None, None if variant == "SPC-2" else baseline, settings, variant))
    return rows
