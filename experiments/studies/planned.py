"""Planned comparisons: the memory, CCP and GSP when the whole network is fine-tuned.

Regenerates: nothing printed: the thesis' claims of tables 3.1 and 5.1 and figure 3.7, small enough for a CPU. The plan,
    docs/results/plan.md, was written before the first run.
Expected: the signs of the thesis; docs/results/claims.md says how they are judged.
    Emoji with EfficientNet-lite0 choose the settings. Another `--dataset` or `--backbone` at the full budget reads
    them from docs/results/rows/planned_emoji: 64 runs.

Every loss of this library after short fine-tuning, with equally many trials.

Regenerates: nothing printed. Each loss by name, and variants and regularisers that are flags, beside C2; exploratory.
    The plan, docs/results/plan.md, was written before the first run.
Expected: Musgrave, Belongie and Lim (A Metric Learning Reality Check, ECCV 2020): tuned alike, losses differ little.

Losses without a row need more than a flag, or are not losses of a batch's classes:

- The memory and CCP store embeddings or train proxies beside a loss: `--id=planned`.
- Miners choose a loss's tuples: `--id=losses`.
- Several features (heads, shared, DiVA's tasks, decorrelation, group labels, permuted labels) need further heads, views
  or momentum networks: `--id=milbich_4.2`.
- HIER, a regulariser with proxies and eight settings, came after the plan.
- Matryoshka repeats a loss at shorter lengths; zero-shot prediction needs GSP (table 5.3).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np

from experiments.parts.library import EMOJI_CLUTTER
from experiments.plans.fair_table import FairRow, choose_rows
from experiments.plans.study import StudyOptions
from experiments.recipes.small_images import EMOJI, EMOJI_CCP
from experiments.recipes.thesis import loss_values
from experiments.reports import Table
from experiments.reports.scores import rows_with, scores_of_trainings
from experiments.reports.tables import cell
from experiments.rows.store import RECORDED, StudyRows
from experiments.settings.method_names import LOSSES, PROXY_LOSSES
from experiments.studies.tuned_table import TunedRow, TunedTable, recorded_trials


class Claim(NamedTuple):
    """A planned comparison: test MAP@R of a row's method minus that of its baseline."""

    text: str
    method: str
    baseline: str
    alone: str | None = None  # the loss that trains before the addition begins; None: it begins with the training
    chapter: int | None = None  # of the thesis, whose tables print both; None for a comparison of ours
    is_alternation: bool = False  # needs runs of several problems

    @property
    def methods(self) -> tuple[str, str]:
        """The method and its baseline."""
        return self.method, self.baseline


