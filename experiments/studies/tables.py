"""The tables by `--id`, and the defaults of their flags."""

from __future__ import annotations

import functools

from experiments.plans.study import Studies
from experiments.settings.run_settings import THESIS
from experiments.studies.arms import Arms
from experiments.studies.conventional_table import ConventionalTable
from experiments.studies.dissertation_tables import dissertation_tables
from experiments.studies.fair_tables import ccp_table, gsp_parts, gsp_table, loss_benchmark
from experiments.studies.planned import all_losses, planned_comparisons
from experiments.studies.screening import Screening
from experiments.studies.training_steps import TrainingSteps

CLAIMS_ID = "claims"  # of recorded studies, beside the tables
TABLES: Studies = {
    "3.1": ccp_table,
    **{table: functools.partial(ConventionalTable, table) for table in ("3.2a", "3.2b")},
    "3.3": TrainingSteps,
    "5.1": gsp_table,
    **{table: functools.partial(ConventionalTable, table) for table in ("5.2a", "5.2b")},
    "5.3": gsp_parts,
    "5.4": Screening,
    "losses": loss_benchmark,
    "all_losses": all_losses,
    "planned": planned_comparisons,
    "arms": Arms,
    **dissertation_tables(),
}
DEFAULTS: dict[str, dict[str, object]] = {  # of flags: the best of three; a plan's recipe, also on photos of one's own
    **{table: {"repeats": 3} for table in ("3.2a", "3.2b", "5.2a", "5.2b")},
    **dict.fromkeys(("all_losses", "arms", "planned"), {"recipe": THESIS}),
}
# Thesis section 5.3.4.1; chapter 3 trains once.
FULL_REPEATS = {"5.1": 3, "5.3": 3, "5.4": 3, **dict.fromkeys(dissertation_tables(), 3)}
