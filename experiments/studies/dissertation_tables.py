"""Shared features, DiVA and PADS beside their baselines: the tables of Milbich's dissertation, chapters 3 to 5.

Regenerates: its tables 3.4 (`--id=milbich_3.4`), 3.8 (`--id=milbich_3.8`), 3.9 (`--id=milbich_3.9`), 3.10
    (`--id=milbich_3.10`), 3.11 (`--id=milbich_3.11`), 4.2 (`--id=milbich_4.2`), 4.3 (`--id=milbich_4.3`), 4.4
    (`--id=milbich_4.4`), 5.1 (`--id=milbich_5.1`), 5.7 (`--id=milbich_5.7`), 5.11 (`--id=milbich_5.11`) and 5.13
    (`--id=milbich_5.13`) under the fair protocol: four folds, held-out classes, one total size for all rows of a table,
    intervals.
Command: python -m experiments.table --id=milbich_3.8 --dataset=cars196 --data_dir=data --weights=mobilenet_v2.npz
    --trained_from=head --run (trained features: every row is tuned by three learning rates, on the schedule of
    `--id=warm`); without --trained_from the recipe's settings hold.
Expected: the printed cells (R@1, which is P@1), beside ours in the table itself. The dissertation selects the best
    epoch on the test set, so no cell of the fair protocol is comparable; its protocol is `experiments.revisiting_eval`.
Cost: with cached features of photographs half a minute to two for a run on a CPU core, 42 (milbich_4.4) to 112 runs
    (milbich_4.2); `--budget=demo` on glyphs one to three minutes for a run; `--budget=smoke` seconds.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Callable, Mapping, Sequence

from experiments.reports.published_values import DISSERTATION
from experiments.settings.build import parse_method
from experiments.settings.method_names import FEATURES, parse_loss
from experiments.studies.fair_table import FairRow, FairTable
from experiments.studies.final_sampling import FinalSamplingTable
from experiments.studies.study import Study, StudyOptions
from experiments.studies.tuned_table import TunedRow, TunedTable
from experiments.studies.warm_benchmark import RATES, warm_settings

MARGIN, SHARED = "margin+distance+gap", "margin+distance+shared+gap"
DIVA = "margin+distance+shared+intra+dance+gap"
PADS = "margin+pads+gap"
_LEFT_OUT = {"left_out_images": 0.15}
_DECORRELATION = (0.0, 250.0, 500.0, 750.0, 1000.0, 1500.0, 2500.0)  # seven, the last one as printed
_PRINTED_DECORRELATION = {0.0: "gamma 0", 2500.0: "gamma 2500"}  # the others are illegible


def _table_3_4() -> Sequence[FairRow]:
    names = {"margin+distance": "Margin", "triplet+semihard": "Semihard", "npair": "N-pairs", "pnca": "PNCA"}
    rows = []
    for loss, printed in names.items():
        rows.append(FairRow(f"{loss}+gap", f"{printed} / Baseline256"))
        rows.append(FairRow(f"{loss}+shared+gap", f"{printed} / phi+phi*(256)", f"{loss}+gap"))
    return rows


def _table_3_8() -> Sequence[FairRow]:
    single = {"single_encoder": True, "decorrelation": 0.0}
    return (
        FairRow(MARGIN, "discr. only (T_X)"),
        FairRow("margin+interclass+gap", "shared only (T*)", MARGIN),
        FairRow(SHARED, "both (one encoder)", MARGIN, single, "one encoder"),
        FairRow(SHARED, "both+sep (two encoders)", MARGIN, {"decorrelation": 0.0}, "no decorrelation"),
        FairRow(SHARED, "both+sep+decor (full)", MARGIN),
    )


def _table_3_9() -> Sequence[FairRow]:
    base = FairRow(MARGIN)
    rows = (
        FairRow(SHARED, _PRINTED_DECORRELATION.get(weight), MARGIN, {"decorrelation": weight}, f"gamma {weight:g}")
        for weight in _DECORRELATION
    )
    return (base, *rows)


def _table_3_10() -> Sequence[FairRow]:
    return (
        FairRow(MARGIN, "Base (Margin)"),
        FairRow(SHARED, "min d(a;p) positive", MARGIN, {"shared_positives": "nearest"}, "nearest positives"),
        FairRow(SHARED, "NoConstr (random a;p;n)", MARGIN, {"shared_triplets": "permuted"}, "permuted labels"),
        FairRow(SHARED, "T* (proposed)", MARGIN),
    )


def _table_3_11() -> Sequence[FairRow]:
    return (
        FairRow(MARGIN),
        FairRow(SHARED, "T* + random", MARGIN, {"shared_negatives": "random"}, "random negatives"),
        FairRow(SHARED, "T* + semihard", MARGIN, {"shared_negatives": "semi_hard"}, "semi-hard negatives"),
        FairRow(SHARED, "T* + distance (default)", MARGIN),
    )


def _table_4_2() -> Sequence[FairRow]:
    printed = {"shared": "S", "intra": "I", "dance": "Da"}
    rows = [FairRow(MARGIN, "Margin (ours, IBN)")]
    for count in range(1, len(FEATURES) + 1):
        for tasks in itertools.combinations(("shared", "intra", "dance"), count):
            label = " & ".join(["D", *(printed[task] for task in ("dance", "shared", "intra") if task in tasks)])
            joint = {"feature_schedule": "joint"} if tasks == ("shared",) else {}
            rows.append(FairRow("+".join(["margin+distance", *tasks, "gap"]), f"DiVA (IBN, {label})", MARGIN, joint))
    return rows


def _table_4_3() -> Sequence[FairRow]:
    return FairRow(MARGIN, "Ours (Margin-R50-512)"), FairRow(DIVA, "Ours (DiVA-R50-512)", MARGIN)


def _table_4_4() -> Sequence[FairRow]:
    return (
        FairRow(MARGIN, "Baseline (Margin)"),
        FairRow(DIVA, "DiVA", MARGIN),
        FairRow(DIVA, "No decorrelation", DIVA, {"decorrelation": 0.0}, "no decorrelation"),
    )


def _table_5_1() -> Sequence[FairRow]:
    rows = []
    for loss, printed, of_static in (("margin", "Margin", "beta=1.2"), ("triplet", "Triplet", "ReImp")):
        static, adapted = f"{loss}+distance+gap", f"{loss}+pads+gap"
        fewer = FairRow(static, None, static, _LEFT_OUT, "85 % of images")
        rows += [FairRow(static, f"{printed} + U-dist ({of_static})"), fewer]
        rows.append(FairRow(adapted, f"{printed} + PADS (Ours)", fewer.label))
        rows.append(FairRow(adapted, None, fewer.label, {"pads_estimator": "random"}, "random actions"))
        rows.append(FairRow(adapted, None, fewer.label, {"pads_estimator": "fixed"}, "fixed at the start"))
    return rows


def _table_5_7() -> Sequence[FairRow]:
    return (
        FairRow(PADS, "U[0.1;1.4]", settings={"pads_start": "all"}, variant="start of all"),
        FairRow(PADS, "U[0.3;0.7]"),
    )


def _table_5_11() -> Sequence[FairRow]:
    static = FairRow(MARGIN, "static distance-weighted [Wu et al.]", settings=_LEFT_OUT, variant="85 % of images")
    fixed = FairRow(PADS, "infinity (no adaptation)", static.label, {"pads_estimator": "fixed"}, "H infinity")
    steps = (
        FairRow(PADS, str(steps), static.label, {"pads_steps": steps}, f"H {steps}") for steps in (10, 30, 50, 70, 100)
    )
    return (static, *steps, fixed)


def _table_5_13() -> Sequence[FairRow]:
    static = FairRow(MARGIN, "Margin static (reference)", settings=_LEFT_OUT, variant="85 % of images")
    printed = {
        "reinforce": "REINFORCE",
        "reinforce_ema": "REINFORCE + EMA",
        "reinforce_a2c": "REINFORCE + A2C",
        "ppo_ema": "PPO + EMA",
        "ppo_a2c": "PPO + A2C",
    }
    rows = (
        FairRow(PADS, label, static.label, {"pads_estimator": estimator}, estimator)
        for estimator, label in printed.items()
    )
    return (static, *rows)


_ROWS: Mapping[str, Callable[[], Sequence[FairRow]]] = {
    "3.4": _table_3_4,
    "3.8": _table_3_8,
    "3.9": _table_3_9,
    "3.10": _table_3_10,
    "3.11": _table_3_11,
    "4.2": _table_4_2,
    "4.3": _table_4_3,
    "4.4": _table_4_4,
    "5.1": _table_5_1,
    "5.7": _table_5_7,
    "5.11": _table_5_11,
    "5.13": _table_5_13,
}
_STEPS = ("max_steps", "steps_per_evaluation")
_ADAPTED = ("margin+pads+gap", "triplet+pads+gap")  # in table 5.1


def dissertation_tables() -> dict[str, Callable[[StudyOptions], Study]]:
    """The studies by what `--id` says."""
    return {f"{DISSERTATION}{table}": functools.partial(_study, table) for table in _ROWS}


def _study(table: str, options: StudyOptions) -> Study:
    """The study of a table: tuned where training begins above a cut of a trained network, else by the recipe."""
    rows = [_doubled(row, options) for row in _ROWS[table]()]
    tuned = options.overrides.get("trained_from") is not None

    def make(rows: Sequence[FairRow]) -> FairTable | TunedTable:
        title = f"Milbich's dissertation, table {table}, on {options.dataset}"
        if not tuned:
            return FairTable(title, f"{DISSERTATION}{table}", rows, options, chapter=5)
        settings = {**warm_settings(options), "chapter": 5}
        rates = RATES if options.budget != "smoke" else RATES[:2]
        trials = [TunedRow(row, [{"learning_rate": rate} for rate in rates]) for row in rows]
        return TunedTable(title, f"{DISSERTATION}{table}", trials, options, settings)

    return FinalSamplingTable(make, rows, _ADAPTED) if table == "5.1" else make(rows)


def _doubled(row: FairRow, options: StudyOptions) -> FairRow:
    """A row whose two tasks take turns takes twice the steps that the others of a tuned table have."""
    features = parse_loss(parse_method(row.method)[0]).features
    steps = {name: 2 * int(value) for name, value in warm_settings(options).items() if name in _STEPS}
    if features != ("shared",) or row.settings.get("feature_schedule") == "joint" or {*steps} & {*options.overrides}:
        return row
    return dataclasses.replace(row, settings={**row.settings, **steps})
