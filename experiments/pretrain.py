"""Pre-training of a small backbone on CIFAR or characters, for `--weights`.

Regenerates: no table; the network that every Cifar Collage experiment starts from (thesis section 5.3.2: "ResNet20
    pretrained on Cifar100 classification").
Command: python -m experiments.pretrain --dataset=cifar100 --backbone=resnet20 --data_dir=data --output=resnet20.npz
Expected: the thesis gives no figure.
Cost: 64,000 steps of 100 images, for a GPU; on 2 CPU cores estimated at hours. `--budget=smoke` a minute.

The thesis states no more, so we chose optimiser and length. It trains on all 100 classes, including those that the
collages use for validation and test; `--classes=collage_training` leaves these out, so that they stay unseen.

`--dataset=glyphs_latin --backbone=resnet10` makes the network for fine-tuning on `glyph_scripts`, from
Latin characters and symbols, without a download.
"""

from __future__ import annotations

from absl import flags

from common.errors import check_all, check_choice
from common.files import write_atomically
from common.progress import write_notice
from experiments.preparation.converted_weights import check_output
from experiments.preparation.machine import device_line
from experiments.preparation.pretrain_settings import BACKBONES, BUDGET_SETTINGS, DATASETS, PretrainSettings
from experiments.settings import flags as experiment_flags
from experiments.settings.run_settings import BUDGETS


def main() -> None:
    """Train the network unless finished, and write its parameters."""
    values = flags.FLAGS
    write_notice(device_line())
    from experiments.preparation.pretraining import load_images, pretrain, run_of

    *_, dataset = check_all(
        [
            lambda: check_choice("--budget", values.budget, BUDGETS),
            lambda: check_choice("--backbone", values.backbone, BACKBONES),
            lambda: check_output(values.output),
            lambda: load_images(values.dataset, values.data_dir, values.classes),
        ]
    )
    settings = PretrainSettings(backbone=values.backbone, seed=values.seed, **BUDGET_SETTINGS[values.budget])
    run = run_of(settings, dataset, values.classes, values.runs_dir)
    with run.locked():
        result = pretrain(settings, dataset, run, values.checkpoint_seconds)
    write_atomically(values.output, lambda file: file.write((run.path / "backbone.npz").read_bytes()))
    best = result["validation"]["best"]
    for deviation in result["deviations"]:
        print(f"not the official data: {deviation}")
    print(
        f"{values.output}: {values.backbone}, {100 * best['accuracy']:.2f} % of the test images of "
        f"{dataset.train.num_classes} classes right at step {best['step']}; give it as --weights={values.output}"
    )


if __name__ == "__main__":
    flags.DEFINE_string("dataset", "cifar100", f"One of {', '.join(DATASETS)}.")
    flags.DEFINE_string("data_dir", None, "Folder of CIFAR, which prepare_data fetches; characters need none.")
    flags.DEFINE_string("backbone", "resnet20", f"One of {', '.join(BACKBONES)}.")
    flags.DEFINE_string("classes", "all", "all (the thesis), or collage_training: those of training collages alone.")
    flags.DEFINE_string("output", "resnet20.npz", "The .npz file to write.")
    flags.DEFINE_string("runs_dir", "runs", "Folder for checkpoints and results.")
    flags.DEFINE_string("budget", "full", f"Length of training: {', '.join(BUDGETS)}.")
    flags.DEFINE_integer("seed", 0, "Of everything random.", lower_bound=0)
    experiment_flags.define(*experiment_flags.SESSION_FLAGS)
    experiment_flags.run_command(main)
