"""Rebuild of the documents' tables and pictures from rows in docs/results/rows, or a check.

Regenerates: tables between `<!-- [[[cog show(...) ]]] -->` and `<!-- [[[end]]] -->` of README.md, docs, benchmarks,
    experiments/README.md and the packages' READMEs, by cog; pictures of docs/figures that are drawn from rows.
Command: python -m tools.documents; with `--check` nothing is changed, and exit code 2 says that files differ.
Expected: no change, unless rows were recorded since (`--record` of commands that train, `experiments.record`).
Cost: seconds on 2 CPU cores.
"""

from __future__ import annotations

import argparse
import pathlib
import sys

from cogapp import Cog

from tools.documents.pictures import PICTURES, differing, draw

DOCUMENTS = (
    *("README.md", "docs/*.md", "docs/results/*.md", "experiments/README.md", "benchmarks/*.md"),
    *("gsp_dml/README.md", "ccp_dml/README.md", "milbich_dml/README.md"),
)


def main(arguments: list[str] | None = None) -> int:
    """Check the documents of the current folder, or rebuild them; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tools.documents", description="Documents from recorded rows.")
    parser.add_argument("--check", action="store_true", help="Change nothing; exit code 2 if a file differs.")
    is_check = parser.parse_args(arguments).check
    documents = [str(path) for pattern in DOCUMENTS for path in sorted(pathlib.Path().glob(pattern))]
    options = ["--check", "--diff", "--check-fail-msg=Run `python -m tools.documents`."] if is_check else ["-r"]
    prologue = "from tools.documents.tables import *"
    is_wrong = Cog().main(["cog", *options, "-P", "-U", "--verbosity=1", "-p", prologue, *documents]) != 0
    for name in filter(differing, PICTURES):
        if is_check:
            print(f"{name} was not drawn from the rows of {PICTURES[name].study} as they are.")
            is_wrong = True
        else:
            draw(name)
            print(f"drawn: {name}")
    if is_check and not is_wrong:
        print("Documents and pictures are what their rows say.")
    return 2 if is_wrong else 0


if __name__ == "__main__":
    sys.exit(main())
