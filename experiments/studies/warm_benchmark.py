"""The warm benchmark: the thesis' claims when training begins with good features.

Regenerates: nothing printed: the methods of thesis tables 3.1 and 5.1 in the regime of the thesis (features
    learned elsewhere), small enough for a CPU. Every method is tuned with the same number of trials.
Command: python -m experiments.table --id=warm --dataset=cars196 --data_dir=data --weights=mobilenet_v2.npz --run
    (photographs: a head is trained on cached features; `--trained_from=...` trains the last blocks, too)
    python -m experiments.table --id=warm --dataset=glyph_scripts --weights=glyphs_latin.npz --run
    (two-stage glyphs: the whole network is fine-tuned; `experiments.pretrain --dataset=glyphs_latin` makes the file)
Expected: the signs of the thesis: CCP and the memory above their loss, GSP above average pooling. Results:
    docs/results/warm.md.
Cost: full on CUB 459 runs (six trials per method, three repeats) of .53 minutes on 2 CPU cores, of photographs whose
    features are cached in minutes before (`--loss=c2`: 85); `--budget=demo` 138 of them (three trials, one
    repeat, without one proxy per class); `--budget=smoke` minutes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from common.errors import InvalidInput
from experiments.plans.fair_table import FairRow
from experiments.plans.study import StudyOptions
from experiments.settings.thesis_values import PHOTOGRAPHS
from experiments.studies.tuned_table import TunedRow, TunedTable, best_place

_PAIR_LOSSES = {"c1": "C1", "c2": "C2", "ms": "MS", "triplet": "Triplet"}
_PROXY_LOSSES = {"pnca": "PNCA", "panchor": "PAnchor"}
_EMBEDDED = ("glyph_scripts",)
_PRETRAINING = "python -m experiments.pretrain --dataset=glyphs_latin --backbone=resnet10 --output=glyphs_latin.npz"
RATES = (1e-4, 3e-4, 1e-3)
_ALL_RATES = (3e-5, *RATES, 3e-3)
# What is tried beside the learning rate for a method that has more to set than its loss: the recipe's value, another.
_BATCHES = ("xbm_batches", 25, 3)
_PATIENCE = ("projection_patience", 3, 1)
_SMOOTHING = ("smoothing", 5.0, 0.5)
_PROXY_SMOOTHING = ("smoothing", 0.5, 5.0)
_PHOTOGRAPHS = {"backbone": "mobilenet_v2", "image_size": 160, "trained_from": "head"}
_SCHEDULES = {
    "full": {"max_steps": 3000, "steps_per_evaluation": 100, "patience": 15},
    "demo": {"max_steps": 1000, "steps_per_evaluation": 50, "patience": 10},
    "smoke": {},
}
_WAITS = {"full": 1000, "demo": 300, "smoke": 4}  # update steps before proxies may take over from the batch
_MEMORY = {"full": 200, "demo": 200, "smoke": 4}  # update steps before the memory is read, and anything is selected


def warm_benchmark(options: StudyOptions) -> TunedTable:
    """Return the study.

    Args:
        options: of the study; the data set is one of photographs or `glyph_scripts`.

    Raises:
        InvalidInput: another data set, or a start without weights.
    """
    if options.dataset not in (*PHOTOGRAPHS, *_EMBEDDED):
        raise InvalidInput(
            f"Invalid --dataset with --id=warm: received {options.dataset!r}, expected photographs "
            f"({', '.join(PHOTOGRAPHS)}) or {', '.join(_EMBEDDED)}, for which there are networks to start from."
        )
    if options.dataset in _EMBEDDED and options.overrides.get("weights", "none") == "none":
        raise InvalidInput(
            f"--id=warm begins with a trained network: give --weights=FILE with --dataset={options.dataset}. This "
            f"makes one: {_PRETRAINING}"
        )
    settings = warm_settings(options)
    rows = [_tuned(row, options.budget) for row in _rows(options.budget)]
    return TunedTable(f"Warm benchmark on {options.dataset}", "3.1", rows, options, settings)


def warm_settings(options: StudyOptions) -> dict[str, Any]:
    """Return settings that all methods share when starting from a trained network."""
    settings = {**_SCHEDULES[options.budget], **(_PHOTOGRAPHS if options.dataset in PHOTOGRAPHS else {})}
    return settings | ({"num_folds": 2} if options.budget == "smoke" else {})


def _rows(budget: str) -> Iterator[FairRow]:
    """Yield memory and CCP under every pair loss, then GSP, then proxy losses."""
    memory = {"xbm_start": _MEMORY[budget], "selection_start": _MEMORY[budget]}
    ccp = {"ccp_start": _WAITS[budget], "ccp_start_patience": 3 if budget == "full" else 0, "ccp_goes_back": True}
    ccp |= {"ccp_max_failures": 2, "selection_start": _WAITS[budget]}
    one_proxy = {**ccp, "proxies_per_class": 1}
    for loss, printed in _PAIR_LOSSES.items():
        has_memory = loss in ("c1", "c2")  # as published
        yield FairRow(f"{loss}+gap", printed)
        yield FairRow(f"{loss}+xbm+gap", f"{printed}+XBM-L" if has_memory else None, f"{loss}+gap", memory)
        yield FairRow(f"{loss}+ccp+gap", f"{printed}+CCP-L", f"{loss}+gap", ccp)
        if budget == "full":
            yield FairRow(f"{loss}+ccp+gap", None, f"{loss}+gap", one_proxy, "S")
    for loss in (*_PAIR_LOSSES, *_PROXY_LOSSES):
        if loss in _PROXY_LOSSES:
            yield FairRow(f"{loss}+gap")
        yield FairRow(f"{loss}+gsp", None, f"{loss}+gap")
    yield FairRow("c1+xbm+gsp", None, "c1+xbm+gap", memory)
    yield FairRow("c1+ccp+gsp", None, "c1+ccp+gap", ccp)
    yield FairRow("softtriple+gap")


def _tuned(row: FairRow, budget: str) -> TunedRow:
    """Return a row with trials: at full budget five common learning rates and another.

    The sixth is the other value of the method's own setting, at the best of the five rates. For a loss alone it is the
    rate between the best one and the better of its neighbors.
    """
    if budget == "smoke":
        return TunedRow(row, _with_rates(RATES[:2]))
    if budget == "demo":
        return TunedRow(row, _with_rates(RATES))
    own = _own_setting(row.method)
    if own is None:
        return TunedRow(row, _with_rates(_ALL_RATES), lambda values: {"learning_rate": _rate_between(values)})
    name, first, second = own

    def other_value(values: Sequence[float]) -> Mapping[str, object]:
        return {"learning_rate": _ALL_RATES[best_place(values)], name: second}

    return TunedRow(row, [{**trial, name: first} for trial in _with_rates(_ALL_RATES)], other_value)


def _own_setting(method: str) -> tuple[str, float, float] | None:
    """Return a method's own tuned field with its first and second value."""
    if "gsp" in method:
        return _PROXY_SMOOTHING if method.partition("+")[0] in _PROXY_LOSSES else _SMOOTHING
    return _BATCHES if "xbm" in method else _PATIENCE if "ccp" in method else None


def _with_rates(rates: Sequence[float]) -> list[Mapping[str, object]]:
    return [{"learning_rate": rate} for rate in rates]


def _rate_between(values: Sequence[float]) -> float:
    """Average the best rate and its better neighbor geometrically, to two digits.

    Args:
        values: validation MAP@R at each of all rates.
    """
    best = best_place(values)
    neighbors = [place for place in (best - 1, best + 1) if 0 <= place < len(values)]
    neighbor = max(neighbors, key=values.__getitem__)
    return float(f"{math.sqrt(_ALL_RATES[best] * _ALL_RATES[neighbor]):.1e}")
