"""Zoo: small embedders that this project trains, to make and to install.

Regenerates: no table; files with card and digest.
Command: python -m experiments.zoo                      (lists the zoo)
    python -m experiments.zoo make emoji                (trains zoo/emoji/emoji.keras; resumes)
    python -m experiments.zoo make caltech101 --data_dir=caltech101
    python -m experiments.zoo install zoo/emoji/emoji.keras    (then: dml search index --model=zoo:emoji ...)
Expected: files of less than 10 MB; emoji: see docs/deploy.md.
Cost: 300 steps each; 3 minutes for emoji on 2 shared cores. List and installation take seconds.
"""

from __future__ import annotations

from absl import flags

from common.errors import check_choice, invalid
from common.progress import write_notice
from experiments.deployment import zoo
from experiments.preparation.machine import device_line
from experiments.settings import flags as experiment_flags


def main(action: str = "list", *names: str) -> None:
    """List the zoo, or make or install one of its models."""
    check_choice("action", action, ("list", "make", "install"))
    if len(names) != (action != "list"):
        expected = "nothing behind it" if action == "list" else f"one {'name' if action == 'make' else 'file'}"
        raise invalid(f"zoo {action}", received=" ".join(names) or "nothing", expected=expected)
    values = flags.FLAGS
    if action != "make":
        read_by_make = (*experiment_flags.PLACE_FLAGS, *experiment_flags.UNIT_FLAGS, "output")
        experiment_flags.refuse_flags(values, *read_by_make, because=f"{action} trains nothing")
    if action == "list":
        print(zoo.listing())
    elif action == "install":
        print(f"Installed: {zoo.install(names[0])}")
    else:
        write_notice(device_line())
        print(zoo.make(names[0], experiment_flags.places_from(values), values.output, values.checkpoint_seconds))


if __name__ == "__main__":
    flags.DEFINE_string("output", "zoo", "make: folder for the model's own folder.")
    experiment_flags.define(*experiment_flags.PLACE_FLAGS, *experiment_flags.UNIT_FLAGS)
    experiment_flags.run_command(main, takes_words=True)
