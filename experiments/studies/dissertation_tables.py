"""Milbich's dissertation, chapters 3 to 5: shared features, DiVA, PADS and baselines.

Regenerates: its tables 3.4 (`--id=milbich_3.4`), 3.6 (`--id=milbich_3.6`), 3.8 (`--id=milbich_3.8`), 3.9
    (`--id=milbich_3.9`), 3.10 (`--id=milbich_3.10`), 3.11 (`--id=milbich_3.11`), 4.2 (`--id=milbich_4.2`), 4.3
    (`--id=milbich_4.3`), 4.4 (`--id=milbich_4.4`), 5.1 (`--id=milbich_5.1`), 5.7 (`--id=milbich_5.7`), 5.11
    (`--id=milbich_5.11`) and 5.13 (`--id=milbich_5.13`) under the fair protocol: four folds, held-out classes, one
    total size for all rows of a table, intervals. Table 3.6 measures representations inside of finished runs.
Command: python -m experiments.table --id=milbich_3.8 --dataset=glyphs --budget=demo --run
Expected: the printed cells (R@1, which is P@1), beside ours in the table itself. The dissertation selects the best
    epoch on the test set, so no cell of the fair protocol is comparable; its protocol is `experiments.revisiting_eval`.
Cost: 24 (milbich_4.3) to 144 runs (milbich_5.1), whose list has their cost; `--budget=demo` on glyphs one to three
    minutes for a run; `--budget=smoke` seconds.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Callable, Mapping, Sequence

from experiments.plans.fair_table import FairRow, FairTable
from experiments.plans.study import Study, StudyOptions
from experiments.published.revisiting import LATER_ROWS
from experiments.published.values import DISSERTATION
from experiments.settings.method_names import DANCE, INTRA, SHARED
from experiments.settings.methods.features import BY_FEATURES, JOINT
from experiments.settings.methods.pads import FIXED, RANDOM
from experiments.studies.final_sampling import FinalSamplingTable
from experiments.studies.generalization_gap import GeneralizationGapTable

_MARGIN, _TWO_TASKS = "margin+distance+gap", "margin+distance+shared+gap"
_GROUPS, _T_G = "margin+distance+groups+gap", "T^G_l {} feature standardization"
_DIVA = "margin+distance+shared+intra+dance+gap"
_MODELS = {_MARGIN: "Margin (discr. only)", _TWO_TASKS: "Ours (T*)"}  # of table 3.6
_TASKS = (SHARED, INTRA, DANCE)  # DiVA's
_PADS = "margin+pads+gap"
_ONE_ENCODER = {"single_encoder": True, "decorrelation": 0.0}
_LEFT_OUT = {"left_out_images": 0.15}
_ILLEGIBLE: dict[float, str | None] = dict.fromkeys((250.0, 500.0, 750.0, 1000.0, 1500.0))
_DECORRELATION = {0.0: "gamma 0", **_ILLEGIBLE, 2500.0: "gamma 2500"}  # seven, the last one as printed


def _row(loss: str, dim: int, network: str = "resnet50", baseline: str | None = None, **settings: object) -> FairRow:
    """Make a row beside the dissertation's cell for its size and network."""
    return FairRow(f"{loss}+gap", LATER_ROWS[loss, dim, network].label, baseline, settings)


def _of_pads(loss: str, printed: str, of_static: str) -> Sequence[FairRow]:
    """Make a loss' rows of table 5.1."""
    static, adapted = f"{loss}+distance+gap", f"{loss}+pads+gap"
    fewer = FairRow(static, None, static, _LEFT_OUT, "85 % of images")
    return (
        FairRow(static, f"{printed} + U-dist ({of_static})"),
        fewer,
        FairRow(adapted, f"{printed} + PADS (Ours)", fewer.label),
        FairRow(adapted, None, fewer.label, {"pads_estimator": RANDOM}, "random actions"),
        FairRow(adapted, None, fewer.label, {"pads_estimator": FIXED}, "fixed at the start"),
    )


def _of_tasks(tasks: Sequence[str]) -> FairRow:
    """Make the row of table 4.2 for some of DiVA's tasks."""
    loss, dim = "+".join(["margin+distance", *tasks]), 510 if len(tasks) == 2 else 512  # a multiple of three
    joint = {"feature_schedule": JOINT} if tasks == (SHARED,) else {}
    return _row(loss, dim, "bn_inception", _MARGIN, **joint)


