"""Settings of training a classifier; without TensorFlow, for `--help`."""

from __future__ import annotations

import dataclasses

GLYPHS = "glyphs_latin"
DATASETS = ("cifar100", "cifar10", GLYPHS)
BACKBONES = ("resnet20", "resnet10")
CLASSES = ("all", "collage_training")
BUDGET_SETTINGS = {
    "full": {},
    "demo": {"max_steps": 1000, "steps_per_evaluation": 200},
    "smoke": {"max_steps": 8, "steps_per_evaluation": 4},
}


@dataclasses.dataclass(frozen=True)
class PretrainSettings:
    """Everything except the data that decides the outcome."""

    backbone: str = "resnet20"
    seed: int = 0
    max_steps: int = 64_000
    steps_per_evaluation: int = 500
    patience: int = 40  # validations without improvement after which training stops
    plateau_patience: int = 8  # the same, after which the learning rate is halved
    classes_per_batch: int = 50  # the largest number of classes in a batch
    samples_per_class: int = 2
    learning_rate: float = 1e-3
    weight_decay: float = 1e-4  # coupled, see `CoupledWeightDecay`