_FIXED, _WIDE_NAME = "fixed members", "stride 16"
_WHITENED, _WITHOUT = "whitened head", "without L_ZS"
_C2_WHITENED = f"c2+gap, {_WHITENED}"
CLAIMS = (
    Claim("CCP with C1", "c1+ccp+gap", "c1+gap", "c1+gap", 3),
    Claim("CCP with C2", "c2+ccp+gap", "c2+gap", "c2+gap", 3),
    Claim("CCP with C2, whitened head", f"c2+ccp+gap, {_WHITENED}", _C2_WHITENED, _C2_WHITENED),
    Claim("CCP with multi-similarity", "ms+ccp+gap", "ms+gap", "ms+gap", 3),
    *(
        Claim(f"alternation with {name}", f"{loss}+ccp+gap", f"{loss}+ccp+gap, {_FIXED}", f"{loss}+gap", None, True)
        for name, loss in (("C2", "c2"), ("multi-similarity", "ms"))
    ),
    Claim("memory with C2", "c2+xbm+gap", "c2+gap", "c2+gap", 3),
    Claim("GSP with ProxyNCA", "pnca+gsp", f"pnca+gap, {_WIDE_NAME}", chapter=5),
    Claim("GSP with Proxy Anchor", "panchor+gsp", f"panchor+gap, {_WIDE_NAME}", chapter=5),
    Claim("GSP with multi-similarity", "ms+gsp", f"ms+gap, {_WIDE_NAME}", chapter=5),
    Claim("zero-shot prediction with GSP", "pnca+gsp", f"pnca+gsp, {_WITHOUT}"),
)
_WHERE = (
    "Means over runs, on test images. AUC: area under the ROC curve over the cells of an image, those of the object "
    "against the others; .5 by chance, as for the weight of average pooling. By chance the weight on the object is its "
    "share of the area."
)
_CHOICE, _CHOOSING_DATASET = f"{RECORDED}/planned_emoji", "emoji"
_CHOOSING_COMMAND = f"python -m experiments.table --id=planned --dataset={_CHOOSING_DATASET} --run --record={_CHOICE}"
_SCHEDULE = {"max_steps": 600, "steps_per_evaluation": 100, "fold_batch_norm": True}
_EVERYWHERE = {  # of the plan; the recipe has them for emoji
    "learning_rate": EMOJI["learning_rate"],
    "normalization": "unit",
    "samples_per_class": 4,
    "warm_up_epochs": 0,
    **loss_values("c2", "emoji"),
    **loss_values("ms", "emoji"),
    "xbm_batches": 32,
    "xbm_start": 50,
    "proxies_per_class": 4,
    **EMOJI_CCP,
}
RATES = [{"learning_rate": rate} for rate in (1e-4, 3e-4)]
_RATE = RATES[:1]  # the second was cut after C2 had lost by it: the plan's deviations
PACES = [{"proxy_multiplier": pace} for pace in (10.0, 100.0)]  # of proxies that begin at random
CCP = {"projection_patience": 1}
_ONE_PROBLEM = {**CCP, "ccp_max_problems": 1, "ccp_lambda": 0.0, "ccp_first_lambda": 0.0}
_MEMBERS = {**_ONE_PROBLEM, "proxies_per_class": 4, "pool_size": 4}  # k-center takes all of a pool
_RANDOM = {**_ONE_PROBLEM, "ccp_first_centers": "random"}
WIDE = {"output_stride": 16}
GSP = {**WIDE, "transport_ratio": 0.3, "smoothing": 5.0}


def planned_comparisons(options: StudyOptions) -> TunedTable:
    """Return the study; below the full budget, each data set tries by itself."""
    settings = planned_settings(options)
    backbone = str(EMOJI["backbone"])
    is_choosing = options.dataset == _CHOOSING_DATASET and options.overrides.get("backbone", backbone) == backbone
    rows = [*_rows(), *(_whitened_rows() if is_choosing else ()), *_rows_of_clutter(options.dataset)]
    recorded = None
    if options.budget == "full" and not is_choosing:
        labels = {row.label for row in choose_rows([tuned.row for tuned in rows], options.losses)}
        asked = [tuned for tuned in rows if tuned.row.label in labels]
        recorded = recorded_trials(StudyRows(_CHOICE), asked, _CHOOSING_DATASET, backbone, _CHOOSING_COMMAND)
    title = f"Planned comparisons on {options.dataset}, whole network"
    return TunedTable(title, rows, options, settings, recorded)


def planned_settings(options: StudyOptions) -> dict[str, object]:
    """Return the settings of every data set and method."""
    regime = ("backbone", "weights", "image_size", "classes_per_batch", "frozen_batch_norm")
    at_length = {"num_folds": 2} if options.budget == "smoke" else {**_SCHEDULE, **_EVERYWHERE}
    return {**{name: EMOJI[name] for name in regime}, **at_length}


def _rows() -> Iterator[TunedRow]:
    for loss, trials in (("c1", _RATE), ("c2", RATES), ("ms", _RATE)):
        yield TunedRow(FairRow(f"{loss}+gap"), trials)
    yield TunedRow(FairRow("c2+xbm+gap", baseline="c2+gap"), _RATE)
    for loss in ("c1", "c2", "ms"):
        yield TunedRow(FairRow(f"{loss}+ccp+gap", baseline=f"{loss}+gap", settings=CCP), _RATE)
    for loss in ("c2", "ms"):
        yield TunedRow(FairRow(f"{loss}+ccp+gap", None, f"{loss}+ccp+gap", _MEMBERS, _FIXED), _RATE)
    # No comparison: random unit vectors lie beyond C2's negative margin, so this control has no negative term.
    yield TunedRow(FairRow("c2+ccp+gap", None, None, _RANDOM, "random proxies"), PACES)
    for loss, trials in (("pnca", PACES), ("panchor", PACES), ("ms", _RATE)):
        average = FairRow(f"{loss}+gap", settings=WIDE, variant=_WIDE_NAME)
        yield TunedRow(average, trials)
        yield TunedRow(FairRow(f"{loss}+gsp", None, average.label, GSP), trials)


