"""Comparison of measured and published figures: collection, statistics, verdicts, tables, plots."""

from typing import TYPE_CHECKING

from common.lazy_names import import_when_used

if TYPE_CHECKING:
    from experiments.published.conditions import conditions_of, deviation_sentence, incomparable_reasons
    from experiments.published.values import PublishedValue, published_dataset, published_table, published_value
    from experiments.reports.intervals import Interval
    from experiments.reports.plain_tables import Table
    from experiments.reports.plots import Curve, class_gains, interval_bars, mean_curve, validation_curves
    from experiments.reports.statistics import (
        ClassScores,
        class_clustered_interval,
        collections,
        paired_difference,
        single_model_members,
    )
    from experiments.reports.tables import TableCell, TableRow, compared, footnotes
    from experiments.reports.verdicts import (
        CLAIM_RULE,
        SetSummary,
        Target,
        claim_verdict,
        error_of_collections,
        gain_verdict,
        judge,
        summary_over_sets,
    )

import_when_used(__name__)
