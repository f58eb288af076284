"""The figures by `--id`, and the defaults of their flags."""

from __future__ import annotations

import functools

from experiments.plans.study import Studies
from experiments.settings.run_settings import THESIS
from experiments.studies.bars import FixedProxies, poolings
from experiments.studies.collages import Collages
from experiments.studies.dissertation_figures import dissertation_figures
from experiments.studies.fair_tables import ccp_summary, gsp_table
from experiments.studies.finished_runs import correlate_diagnostics, draw_attention
from experiments.studies.geometry_of_problems import GeometryOfProblems
from experiments.studies.lambda_and_proxies import LambdaAndProxies
from experiments.studies.mnist import run_mnist
from experiments.studies.prototype_combination import prototypes_in_the_plane
from experiments.studies.sweeps import (
    CONDITIONS,
    batch_size,
    effect_against,
    pool_size,
    prototypes,
    switch_probability,
    transport_ratio,
)
from experiments.studies.token_selection import token_selection
from experiments.studies.toy_transport import ToyTransport
from experiments.studies.transport_time import TransportTime
from experiments.studies.zero_shot_prediction import zero_shot_sides

FIGURES: Studies = {
    "3.3": GeometryOfProblems,
    "3.4": ccp_summary,
    "3.5": LambdaAndProxies,
    "3.6": pool_size,
    "3.7": FixedProxies,
    "3.8": batch_size,
    **{figure: functools.partial(prototypes_in_the_plane, figure) for figure in ("4.2", "4.3", "4.4")},
    "5.2": ToyTransport,
    "5.4": token_selection,
    "5.5": Collages,
    "5.6": zero_shot_sides,
    "5.7": functools.partial(gsp_table, item="figure 5.7"),
    "5.8": transport_ratio,
    "5.9": TransportTime,
    **{figure: functools.partial(prototypes, figure) for figure in ("5.10", "5.11")},
    "5.12": poolings,
    **dissertation_figures(),
    "milbich_2.8": switch_probability,
    **{condition: functools.partial(effect_against, condition) for condition in CONDITIONS},
}
# Figures that are no list of cells.
OWN_FIGURES = {"3.2": run_mnist, "attention": draw_attention, "milbich_2.4": correlate_diagnostics}
# Of flags, where a figure has its own.
DEFAULTS: dict[str, dict[str, object]] = {
    "5.4": {"dataset": "synthetic_tokens"},
    "5.5": {"dataset": "glyph_collage", "repeats": 3},
    **dict.fromkeys(CONDITIONS, {"dataset": "emoji", "recipe": THESIS}),
}
# Thesis section 5.3.4.1; chapter 3 trains once.
FULL_REPEATS = {"5.7": 3, "5.8": 3, "5.10": 3, "5.11": 3, **dict.fromkeys((*dissertation_figures(), "milbich_2.8"), 3)}
