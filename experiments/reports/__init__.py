"""Comparison of measured and published figures: collection, statistics, verdicts, tables, plots."""

from typing import TYPE_CHECKING

from common.lazy_names import import_when_used

if TYPE_CHECKING:
    from experiments.published.conditions import (
        FAIR_CONDITIONS,
        conditions_of,
        deviation_sentence,
        fair_conditions,
        incomparable_reasons,
    )
    from experiments.published.conventional import conventional_conditions, conventional_published, is_quoted
    from experiments.published.values import (
        TABLES,
        PublishedValue,
        fair_published,
        published_dataset,
        published_table,
        published_value,
    )
    from experiments.reports.bars import interval_bars
    from experiments.reports.class_scores import ClassScores
    from experiments.reports.collect import MethodRuns, UnitRun, collect, collect_method, same_trainings
    from experiments.reports.comparisons import Comparison, compare, holm
    from experiments.reports.figures import Curve, mean_curve, validation_curves
    from experiments.reports.intervals import Interval
    from experiments.reports.plain_tables import PlainTable
    from experiments.reports.statistics import (
        FairEstimate,
        class_clustered_interval,
        collection_members,
        collections,
        fair_estimates,
        paired_difference,
        single_model_members,
        training_members,
    )
    from experiments.reports.table_cells import TableCell, TableRow, compared
    from experiments.reports.tables import (
        CellText,
        cell_text,
        footnotes,
        render_csv,
        render_latex,
        render_markdown,
        render_text,
    )
    from experiments.reports.verdicts import (
        TOLERANCE,
        Target,
        Verdict,
        error_of_collections,
        error_of_mean,
        gain_verdict,
        half_effect,
        judge,
        published_difference,
    )

__all__ = [
    "FAIR_CONDITIONS",
    "TABLES",
    "TOLERANCE",
    "CellText",
    "ClassScores",
    "Comparison",
    "Curve",
    "FairEstimate",
    "Interval",
    "MethodRuns",
    "PlainTable",
    "PublishedValue",
    "TableCell",
    "TableRow",
    "Target",
    "UnitRun",
    "Verdict",
    "cell_text",
    "class_clustered_interval",
    "collect",
    "collect_method",
    "collection_members",
    "collections",
    "compare",
    "compared",
    "conventional_conditions",
    "conventional_published",
    "error_of_collections",
    "error_of_mean",
    "deviation_sentence",
    "conditions_of",
    "fair_conditions",
    "fair_estimates",
    "fair_published",
    "footnotes",
    "gain_verdict",
    "half_effect",
    "holm",
    "incomparable_reasons",
    "interval_bars",
    "is_quoted",
    "judge",
    "mean_curve",
    "paired_difference",
    "published_dataset",
    "published_difference",
    "published_table",
    "published_value",
    "render_csv",
    "render_latex",
    "render_markdown",
    "render_text",
    "same_trainings",
    "single_model_members",
    "training_members",
    "validation_curves",
]
import_when_used(__name__)
