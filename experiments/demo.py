"""Demo: search among emoji, by a loss alone, with memory and with CCP.

Regenerates: no table of the thesis; its claims on the memory and CCP, small. The whole network is fine-tuned on half of
    the emoji in the package, and the other half is searched.
Command: python -m experiments.demo (a second one only reports; --norun trains nothing; --loss=c2 has another loss)
Expected: MAP@R 24 untrained, more with the loss, most with CCP; a page and a picture of the results.
Cost: 7 minutes on 2 CPU cores with AVX-512, up to 19 with AVX2; a second call 15 seconds.
"""

from __future__ import annotations

import os
import pathlib
import sys

from absl import flags

from experiments.plans.study_command import define_study_flags, run_study
from experiments.settings import flags as experiment_flags
from experiments.studies.demo import DATASET, Demo

_STUDY = "demo"


def main() -> None:
    """Train the missing runs, then write the table, the page and the picture."""
    run_study(flags.FLAGS, "table", {_STUDY: Demo}, {}, {})
    python = pathlib.Path(sys.executable)
    typed = os.path.relpath(python) if python.is_relative_to(pathlib.Path.cwd()) else python.name
    print(f"Next: {typed} -m photo_search.search index --images=YOUR_PHOTOS --index=photo_index")


if __name__ == "__main__":
    define_study_flags([_STUDY])
    for name, default in {"id": _STUDY, "run": True, "dataset": DATASET, "budget": "demo"}.items():
        flags.FLAGS.set_default(name, default)
    experiment_flags.run_command(main)
