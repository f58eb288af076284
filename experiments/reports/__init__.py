"""What was measured, beside what is printed: collecting runs, statistics, verdicts, tables and figures."""

from experiments.reports.bars import interval_bars
from experiments.reports.class_scores import ClassScores
from experiments.reports.collect import MethodRuns, UnitRun, collect, collect_method, same_trainings
from experiments.reports.conventional_values import conventional_conditions, conventional_published, is_quoted
from experiments.reports.figures import Curve, mean_curve, validation_curves
from experiments.reports.intervals import Interval
from experiments.reports.plain_tables import PlainTable
from experiments.reports.published_values import (
    TABLES,
    PublishedValue,
    fair_published,
    published_dataset,
    published_table,
    published_value,
)
from experiments.reports.statistics import (
    FairEstimate,
    class_clustered_bootstrap,
    collection_members,
    collections,
    fair_estimates,
    paired_difference,
    single_model_members,
)
from experiments.reports.tables import (
    CellText,
    TableCell,
    TableRow,
    cell_text,
    footnotes,
    render_csv,
    render_latex,
    render_markdown,
    render_text,
)
from experiments.reports.verdicts import (
    FAIR_CONDITIONS,
    difference,
    fair_conditions,
    gain_verdict,
    incomparable_reasons,
    verdict,
)

__all__ = [
    "FAIR_CONDITIONS",
    "TABLES",
    "CellText",
    "ClassScores",
    "Curve",
    "FairEstimate",
    "Interval",
    "MethodRuns",
    "PlainTable",
    "PublishedValue",
    "TableCell",
    "TableRow",
    "UnitRun",
    "cell_text",
    "class_clustered_bootstrap",
    "collect",
    "collect_method",
    "collection_members",
    "collections",
    "conventional_conditions",
    "conventional_published",
    "difference",
    "fair_conditions",
    "fair_estimates",
    "fair_published",
    "footnotes",
    "gain_verdict",
    "incomparable_reasons",
    "interval_bars",
    "is_quoted",
    "mean_curve",
    "paired_difference",
    "published_dataset",
    "published_table",
    "published_value",
    "render_csv",
    "render_latex",
    "render_markdown",
    "render_text",
    "same_trainings",
    "single_model_members",
    "validation_curves",
    "verdict",
]
