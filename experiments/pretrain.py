"""Trains a small backbone to classify CIFAR or characters, and writes its parameters for `--weights`.

Regenerates: no table; the network that every Cifar Collage experiment starts from (thesis section 5.3.2: "ResNet20
    pretrained on Cifar100 classification").
Command: python -m experiments.pretrain --dataset=cifar100 --backbone=resnet20 --data_dir=data --output=resnet20.npz
Expected: the thesis gives no figure.
Cost: 64,000 steps of 100 images, for a GPU; on 2 CPU cores estimated at hours. `--budget=smoke` a minute.

The thesis says no more than that, so optimiser and length are ours. It trains on all 100 classes, also those that the
collages validate and test with; `--classes=collage_training` leaves these out, so that they are unseen.

`--dataset=glyphs_latin --backbone=resnet10` makes the network that `glyph_scripts` is fine-tuned from, from
Latin characters and symbols, which need no download.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import pathlib

from absl import flags

from experiments.quiet_start import quiet_start

with quiet_start():
    import numpy as np
    import tensorflow as tf
    from tensorflow import keras

    from common import backbones, data
    from common.losses import MetricLoss
    from common.ops.checks import check_choice, check_given, invalid
    from common.pooling import GlobalAveragePooling
    from common.training import (
        CoupledWeightDecay,
        EmbeddingHead,
        EmbeddingModel,
        RunDirectory,
        TrainingCost,
        TrainingSchedule,
        TwoSpeedOptimizer,
        fit,
        training_session,
        write_atomically,
    )
    from experiments import build
    from experiments import flags as experiment_flags
    from experiments.convert_weights import check_output
    from experiments.recipes import BUDGETS

GLYPHS = "glyphs_latin"

DATASETS = ("cifar100", "cifar10", GLYPHS)
BACKBONES = {"resnet20": backbones.resnet20, "resnet10": backbones.resnet10}
CLASSES = ("all", "collage_training")
BUDGET_SETTINGS = {
    "full": {},
    "demo": {"max_steps": 1000, "steps_per_evaluation": 200},
    "smoke": {"max_steps": 8, "steps_per_evaluation": 4},
}
_EVALUATION_BATCH = 500


@dataclasses.dataclass(frozen=True)
class PretrainSettings:
    """Everything that decides the outcome, but the data.

    Attributes:
        backbone: one of `BACKBONES`.
        seed: of everything random.
        max_steps: update steps.
        steps_per_evaluation: between two looks at the accuracy.
        patience: looks without improvement after which training stops.
        plateau_patience: the same, after which the learning rate is halved.
        classes_per_batch: at most so many classes.
        samples_per_class: images of each in a batch.
        learning_rate: of Adam.
        weight_decay: coupled, see `CoupledWeightDecay`.
    """

    backbone: str = "resnet20"
    seed: int = 0
    max_steps: int = 64_000
    steps_per_evaluation: int = 500
    patience: int = 40
    plateau_patience: int = 8
    classes_per_batch: int = 50
    samples_per_class: int = 2
    learning_rate: float = 1e-3
    weight_decay: float = 1e-4


class SoftmaxCrossEntropy(MetricLoss):
    """Mean cross-entropy of softmax(logits), where the head's embeddings are the logits of the classes.

    Input shape: logits `[batch, classes]`, labels `[batch]` from 0.
    Output: a scalar.
    """

    def __init__(self, **kwargs):
        super().__init__(normalization="none", **kwargs)

    def call(self, embeddings, labels, references=None):
        """The loss of a batch; it has no references."""
        del references
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, tf.cast(embeddings, tf.float32))
        return tf.reduce_mean(losses)


def pretrain(
    settings: PretrainSettings, dataset: data.Dataset, run: RunDirectory, checkpoint_seconds: float = 30.0
) -> dict:
    """Trains, or goes on, or only reads what is finished; `backbone.npz` in the run's folder has the parameters.

    Args:
        settings: see `PretrainSettings`.
        dataset: images whose training and test classes are the same.
        run: the folder.
        checkpoint_seconds: at least this long between two checkpoints.

    Returns:
        The result: `validation` (accuracy of the best look at the test images, and its step) and `steps`.
    """
    finished = run.read_result()
    if finished is not None:
        return finished
    with training_session(settings.seed):
        return _pretrain(settings, dataset, run, checkpoint_seconds)


def _pretrain(settings: PretrainSettings, dataset: data.Dataset, run: RunDirectory, checkpoint_seconds: float) -> dict:
    cost = TrainingCost()
    batches_from = functools.partial(_batches_from, settings, dataset.train)
    backbone = BACKBONES[settings.backbone](dataset.channels)
    head = EmbeddingHead(GlobalAveragePooling(), dataset.train.num_classes)
    model = EmbeddingModel(backbone, head, SoftmaxCrossEntropy(), normalization="none")
    model.build_on(*next(iter(batches_from(0))))
    history = fit(
        model,
        batches_from,
        lambda: {"accuracy": accuracy(model, dataset.test)},
        run,
        TrainingSchedule(
            max_steps=settings.max_steps,
            steps_per_evaluation=settings.steps_per_evaluation,
            patience=settings.patience,
            plateau_patience=settings.plateau_patience,
            monitor="accuracy",
            checkpoint_seconds=checkpoint_seconds,
        ),
        lambda: TwoSpeedOptimizer(keras.optimizers.Adam(settings.learning_rate)),
        [CoupledWeightDecay(settings.weight_decay, model)],
        extra_callbacks=[cost],
        description=f"{settings.backbone} on {dataset.name}",
    )
    backbones.save_parameters(backbone, run.path / "backbone.npz")
    result = {
        "validation": {"best": history["best"]},
        "steps": history["steps"],
        "seed": settings.seed,
        **cost.as_dict(),
        "deviations": list(dataset.deviations),
    }
    run.write_result(result, {}, model.get_weights())
    return check_given("result", run.read_result())


def _batches_from(settings: PretrainSettings, train: data.Examples, step: int) -> tf.data.Dataset:
    classes = min(settings.classes_per_batch, train.num_classes)
    batches = data.ClassBalancedBatches(train.labels, classes, settings.samples_per_class, settings.seed)
    # A character that is turned round is another one.
    augmentation = data.RandomShift(4, flip=True) if train.arrays.shape[-1] == 3 else data.RandomShift(2)
    return data.training_batches(train, batches, augmentation, settings.seed, start_step=step)


def accuracy(model: EmbeddingModel, examples: data.Examples) -> float:
    """Share of images whose largest logit is that of their class."""
    logits = model.embed(data.evaluation_batches(examples, data.Identity(), _EVALUATION_BATCH))
    return float(np.mean(logits.argmax(axis=1) == examples.labels))


def load_images(name: str, data_dir: str | None, classes: str) -> data.Dataset:
    """CIFAR with the official division, of all classes or of those that training collages are made of; or glyphs.

    Raises:
        InvalidInput: the data are not there, or the data set has no collages with such a division.
    """
    check_choice("--classes", classes, CLASSES)
    if check_choice("--dataset", name, DATASETS) == GLYPHS:
        dataset = data.load_latin_glyphs(cache_dir=build.default_cache_dir())
    else:
        dataset = build.load_dataset(name, data_dir, None, 0)
    if classes == "all":
        return dataset
    if name != "cifar100":
        raise invalid("--classes", received=classes, expected="all", fix="Only CIFAR-100 has the thesis' collages.")
    chosen = np.array(data.collage_training_classes(data_dir))
    return dataclasses.replace(
        dataset,
        train=dataset.train.select_classes(chosen),
        test=dataset.test.select_classes(chosen),
        class_names=tuple(dataset.class_names[label] for label in chosen),
    )


def main() -> None:
    """Trains what is missing and writes the parameters."""
    values = flags.FLAGS
    check_choice("--budget", values.budget, BUDGETS)
    check_choice("--backbone", values.backbone, BACKBONES)
    check_output(values.output)
    dataset = load_images(values.dataset, values.data_dir, values.classes)
    settings = PretrainSettings(backbone=values.backbone, seed=values.seed, **BUDGET_SETTINGS[values.budget])
    identity = {
        **dataclasses.asdict(settings),
        "dataset": dataset.name,
        "classes": values.classes,
        "data": build.data_fingerprint(dataset),
    }
    digest = hashlib.sha256(repr(sorted(identity.items())).encode()).hexdigest()[:10]
    name = f"{values.backbone}-{dataset.name}-{values.classes}-{digest}"
    run = RunDirectory(pathlib.Path(values.runs_dir) / "pretrain" / name, identity)
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


def define_flags() -> None:
    """Defines the command's flags."""
    flags.DEFINE_string("dataset", "cifar100", f"One of {', '.join(DATASETS)}.")
    flags.DEFINE_string("data_dir", None, "Folder of CIFAR, which prepare_data fetches; characters need none.")
    flags.DEFINE_string("backbone", "resnet20", f"One of {', '.join(BACKBONES)}.")
    flags.DEFINE_string("classes", "all", "all (the thesis), or collage_training: those of training collages alone.")
    flags.DEFINE_string("output", "resnet20.npz", "The .npz file to write.")
    flags.DEFINE_string("runs_dir", "runs", "Folder for checkpoints and results.")
    flags.DEFINE_string("budget", "full", f"Length of training: {', '.join(BUDGETS)}.")
    flags.DEFINE_integer("seed", 0, "Of everything random.", lower_bound=0)
    experiment_flags.define_session_flags()


if __name__ == "__main__":
    define_flags()
    experiment_flags.run_command(main)
