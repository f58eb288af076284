"""Two runs or configurations beside each other: figures, settings, queries.

Regenerates: nothing of the thesis.
Command: python -m experiments.compare runs/fair/emoji/ms+gap-0123456789 runs/fair/emoji/ms+ccp+gap-0123456789
    (or `docs/results/rows/planned_emoji#LABEL` of recorded rows, or the folders of two single runs)
Expected: tables of what differs; with --output also `comparison.md`, `curves.png` and `queries.csv`.
Cost: seconds; recorded rows have no queries.
"""

from __future__ import annotations

import contextlib
import pathlib

from absl import flags

from common.errors import InvalidInput, invalid
from common.files import check_output_folder
from experiments.protocols import run_pairs
from experiments.runs.trained_model import DataFolder
from experiments.settings import flags as experiment_flags


def main(*places: str) -> None:
    """Compare the runs of two places, with the folds and repeats that both have."""
    values = flags.FLAGS
    if len(places) != 2:
        raise invalid("places", received=" ".join(places) or "none", expected="two: of the first and the second runs")
    if values.output:
        check_output_folder("--output", values.output)
    first, second = run_pairs.paired(*map(run_pairs.runs_of, places))
    names = [first[0]["label"], second[0]["label"]]
    if names[0] == names[1]:
        names = ["first", "second"]
    tables = [
        run_pairs.settings_table(first[0], second[0], names),
        run_pairs.figures_table(first, second, names),
        run_pairs.classes_table(first, second, names),
    ]
    if all(row.folder.name for row in (*first, *second)):  # recorded rows have no embeddings
        test = None
        with contextlib.suppress(InvalidInput):  # without data, queries have numbers
            test = DataFolder(values.data_dir, values.cache_dir).dataset_of(first[0]).test
        tables.append(run_pairs.queries_table(first, second, names, test))
    print("\n".join(table.as_text() for table in tables))
    if values.output:
        run_pairs.write_pair(first, second, names, tables, pathlib.Path(values.output))


if __name__ == "__main__":
    experiment_flags.define_plugin_flag()
    flags.DEFINE_string("output", None, "Folder for comparison.md, curves.png and queries.csv.")
    experiment_flags.define("data_dir", "cache_dir")
    experiment_flags.run_command(main, kept="", takes_words=True)
