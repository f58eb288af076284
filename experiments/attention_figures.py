"""Attention maps of a trained model over images, in total and per prototype.

Regenerates: the attention maps of thesis figures 5.5 and 5.6.
Command: python -m experiments.attention_figures --run=runs/fair/cars196/pnca+gsp-0123456789/fold0-repeat0
Expected: weight on the target's tile of collages (thesis figure 5.5); no figure is printed.
Cost: seconds on a CPU, after the run itself.
"""

from __future__ import annotations

import pathlib

from absl import flags

from common.errors import InvalidInput, check_positive
from experiments.protocols.attention import attention_of, attention_panels
from experiments.runs.pooling_weights import has_weights
from experiments.runs.trained_model import load_trained_model
from experiments.settings import flags as experiment_flags


def main() -> None:
    """Draw the figure of one run and print its path."""
    values = flags.FLAGS
    num_images = int(check_positive("--num_images", values.num_images))
    trained = load_trained_model(values.run, data_dir=values.data_dir, cache_dir=values.cache_dir)
    if trained.config.backbone == "token_embedding" or not has_weights(trained.model.head.pooling):
        raise InvalidInput(f"--run: {trained.config.pooling} on {trained.config.dataset} has no attention over images.")
    attentions = attention_of(trained, num_images, values.num_prototypes)
    path = pathlib.Path(values.run) / "attention.png"
    attention_panels(attentions, path, title=f"{trained.config.name} on {trained.config.dataset}")
    print(f"Attention of {len(attentions)} test images: {path}")


if __name__ == "__main__":
    experiment_flags.define_plugin_flag()
    flags.DEFINE_string("run", None, "A finished run's directory.", required=True)
    flags.DEFINE_integer("num_images", 8, "Test images to draw, each of another class.")
    flags.DEFINE_integer("num_prototypes", 6, "Prototypes to draw: the most used ones.", lower_bound=0)
    experiment_flags.define("data_dir", "cache_dir")
    experiment_flags.run_command(main)
