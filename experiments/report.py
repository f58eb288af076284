"""Static pages on runs: tables, curves, retrieved images, attention, maps.

Regenerates: nothing of the thesis; shows results of `fair_eval`, `conventional_eval` and studies.
Command: python -m experiments.report --runs=runs --output=report
Expected: `index.html`, which any browser opens from disk; no page loads external content.
Cost: seconds per method on 2 CPU cores (GSP's attention needs the model); a second call redoes only what changed.

Pictures need the data set (`--data_dir` unless it is embedded); without it, classes are shown by number. The page lists
a study's missing or unreadable parts.
"""

from __future__ import annotations

import pathlib

from absl import flags

from common.errors import InvalidInput
from common.files import check_output_folder
from experiments.runs.trained_model import DataFolder
from experiments.settings import flags as experiment_flags
from experiments.site.report_folder import DrawingOptions, write_report


def main() -> None:
    """Write the report and print its path."""
    values = flags.FLAGS
    if not values.runs:
        raise InvalidInput("Missing --runs: expected the folder that --runs_dir named, such as runs.")
    runs_dir = pathlib.Path(values.runs)
    options = DrawingOptions(values.num_queries, values.num_neighbors, values.num_images, values.num_prototypes)
    output = pathlib.Path(values.output) if values.output else runs_dir / "report"
    check_output_folder("--output", str(output))
    print(write_report(runs_dir, output, DataFolder(values.data_dir, values.cache_dir), options))


if __name__ == "__main__":
    defaults = DrawingOptions()
    experiment_flags.define_plugin_flag()
    flags.DEFINE_string("runs", None, "Folder of runs, as --runs_dir of the commands that made them.")
    flags.DEFINE_string("output", None, "Folder for the pages (default: `report` in the folder of runs).")
    experiment_flags.define("data_dir", "cache_dir")
    flags.DEFINE_integer("num_queries", defaults.num_queries, "Queries, each of another class.", lower_bound=1)
    flags.DEFINE_integer("num_neighbors", defaults.num_neighbors, "Neighbours of each.", lower_bound=1)
    flags.DEFINE_integer("num_images", defaults.num_images, "Images that attention is laid over.", lower_bound=1)
    flags.DEFINE_integer("num_prototypes", defaults.num_prototypes, "Prototypes drawn: the most used.", lower_bound=0)
    experiment_flags.run_command(main)
