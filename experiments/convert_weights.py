"""Conversion of a backbone's published parameters into a file for `--weights`.

Regenerates: no table; the ImageNet parameters that every photograph experiment of chapters 3 and 5 starts from.
Command: python -m experiments.convert_weights --backbone=bn_inception --output=bn_inception.npz
    (`--input=bn_inception-52deb4733.pth` reads a local file;
    `--mirror=https://...` names another server for the published file; its digest is checked)
Expected: features equal to PyTorch's to 1e-4 of the largest (tests/common/backbones). The file records the SHA-256
    of its source, so that runs state their initial weights and tables recognise published checkpoints.
Cost: seconds on a CPU. PyTorch is not needed, and no code in a file runs.
"""

from __future__ import annotations

import os

from absl import flags

from common import backbones
from common.downloads import check_mirror
from common.errors import InvalidInput, check_choice, check_given
from experiments.preparation import converted_weights as conversion
from experiments.settings import flags as experiment_flags

COUNTER = "num_batches_tracked"  # PyTorch's, of each batch normalisation


def main() -> None:
    """Fetch the checkpoint unless given, convert it, report unused names."""
    values = flags.FLAGS
    conversion.check_output(values.output)
    check_choice("--backbone", values.backbone, conversion.BACKBONES)
    check_mirror(values.mirror)
    if values.input and values.mirror:
        raise InvalidInput("--mirror would have no effect: --input is there already. Remove one of them.")
    source = values.input or conversion.fetch_checkpoint(values.backbone, os.path.dirname(values.output), values.mirror)
    result = conversion.convert(values.backbone, source, values.output, tuple(values.ignore))
    size = os.path.getsize(values.output) / 2**20
    print(f"{values.output}: {len(result.loaded)} parameters of {values.backbone}, {size:.1f} MiB.")
    left_over = [name for name in result.ignored if not name.endswith(COUNTER)]
    counters = len(result.ignored) - len(left_over)
    print(f"Left over ({len(left_over)}): {', '.join(left_over) or 'none'}")
    if counters:
        print(f"Not needed: {counters} counters of training steps ({COUNTER}).")
    record = check_given("record", backbones.read_record(values.output))
    print(f"Made from {conversion.describe_source(values.backbone, record.source_sha256)}.")


if __name__ == "__main__":
    flags.DEFINE_string("backbone", "bn_inception", f"Network: one of {', '.join(conversion.BACKBONES)}.")
    flags.DEFINE_string(
        "input", None, "Checkpoint (.pth, .safetensors, ...) or .npz file (default: the published one is fetched)."
    )
    flags.DEFINE_string("mirror", None, "Address of a folder with the published file, asked before all others.")
    flags.DEFINE_string("output", None, "The .npz file to write.", required=True)
    flags.DEFINE_list("ignore", [], "Beginnings of names in the file that are not the backbone's, such as a head.")
    experiment_flags.run_command(main)
