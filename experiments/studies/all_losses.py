"""Every loss of this library after short fine-tuning, with equally many trials.

Regenerates: nothing printed. Each loss by name, and variants and regularisers that are flags, beside C2; exploratory.
    The plan, docs/results/plan.md, was written before the first run.
Command: python -m experiments.table --id=all_losses --dataset=emoji --run
Expected: Musgrave, Belongie and Lim (A Metric Learning Reality Check, ECCV 2020): tuned alike, losses differ little.
Cost: 264 runs of 200 steps on each data set, 45 s on 2 CPU cores, 3.3 hours; `--loss=c2` 32 of them;
    `--budget=smoke` minutes.

Losses without a row need more than a flag, or are not losses of a batch's classes:

- The memory and CCP store embeddings or train proxies beside a loss: `--id=planned`.
- Miners choose a loss's tuples: `--id=losses`.
- Several features (heads, shared, DiVA's tasks, decorrelation, group labels, permuted labels) need further heads, views
  or momentum networks: `--id=milbich_4.2`.
- Matryoshka repeats a loss at shorter lengths; zero-shot prediction needs GSP (table 5.3).
"""

from __future__ import annotations

from collections.abc import Iterator

from experiments.plans.fair_table import FairRow
from experiments.plans.study import StudyOptions
from experiments.settings.method_names import LOSSES, PROXY_LOSSES
from experiments.settings.thesis_values import LOSSES_OF
from experiments.studies.planned import PACES, RATES, planned_settings
from experiments.studies.tuned_table import TunedRow, TunedTable

BASELINE = "c2+gap"
_OF_EMOJI = {  # on every data set; what all losses share is in `planned_settings`
    "triplet": LOSSES_OF["emoji"]["triplet"],
    "softtriple": LOSSES_OF["emoji"]["softtriple"],
    "histogram": {"histogram_nodes": 11},
}
_VARIANTS: dict[str, dict[str, dict[str, object]]] = {  # loss -> name of the variant -> its settings
    "triplet": {"squared distances": {"triplet_squared": True}},
    "pnca": {"negatives alone": {"pnca_denominator": "negatives"}},
    "arcface": {"three centers": {"arcface_centers": 3}},
    "c2": {
        "KoLeo": {"koleo_weight": 0.1},
        "coding rate": {"coding_rate_weight": 0.01},
        "TCM": {"tcm_weight": 1.0},
    },
}


def all_losses(options: StudyOptions) -> TunedTable:
    """Return the study."""
    steps = {} if options.budget == "smoke" else {"max_steps": 200}
    settings = {**planned_settings(options), **steps}
    return TunedTable(f"All losses on {options.dataset}, whole network", [*_rows()], options, settings)


def _rows() -> Iterator[TunedRow]:
    for loss in LOSSES:
        trials, method = PACES if loss in PROXY_LOSSES else RATES, f"{loss}+gap"
        for variant, settings in {"": {}, **_VARIANTS.get(loss, {})}.items():
            baseline = None if (method, variant) == (BASELINE, "") else BASELINE
            settings = {**_OF_EMOJI.get(loss, {}), **settings}
            yield TunedRow(FairRow(method, None, baseline, settings, variant), trials)
