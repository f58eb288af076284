"""Studies on one split: configurations and seeds in one table with intervals.

Units are those of the fair protocol's first fold (a data set with a validation set of its own, such as the collages,
trains on all its training classes there), so that a study and `fair_eval` share their run directories.
"""

from __future__ import annotations

import pathlib

import numpy as np

from common.data import Dataset
from common.files import write_text
from experiments import reports
from experiments.protocols.fair import FairProtocol
from experiments.reports.collect import UnitRun, check_same_queries
from experiments.runs.unit import evaluate_embeddings, per_query_scores
from experiments.settings.config import ExperimentConfig
from experiments.settings.places import Places


def trained_units(
    dataset: Dataset,
    configs: list[ExperimentConfig],
    places: Places,
    *,
    repeats: int,
    checkpoint_seconds: float = 30.0,
    report_only: bool = False,
) -> list[list[UnitRun]]:
    """Train the missing units; return each configuration's finished ones, one per repeat.

    Args:
        dataset: as loaded.
        configs: all on this data set.
        places: see `UnitRuns`.
        repeats: runs of each configuration, with different seeds.
        checkpoint_seconds: shortest time between two checkpoints.
        report_only: train nothing.
    """
    protocol = FairProtocol(dataset, configs, places, repeats=repeats)
    if not report_only:
        protocol.run(fold=0, checkpoint_seconds=checkpoint_seconds)
    units = []
    for config in configs:
        finished = reports.collect_method(protocol.runs.method_dir(config)).finished
        units.append([finished[0, repeat] for repeat in range(repeats) if (0, repeat) in finished])
    return units


class SplitScores:
    """Test scores of one configuration's units, class by class.

    Args:
        units: finished, of one or more folds and repeats, at least one.

    Raises:
        InvalidInput: test embeddings are missing or damaged, or of other queries than the others'.
    """

    def __init__(self, units: list[UnitRun]):
        embeddings = [unit.test_embeddings() for unit in units]
        results = [evaluate_embeddings(arrays) for arrays in embeddings]
        labels = [arrays["query_labels"][result.query_rows] for arrays, result in zip(embeddings, results)]
        check_same_queries(units, labels)
        self.units, self.labels = units, labels[0]
        per_query = [per_query_scores(result) for result in results]
        self.scores = {
            metric: reports.ClassScores.from_queries(np.stack([scores[metric] for scores in per_query]), self.labels)
            for metric in per_query[0]
        }
        self.members = reports.training_members([(unit.fold, unit.repeat) for unit in units])

    def estimate(self, metric: str) -> reports.Interval:
        """Average over queries and seeds; the interval covers new classes and runs."""
        return reports.class_clustered_interval(self.scores[metric], members=self.members)

    def difference(self, reference: SplitScores, metric: str) -> reports.Interval:
        """Estimate self - reference, paired by query and seed."""
        check_same_queries([reference.units[0], self.units[0]], [reference.labels, self.labels])
        return reports.paired_difference(self.scores[metric], reference.scores[metric], members=self.members)


def cell(figure: reports.Interval | float, *, is_difference: bool = False, baseline: str = "") -> reports.TableCell:
    """Make a table's cell of an interval or plain number, both fractions.

    Args:
        figure: the interval, or the number.
        is_difference: of two methods, see `reports.TableCell`.
        baseline: of a difference, the label of the row that was subtracted.
    """
    if isinstance(figure, reports.Interval):
        estimate = reports.FairEstimate(figure.estimate, interval=figure)
        return reports.TableCell(estimate, is_difference=is_difference, baseline=baseline)
    return reports.TableCell(reports.FairEstimate(float(figure)))


def write_tables(rows: list[reports.TableRow], folder: pathlib.Path, name: str, title: str, notes=()) -> str:
    """Write `<name>.md` and `<name>.csv` with notes; return the terminal's text."""
    renderings = {f"{name}.md": reports.render_markdown(rows, title, notes), f"{name}.csv": reports.render_csv(rows)}
    for file_name, text in renderings.items():
        write_text(folder / file_name, text)
    return reports.render_text(rows, title, notes)
