"""Recording of finished runs in a study, as `--record` of training does.

Regenerates: `docs/results/rows/<study>/rows.jsonl`, `class_scores.npz` and `pictures.npz`; `tools.documents`
    makes the documents' tables and pictures from them.
Command: python -m experiments.record --runs=runs/fair/glyphs --study=docs/results/rows/table_5_1
Expected: one row per finished run, and one per collection of concatenated models with all folds finished; a second
    call changes nothing.
Cost: seconds per run on 2 CPU cores.
"""

from __future__ import annotations

from absl import flags

from common.errors import InvalidInput
from experiments.protocols.recording import methods_under, record
from experiments.runs.trained_model import DataFolder
from experiments.settings import flags as experiment_flags


def main() -> None:
    """Record the finished runs in the folders and report those left out."""
    values = flags.FLAGS
    if not values.runs:
        raise InvalidInput("Missing --runs: expected folders of runs, such as runs/fair/glyphs.")
    if not values.study:
        raise InvalidInput("Missing --study: expected the folder of a study, such as docs/results/rows/table_5_1.")
    methods = [rows for folder in values.runs for rows in methods_under(folder)]
    if values.label and len(methods) > 1:
        raise InvalidInput(
            f"--label={values.label} is a name for one configuration, and --runs has {len(methods)}. Record one by one."
        )
    extras = {"held against": values.compared_with} if values.compared_with else {}
    said = record(
        (row.scored().named(values.label, extras) if row.is_finished else row for rows in methods for row in rows),
        values.study,
        DataFolder(values.data_dir, values.cache_dir),
        command=values.command_line,
        replace=values.replace,
    )
    print("\n".join(said))


if __name__ == "__main__":
    experiment_flags.define_plugin_flag()
    flags.DEFINE_list("runs", [], "Folders of runs: of one configuration, of a data set, or all.")
    flags.DEFINE_string("study", None, "Folder of the study, such as docs/results/rows/table_5_1.")
    flags.DEFINE_string("command_line", None, "The command that trained the runs, without places (default: not known).")
    flags.DEFINE_string("label", None, "What the configuration is called in tables (default: by its configuration).")
    flags.DEFINE_string("compared_with", None, "Label of the recorded configuration that tables compare it with.")
    experiment_flags.define("data_dir", "cache_dir", "replace")
    experiment_flags.run_command(main, kept="")
