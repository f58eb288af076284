"""Rebuild of the documents' tables and pictures from rows in `results/`, or a check.

Regenerates: blocks `<!-- results: ... -->` and values `<!-- value: ... -->` of README.md, docs, experiments/README.md,
    benchmarks and the packages' READMEs; pictures of docs/figures that are drawn from rows.
Command: python -m tools.documents; with `--check` nothing is changed, and exit code 2 says that files differ.
Expected: no change, unless rows were recorded since (`--record` of commands that train, `experiments.record`).
Cost: seconds on 2 CPU cores.
"""

from __future__ import annotations

import pathlib

from absl import flags

from common.errors import invalid
from experiments.settings import flags as experiment_flags
from tools.documents.rebuilding import DOCUMENTS, Repository, check


def main() -> None:
    """Check the documents, or rebuild them and list changes."""
    values = flags.FLAGS
    root = pathlib.Path(values.root) if values.root else pathlib.Path(__file__).resolve().parents[2]
    if not (root / DOCUMENTS[0]).exists():
        raise invalid("--root", received=str(root), expected="the folder of a checkout of this repository")
    if values.check:
        check(root)
        print("Documents and pictures are what their rows say.")
        return
    changed = Repository(root).rebuild()
    print("\n".join([*(f"rebuilt: {name}" for name in changed), f"{len(changed)} files changed."]))
    check(root)


if __name__ == "__main__":
    flags.DEFINE_boolean("check", False, "Change nothing; exit code 2 where a document differs from its rows.")
    flags.DEFINE_string("root", None, "Folder of the checkout (default: that of this code).")
    experiment_flags.run_command(main, kept="")
