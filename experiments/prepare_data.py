"""Preparation of a data set: download, extract, check, make small copies.

Regenerates: no table; makes the `--data_dir` of all other commands.
Command: python -m experiments.prepare_data --dataset=cub200 --data_dir=data
Expected: "counts: as officially published", and no unreadable image.
Cost: the download; then about 5 minutes on 2 CPU cores for CUB, 40 for SOP (estimated). `--check` only inspects.
"""

from __future__ import annotations

from absl import flags

from common.commands import command_line
from common.data import COPIES
from common.downloads import check_mirror
from common.errors import check_choice, check_non_negative
from common.files import default_cache_dir
from experiments.parts.datasets import traits_of
from experiments.preparation.data_sets import LOADERS, check, prepare
from experiments.settings import flags as experiment_flags


def main() -> None:
    """Prepare the data set, or only report on it."""
    values = flags.FLAGS
    check_choice("--dataset", values.dataset, LOADERS)
    check_non_negative("--shorter_side", values.shorter_side)
    check_mirror(values.mirror)
    if values.copies is not None:
        check_choice("--copies", values.copies, COPIES)
    if "exclude" not in traits_of(values.dataset).takes:
        experiment_flags.refuse_flags(values, "exclude", because=f"{values.dataset} is no folder of photos")
    cache_dir = values.cache_dir or default_cache_dir()
    if values.check:
        experiment_flags.refuse_flags(values, "copies", because="--check makes no copies")
        check(values.dataset, values.data_dir, cache_dir, values.exclude)
    else:
        prepare(
            values.dataset,
            values.data_dir,
            cache_dir,
            mirror=values.mirror,
            shorter_side=values.shorter_side,
            copies=values.copies,
            exclude=values.exclude,
        )


if __name__ == "__main__":
    flags.DEFINE_string("dataset", None, f"Data set: one of {', '.join(LOADERS)}.", required=True)
    flags.DEFINE_string("data_dir", "data", "Folder of all data (or, for folder and manifest, of this one).")
    experiment_flags.define("cache_dir")
    command_line.define_exclude()
    flags.DEFINE_string("mirror", None, "Address of a folder with the published files, asked before all others.")
    flags.DEFINE_integer("shorter_side", 256, "Pixels of the shorter side of the prepared copies; 0: make none.")
    flags.DEFINE_string("copies", None, "exact (default), or compressed, which runs with --copies=compressed read.")
    flags.DEFINE_boolean("check", False, "Fetch, change and write nothing; report on what is there.")
    experiment_flags.run_command(main, kept="What was fetched is kept; run the same command to resume.")