_FEWER = FairRow(_MARGIN, "Margin static (reference)", settings=_LEFT_OUT, variant="85 % of images")
_ROWS: Mapping[str, Sequence[FairRow]] = {
    "3.4": [
        row
        for loss in ("margin+distance", "triplet+semihard", "npair", "pnca")
        for row in (_row(loss, 256), _row(f"{loss}+shared", 256, baseline=f"{loss}+gap"))
    ],
    "3.6": (
        FairRow(_MARGIN, f"{_MODELS[_MARGIN]} / phi"),
        FairRow(_TWO_TASKS, f"{_MODELS[_TWO_TASKS]} / phi", _MARGIN),
        FairRow(_GROUPS, None, _MARGIN),
    ),
    "3.8": (
        FairRow(_MARGIN, "discr. only (T_X)"),
        FairRow("margin+interclass+gap", "shared only (T*)", _MARGIN),
        FairRow(_TWO_TASKS, "both (one encoder)", _MARGIN, _ONE_ENCODER, "one encoder"),
        FairRow(_TWO_TASKS, "both+sep (two encoders)", _MARGIN, {"decorrelation": 0.0}, "no decorrelation"),
        FairRow(_TWO_TASKS, "both+sep+decor (full)", _MARGIN),
    ),
    "3.9": (
        FairRow(_MARGIN),
        *(
            FairRow(_TWO_TASKS, printed, _MARGIN, {"decorrelation": weight}, f"gamma {weight:g}")
            for weight, printed in _DECORRELATION.items()
        ),
    ),
    "3.10": (
        FairRow(_MARGIN, "Base (Margin)"),
        FairRow(_GROUPS, _T_G.format("without"), _MARGIN, {"group_by": BY_FEATURES}, "groups of features"),
        FairRow(_GROUPS, f"{_T_G.format('with')} (MIC)", _MARGIN),
        FairRow(_TWO_TASKS, "min d(a;p) positive", _MARGIN, {"shared_positives": "nearest"}, "nearest positives"),
        FairRow(_TWO_TASKS, "NoConstr (random a;p;n)", _MARGIN, {"shared_triplets": "permuted"}, "permuted labels"),
        FairRow(_TWO_TASKS, "T* (proposed)", _MARGIN),
    ),
    "3.11": (
        FairRow(_MARGIN),
        FairRow(_TWO_TASKS, "T* + random", _MARGIN, {"shared_negatives": "random"}, "random negatives"),
        FairRow(_TWO_TASKS, "T* + semihard", _MARGIN, {"shared_negatives": "semi_hard"}, "semi-hard negatives"),
        FairRow(_TWO_TASKS, "T* + distance (default)", _MARGIN),
    ),
    "4.2": (
        _row("margin+distance", 512, "bn_inception"),
        *(_of_tasks(tasks) for count in (1, 2, 3) for tasks in itertools.combinations(_TASKS, count)),
    ),
    "4.3": (_row("margin+distance", 512), _row("margin+distance+shared+intra+dance", 512, baseline=_MARGIN)),
    "4.4": (
        FairRow(_MARGIN, "Baseline (Margin)"),
        FairRow(_DIVA, "DiVA", _MARGIN),
        FairRow(_DIVA, "No decorrelation", _DIVA, {"decorrelation": 0.0}, "no decorrelation"),
    ),
    "5.1": (*_of_pads("margin", "Margin", "beta=1.2"), *_of_pads("triplet", "Triplet", "ReImp")),
    "5.7": (
        FairRow(_PADS, "U[0.1;1.4]", settings={"pads_start": "all"}, variant="start of all"),
        FairRow(_PADS, "U[0.3;0.7]"),
    ),
    "5.11": (
        dataclasses.replace(_FEWER, printed="static distance-weighted [Wu et al.]"),
        *(
            FairRow(_PADS, str(steps), _FEWER.label, {"pads_steps": steps}, f"H {steps}")
            for steps in (10, 30, 50, 70, 100)
        ),
        FairRow(_PADS, "infinity (no adaptation)", _FEWER.label, {"pads_estimator": FIXED}, "H infinity"),
    ),
    "5.13": (
        _FEWER,
        *(
            FairRow(_PADS, label, _FEWER.label, {"pads_estimator": estimator}, estimator)
            for estimator, label in {
                "reinforce": "REINFORCE",
                "reinforce_ema": "REINFORCE + EMA",
                "reinforce_a2c": "REINFORCE + A2C",
                "ppo_ema": "PPO + EMA",
                "ppo_a2c": "PPO + A2C",
            }.items()
        ),
    ),
}
_ADAPTED = (_PADS, "triplet+pads+gap")  # in table 5.1


def dissertation_tables() -> dict[str, Callable[[StudyOptions], Study]]:
    """Return the studies by their `--id`."""
    return {f"{DISSERTATION}{table}": functools.partial(_study, table) for table in _ROWS}


def _study(table: str, options: StudyOptions) -> Study:
    """Return a table's study."""
    title, name = f"Milbich's dissertation, table {table}, on {options.dataset}", f"{DISSERTATION}{table}"

    def make(rows: Sequence[FairRow]) -> FairTable:
        return FairTable(title, name, rows, options, chapter=5)

    rows = _ROWS[table]
    if table == "3.6":
        return GeneralizationGapTable(title, name, rows, options, _MODELS)
    return FinalSamplingTable(make, rows, _ADAPTED) if table == "5.1" else make(rows)