def _whitened_rows() -> Iterator[TunedRow]:
    start = {"head_start": "whitening"}
    alone = FairRow("c2+gap", settings=start, variant=_WHITENED)
    yield TunedRow(alone, _RATE)
    yield TunedRow(FairRow("c2+ccp+gap", None, alone.label, {**CCP, **start}, _WHITENED), _RATE)


def _rows_of_clutter(dataset: str) -> Iterator[TunedRow]:
    if dataset in EMOJI_CLUTTER:
        without = FairRow("pnca+gsp", None, "pnca+gsp", {**GSP, "zero_shot_weight": 0.0}, _WITHOUT)
        yield TunedRow(without, PACES, "pnca+gsp")


def where_weight_falls(study: StudyRows, title: str = "") -> Table:
    """Tabulate retrieval beside the pooling's weight on the object, of emoji on photographs."""
    found: dict[str, list[Mapping[str, float]]] = {}
    for row in rows_with(study, "target_shares", "conditions_clutter"):
        found.setdefault(row["label"], []).append(row["extras"]["target_shares"])
    lines = []
    for label, shares in found.items():
        mean = {name: np.mean([of[name] for of in shares]) for name in shares[0]}
        found_cell = cell(scores_of_trainings(study, label).estimate("MAP@R"))
        percent = [f"{100 * mean[name]:.1f}" for name in ("weight_on_target", "area_of_target")]
        areas = [f"{mean[name]:.3f}" for name in ("weight_auc", "norm_auc")]
        lines.append([label, f"{found_cell.figure} {found_cell.interval}", *areas, *percent])
    header = [
        "method",
        "MAP@R",
        "AUC of the weight",
        "AUC of weight x norm",
        "weight on the object (%)",
        "its area (%)",
    ]
    return Table(title, header, lines, [_WHERE])


BASELINE = "c2+gap"
_OF_EMOJI = {  # on every data set; what all losses share is in `planned_settings`
    "triplet": loss_values("triplet", "emoji"),
    "softtriple": loss_values("softtriple", "emoji"),
    "histogram": {"histogram_nodes": 11},
}
_VARIANTS: dict[str, dict[str, dict[str, object]]] = {  # loss -> name of the variant -> its settings
    "triplet": {"squared distances": {"triplet_squared": True}},
    "pnca": {"negatives alone": {"pnca_denominator": "negatives"}},
    "arcface": {"three centers": {"arcface_centers": 3}},
    "c2": {"KoLeo": {"koleo_weight": 0.1}, "coding rate": {"coding_rate_weight": 0.01}, "TCM": {"tcm_weight": 1.0}},
}


def all_losses(options: StudyOptions) -> TunedTable:
    """Return the study."""
    steps = {} if options.budget == "smoke" else {"max_steps": 200}
    settings = {**planned_settings(options), **steps}
    return TunedTable(f"All losses on {options.dataset}, whole network", [*_rows_of_losses()], options, settings)


def _rows_of_losses() -> Iterator[TunedRow]:
    for loss in LOSSES:
        trials, method = PACES if loss in PROXY_LOSSES else RATES, f"{loss}+gap"
        for variant, settings in {"": {}, **_VARIANTS.get(loss, {})}.items():
            baseline = None if (method, variant) == (BASELINE, "") else BASELINE
            settings = {**_OF_EMOJI.get(loss, {}), **settings}
            yield TunedRow(FairRow(method, None, baseline, settings, variant), trials)
